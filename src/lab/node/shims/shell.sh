#!/bin/sh
# The node's shell: a script of the node's root folder runs with its paths mapped. All else is as always.
. '@ROOT@/.lab/lib.sh'
shell='@SHELL@'

# Options before the script, kept one by one behind the mark so that "$@" stays intact.
options=
while [ $# -gt 0 ]; do
    case $1 in
        -o | +o | -O | +O)
            options="$options $1 ${2:-}"
            shift
            [ $# -eq 0 ] || shift
            ;;
        -- | -s | -) break ;;
        --*) options="$options $1" && shift ;;
        -*c*)
            flags=$1 text=${2:-}
            shift
            [ $# -eq 0 ] || shift
            case $text in
                @CANDIDATES@) text=$(map "$text") ;;
            esac
            # shellcheck disable=SC2086
            exec "$shell" $options "$flags" "$text" "$@"
            ;;
        -* | +*) options="$options $1" && shift ;;
        *) break ;;
    esac
done
script=${1:-}
[ "$script" != -- ] || script=${2:-}
case $script in
    '' | -*) ;;
    *)
        case $script in
            /*) place=$script ;;
            *) place=$PWD/$script ;;
        esac
        case $place in
            "$root"/*)
                if [ -f "$script" ] && [ -r "$script" ]; then
                    [ "$1" != -- ] || shift
                    shift
                    text=$(LC_ALL=C sed -E -f "$lab/map.sed" "$script")
                    # shellcheck disable=SC2086
                    exec "$shell" $options -c "$text" "$script" "$@"
                fi
                ;;
        esac
        ;;
esac
# shellcheck disable=SC2086
exec "$shell" $options "$@"
