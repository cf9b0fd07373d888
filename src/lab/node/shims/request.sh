#!/bin/sh
# @NAME@ of a lab node: the lab answers.
. '@ROOT@/.lab/lib.sh'
request '@NAME@' "$@"
