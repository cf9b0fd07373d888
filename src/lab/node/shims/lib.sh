# Shared by the node's stand-ins. Plain POSIX sh, and no process started that a shell can do without:
# every kubectl call of the service passes here.
root='@ROOT@'
lab="$root/.lab"
login='@LOGIN@'
node='@HOSTNAME@'
newline='
'

# Maps the paths of a text into the root folder.
map() {
    printf '%s\n' "$1" | LC_ALL=C sed -E -f "$lab/map.sed"
}

# Takes the root folder out of a text again, and puts it on one line; the result is in $plain.
plain() {
    rest=$1 plain=
    while :; do
        case $rest in
            *"$root"*) plain=$plain${rest%%"$root"*} rest=${rest#*"$root"} ;;
            *) break ;;
        esac
    done
    rest=$plain$rest plain=
    while :; do
        case $rest in
            *"$newline"*) plain="$plain${rest%%"$newline"*}#012" rest=${rest#*"$newline"} ;;
            *) break ;;
        esac
    done
    plain=$plain$rest
}

# Writes one line into the node's journal: tag, id, text.
note() {
    printf '%s %s %s[%s]: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" "$node" "$1" "$2" "$3" >>"$lab/journal"
}

# Writes how something ended. It has no time of its own: asking for one starts a process.
note_exit() {
    printf -- '- %s exit[%s]: %s\n' "$node" "$1" "$2" >>"$lab/journal"
}

# Asks the lab for something and shows its answer; the code of the answer is the result.
request() {
    box=$(mktemp -d "$lab/requests/r.XXXXXX") || return 1
    printf '%s\n' "${USER:-$login}" "$@" >"$box/words"
    mkfifo "$box/done" || return 1
    # Opened for both, so that neither side waits for the other to open it.
    exec 4<>"$box/done"
    printf '%s\n' "${box##*/}" 1<>"$lab/requests.fifo"
    read -r code <&4
    exec 4<&-
    [ ! -s "$box/out" ] || cat "$box/out"
    [ ! -s "$box/err" ] || cat "$box/err" >&2
    rm -rf "$box"
    return "$code"
}
