#!/bin/sh
# sudo of a lab node: maps the paths of the command, keeps a journal as sudo does, runs it as "root" of the
# node (its own home and kubeconfig), hands signals on and returns its exit code.
. '@ROOT@/.lab/lib.sh'

user=root
as_shell=
while [ $# -gt 0 ]; do
    case $1 in
        -n | -E | -H | -S | -P | -A | --non-interactive | --preserve-env* | --set-home | --stdin) shift ;;
        -nE | -En | -nH | -Hn | -nS | -EH | -HE | -nEH) shift ;;
        -u | --user) user=${2:-} && shift && [ $# -gt 0 ] && shift ;;
        -nu | -Hu | -Eu) user=${2:-} && shift && [ $# -gt 0 ] && shift ;;
        --user=*) user=${1#--user=} && shift ;;
        -u*) user=${1#-u} && shift ;;
        -g | -p | -C | -h | -r | -t | -T | -D) shift && [ $# -gt 0 ] && shift ;;
        -i | -s | --login | --shell) as_shell=yes && shift ;;
        -v | -k | -K | --validate | --reset-timestamp) exit 0 ;;
        -l | --list)
            printf 'User %s may run the following commands on %s:\n    (ALL : ALL) NOPASSWD: ALL\n' "${USER:-$login}" "$node"
            exit 0
            ;;
        --) shift && break ;;
        -*)
            printf 'sudo: the option %s is not known to this stand-in\n' "$1" >&2
            exit 1
            ;;
        [A-Za-z_]*=*)
            case ${1%%=*} in
                *[!A-Za-z0-9_]*) break ;;
            esac
            export "${1?}"
            shift
            ;;
        *) break ;;
    esac
done
case $user in
    root | '#0') user=root home="$root/root" ;;
    *[!A-Za-z0-9_-]* | '') printf 'sudo: unknown user %s\n' "$user" >&2 && exit 1 ;;
    *)
        home="$root/home/$user"
        [ -d "$home" ] || { printf 'sudo: unknown user %s\n' "$user" >&2 && exit 1; }
        ;;
esac
if [ -n "$as_shell" ]; then
    if [ $# -gt 0 ]; then set -- sh -c "$*"; else set -- sh; fi
fi
if [ $# -eq 0 ]; then
    printf 'usage: sudo [-n] [-u user] [VAR=value] command [arg ...]\n' >&2
    exit 1
fi

# The words, each mapped. A word that is one path needs no sed.
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    case $word in
        @CANDIDATES@)
            case $word in
                *[!A-Za-z0-9/._+-]*) word=$(map "$word") ;;
                "$root" | "$root"/*) ;;
                @BEGINNINGS@) word=$root$word ;;
            esac
            ;;
    esac
    set -- "$@" "$word"
    count=$((count - 1))
done

# What runs: a path, or a name looked up as the shell does. A script of the node is run by the node's sh,
# which maps the paths inside it. The journal shows what was asked for.
program=$1
shift
arguments=${*:+ $*}
case $program in
    /bin/sh | /usr/bin/sh | /bin/bash | /usr/bin/bash)
        shown=$program
        set -- "$lab/bin/${program##*/}" "$@"
        ;;
    */*)
        shown=$program
        if [ ! -x "$program" ] || [ -d "$program" ]; then
            plain "$program"
            printf 'sudo: %s: command not found\n' "$plain" >&2
            exit 1
        fi
        case $program in
            /*) place=$program ;;
            *) place=$PWD/$program ;;
        esac
        interpreter=
        options=
        case $place in
            "$root"/*)
                if [ ! -L "$program" ]; then
                    first=$(head -c 80 "$program" | tr -d '\000' | head -n 1)
                    case $first in
                        '#!'*bash | '#!'*'bash '*) interpreter=$lab/bin/bash ;;
                        '#!'*sh | '#!'*'sh '*) interpreter=$lab/bin/sh ;;
                    esac
                    case $first in
                        '#!'*' -'*) options=-${first#* -} ;;
                    esac
                fi
                ;;
        esac
        if [ -n "$interpreter" ]; then
            # The options are words of their own.
            # shellcheck disable=SC2086
            set -- "$interpreter" $options "$program" "$@"
        else
            set -- "$program" "$@"
        fi
        ;;
    *)
        shown=$(command -v -- "$program")
        case $shown in
            '')
                printf 'sudo: %s: command not found\n' "$program" >&2
                exit 1
                ;;
            "$lab/bin/"*) shown=/usr/bin/$program ;;
            /*) ;;
            *) shown=/usr/bin/$program ;;
        esac
        set -- "$program" "$@"
        ;;
esac
plain "$PWD"
directory=${plain:-/}
plain "$shown$arguments"
note sudo "s$$" "${USER:-$login} : PWD=$directory ; USER=$user ; COMMAND=$plain"

SUDO_USER=${USER:-$login} USER=$user LOGNAME=$user HOME=$home
export SUDO_USER USER LOGNAME HOME
unset KUBECONFIG
if [ "$user" = root ] && [ ! -e "$home/.kube/config" ] && [ -e "$root/etc/kubernetes/admin.conf" ]; then
    KUBECONFIG=$root/etc/kubernetes/admin.conf
    export KUBECONFIG
fi

exec 3<&0
"$@" <&3 3<&- &
child=$!
exec 3<&-
trap 'kill -TERM "$child" 2>/dev/null' TERM
trap 'kill -HUP "$child" 2>/dev/null' HUP
trap 'kill -TERM "$child" 2>/dev/null' INT
while :; do
    wait "$child"
    code=$?
    # A signal to us ends the wait, not the command.
    kill -0 "$child" 2>/dev/null || break
done
note_exit "s$$" "$code"
exit "$code"
