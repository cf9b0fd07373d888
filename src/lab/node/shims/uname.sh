#!/bin/sh
# uname of a lab node: its own name, the rest of the machine that the lab runs on.
case $* in
    -n | --nodename) printf '%s\n' '@HOSTNAME@' ;;
    *) PATH='@SYSTEM_PATH@' exec uname "$@" ;;
esac
