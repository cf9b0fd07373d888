#!/bin/sh
# hostname of a lab node.
case ${1:-} in
    -I | --all-ip-addresses | -i | --ip-address) printf '%s\n' '@ADDRESSES@' ;;
    '' | -s | --short | -f | --fqdn | --long) printf '%s\n' '@HOSTNAME@' ;;
    *)
        printf 'hostname: %s is not known to this stand-in\n' "$1" >&2
        exit 1
        ;;
esac
