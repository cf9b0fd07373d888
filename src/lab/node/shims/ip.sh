#!/bin/sh
# ip of a lab node: it shows the addresses, and knows nothing else.
oneline=
family=46
for word in "$@"; do
    case $word in
        -o | -oneline) oneline=yes ;;
        -4) family=4 ;;
        -6) family=6 ;;
        a | addr | address | s | show | list | -br | dev | eth0 | up | scope | global) ;;
        *)
            printf 'ip: %s is not known to this stand-in, only "ip [-o] [-4|-6] addr"\n' "$word" >&2
            exit 1
            ;;
    esac
done
[ -n "$oneline" ] || printf '2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP\n'
for address in @ADDRESSES@; do
    case $address in
        *:*) kind=6 line="inet6 $address/64 scope global" ;;
        *) kind=4 line="inet $address/24 scope global eth0" ;;
    esac
    case $family in
        *$kind*)
            if [ -n "$oneline" ]; then
                printf '2: eth0    %s\n' "$line"
            else
                printf '    %s\n' "$line"
            fi
            ;;
    esac
done
