# Run by `sh -c` with the machine's id and the wrapper's file name: says which machine this is.
# The id stands where only root may read it on most systems.
printf '\n@@cksd proof\n'
for how in cat 'sudo cat'; do
    uuid=$($how /sys/class/dmi/id/product_uuid 2>/dev/null </dev/null)
    [ -z "$uuid" ] || printf 'uuid %s\n' "$uuid"
    [ "$(printf %s "$uuid" | tr A-F a-f)" = "$1" ] && break
done
printf 'host %s\n' "$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname 2>/dev/null)"
for address in $(hostname -I 2>/dev/null || ip -o addr show 2>/dev/null | awk '{ sub("/.*", "", $4); print $4 }'); do
    printf 'address %s\n' "$address"
done
if [ -r "${HOME:-.}/.cksd/$2" ]; then echo 'wrapper yes'; else echo 'wrapper no'; fi
