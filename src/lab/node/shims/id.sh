#!/bin/sh
# id and whoami of a lab node: the lab's own user plays all of them.
case ${USER:-@LOGIN@} in
    root) number=0 ;;
    *) number=1000 ;;
esac
case '@NAME@:'$* in
    id:-u | id:-g) printf '%s\n' "$number" ;;
    id:-un | id:-nu | id:-gn | whoami:) printf '%s\n' "${USER:-@LOGIN@}" ;;
    *) printf 'uid=%s(%s) gid=%s(%s)\n' "$number" "${USER:-@LOGIN@}" "$number" "${USER:-@LOGIN@}" ;;
esac
