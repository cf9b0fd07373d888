#!/bin/sh
# Runs commands of cksd on a node. Pushed by content hash into ~/.cksd of the login user, never edited there.
#
#   exec INSTALLATION EPOCH reads|changes -- WORDS...   runs a short command in place
#   run INSTALLATION EPOCH KEY -- WORDS...              starts a long one detached, unless KEY ever began
#   ask INSTALLATION EPOCH KEY                          says how far it is
#   follow INSTALLATION EPOCH KEY SECONDS               waits for its end, then says how far it is
#   stop INSTALLATION EPOCH KEY                         ends it, or marks it so that it never begins
#   fence                                               says what the fence holds
#   take-over INSTALLATION EPOCH                        writes the fence whatever stands there
#
# Every answer begins with a line "@@cksd ..." on both streams: what stands before it is noise of login files.
# WORDS are run as they are, without another shell, so that sudo's journal shows the plain command.
#
# ~/.cksd/fence          "INSTALLATION EPOCH": the highest epoch of a command that changed something
# ~/.cksd/runs/KEY/begun "run PID START BOOT SINCE", or "never ..." when stopped before it began. It comes into
#                        being by link(2), complete and once: whoever links it owns the key.
# ~/.cksd/runs/KEY/end   "exit CODE AT", "signal NAME AT" or "lost - AT", by link(2) as well
# ~/.cksd/runs/KEY/out, err   what it printed

set -u
umask_was=$(umask)
umask 077
base=${HOME:-.}/.cksd
tail_bytes=65536
keep_seconds=604800
keep_runs=200

say() {
    printf '\n@@cksd %s\n' "$*"
    printf '\n@@cksd %s\n' "$*" >&2
}

# 94 and 95 are for people; the line is what counts.
refuse() {
    say "refused $*"
    exit 94
}

broken() {
    say "broken $*"
    exit 95
}

now() { date +%s; }

# Some sleeps take whole seconds only.
nap() { sleep 0.2 2>/dev/null || sleep 1; }

boot_id() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo none; }

# proc_stat PID: sets st_state, st_ppid, st_session, st_start. The name in parentheses may hold anything.
proc_stat() {
    st_line=
    { IFS= read -r st_line; } 2>/dev/null <"/proc/$1/stat"
    [ -n "$st_line" ] || return 1
    # shellcheck disable=SC2086
    set -- ${st_line##*") "}
    [ $# -ge 20 ] || return 1
    st_state=$1 st_ppid=$2 st_session=$4
    shift 19
    st_start=$1
}

# ---- The fence -----------------------------------------------------------------------------------------

# Sets f_installation and f_epoch, empty without a fence; fails on a file that cannot be understood.
read_fence() {
    f_installation='' f_epoch=''
    [ -e "$base/fence" ] || return 0
    { read -r f_installation f_epoch; } 2>/dev/null <"$base/fence"
    [ -n "$f_installation" ] || return 1
    is_number "$f_epoch"
}

is_number() {
    case $1 in
        '' | *[!0-9]*) return 1 ;;
    esac
}

write_fence() {
    printf '%s %s\n' "$1" "$2" >"$base/fence.$$" 2>/dev/null && mv -f "$base/fence.$$" "$base/fence" 2>/dev/null
}

# Check and raise happen under one lock. The kernel gives flock's back when its holder dies.
lock() {
    (: >>"$base/fence.lock") 2>/dev/null || broken "cannot write in $base"
    if command -v flock >/dev/null 2>&1; then
        exec 9>>"$base/fence.lock"
        flock 9 || broken "cannot lock $base/fence.lock"
        return
    fi
    # Without flock: a folder, with its holder's pid and start time so that a dead holder's is taken away.
    l_tries=0
    until mkdir "$base/fence.held" 2>/dev/null; do
        l_pid='' l_start=''
        { read -r l_pid l_start; } 2>/dev/null <"$base/fence.held/holder"
        l_tries=$((l_tries + 1))
        l_dead=no
        if [ -n "$l_pid" ]; then
            { proc_stat "$l_pid" && [ "$st_start" = "$l_start" ]; } || l_dead=yes
        elif [ "$l_tries" -gt 25 ]; then
            l_dead=yes
        fi
        if [ "$l_dead" = yes ]; then
            mv "$base/fence.held" "$base/fence.dead.$$" 2>/dev/null && rm -rf "$base/fence.dead.$$"
        elif [ "$l_tries" -gt 50 ]; then
            broken "the fence is held by process $l_pid"
        else
            nap
        fi
    done
    proc_stat $$ || st_start=0
    printf '%s %s\n' "$$" "$st_start" >"$base/fence.held/holder"
}

unlock() {
    if command -v flock >/dev/null 2>&1; then
        exec 9>&-
    else
        rm -rf "$base/fence.held"
    fi
}

# check INSTALLATION EPOCH reads|changes: returns only if the command may go on.
check() {
    [ -n "$1" ] || broken "no installation"
    is_number "$2" || broken "the epoch $2 is no number"
    [ -d "$base" ] || mkdir -p "$base" 2>/dev/null || broken "cannot make $base"
    if [ "$3" = reads ]; then
        read_fence || refuse "unreadable - 0"
        [ -z "$f_installation" ] || [ "$f_installation" = "$1" ] || refuse "other $f_installation $f_epoch"
        return 0
    fi
    lock
    c_verdict=ok
    if ! read_fence; then
        c_verdict='unreadable - 0'
    elif [ -n "$f_installation" ] && [ "$f_installation" != "$1" ]; then
        c_verdict="other $f_installation $f_epoch"
    elif [ -n "$f_installation" ] && [ "$2" -lt "$f_epoch" ]; then
        c_verdict="older $f_installation $f_epoch"
    elif [ -z "$f_installation" ] || [ "$2" -gt "$f_epoch" ]; then
        write_fence "$1" "$2" || c_verdict=unwritten
    fi
    unlock
    case $c_verdict in
        ok) ;;
        unwritten) broken "cannot write $base/fence" ;;
        *) refuse "$c_verdict" ;;
    esac
}

take_over() {
    [ -n "$1" ] || broken "no installation"
    is_number "$2" || broken "the epoch $2 is no number"
    [ -d "$base" ] || mkdir -p "$base" 2>/dev/null || broken "cannot make $base"
    lock
    t_epoch=$2
    # An epoch of our own only rises.
    if read_fence && [ "$f_installation" = "$1" ] && [ "$f_epoch" -gt "$2" ]; then t_epoch=$f_epoch; fi
    if write_fence "$1" "$t_epoch"; then t_done=yes; else t_done=no; fi
    unlock
    [ "$t_done" = yes ] || broken "cannot write $base/fence"
    say "fence $1 $t_epoch"
}

# ---- Long commands -------------------------------------------------------------------------------------

# Sets dir for a key, which is a plain file name.
run_dir() {
    case $1 in
        '' | .* | *[!A-Za-z0-9._-]*) broken "the key $1 is no plain name" ;;
    esac
    dir=$base/runs/$1
}

# once FILE TEXT: makes FILE with that text, complete, unless it is there.
once() {
    printf '%s\n' "$2" >"$1.$$" 2>/dev/null || return 2
    if ln "$1.$$" "$1" 2>/dev/null; then o_made=0; else o_made=1; fi
    rm -f "$1.$$"
    return "$o_made"
}

# Sets b_kind, b_pid, b_start, b_boot, b_since.
read_begun() {
    b_kind='' b_pid='' b_start='' b_boot='' b_since=''
    { read -r b_kind b_pid b_start b_boot b_since; } 2>/dev/null <"$dir/begun"
    [ -n "$b_since" ]
}

# Whether the process that read_begun told of, or something of its session, is there. The start time and the
# boot tell a later process with the same number apart.
lives() {
    [ "$b_boot" = "$(boot_id)" ] || return 1
    if proc_stat "$b_pid"; then
        [ "$st_start" = "$b_start" ] || return 1
        [ "$st_state" = Z ] || return 0
    fi
    for v_path in /proc/[0-9]*; do
        proc_stat "${v_path#/proc/}" || continue
        [ "$st_session" = "$b_pid" ] && [ "$st_state" != Z ] && return 0
    done
    return 1
}

# When something last came from a command that nobody saw ending.
last_sign() {
    s_at=$b_since
    for s_file in "$dir/out" "$dir/err"; do
        s_time=$(date -r "$s_file" +%s 2>/dev/null) || continue
        is_number "$s_time" && [ "$s_time" -gt "$s_at" ] && s_at=$s_time
    done
    echo "$s_at"
}

# Says how far the key in dir is. The tails follow, each on its own stream.
report() {
    if ! read_begun || [ "$b_kind" = never ]; then
        say "state none"
        return 0
    fi
    if [ ! -e "$dir/end" ]; then
        if lives; then
            say "state running $b_since"
            return 0
        fi
        # It may have ended between the two looks; then its own record stands.
        once "$dir/end" "lost - $(last_sign)"
    fi
    e_kind='' e_value='' e_at=''
    { read -r e_kind e_value e_at; } 2>/dev/null <"$dir/end"
    [ -n "$e_at" ] || broken "cannot read $dir/end"
    say "state ended $b_since $e_at $e_kind $e_value"
    [ ! -e "$dir/out" ] || tail -c "$tail_bytes" "$dir/out"
    [ ! -e "$dir/err" ] || tail -c "$tail_bytes" "$dir/err" >&2
}

# Finished runs go after a week, and the oldest of them when there are too many.
prune() {
    p_now=$(now)
    for p_dir in "$base"/runs/*; do
        p_at=''
        { read -r _ _ p_at; } 2>/dev/null <"$p_dir/end"
        is_number "$p_at" && [ $((p_now - p_at)) -gt "$keep_seconds" ] && rm -rf "$p_dir"
    done
    # Keys are plain names, so the list may be split into words.
    # shellcheck disable=SC2046,SC2012
    set -- $(ls -1tr "$base/runs" 2>/dev/null)
    p_left=$#
    for p_key in "$@"; do
        [ "$p_left" -gt "$keep_runs" ] || break
        [ -e "$base/runs/$p_key/end" ] || continue
        rm -rf "$base/runs/${p_key:?}"
        p_left=$((p_left - 1))
    done
}

# run_it WORDS...: starts them, unless the key in dir ever began, and says how far it is.
run_it() {
    if ! read_begun; then
        prune
        mkdir -p "$dir" 2>/dev/null || broken "cannot make $dir"
        umask "$umask_was"
        if command -v setsid >/dev/null 2>&1; then
            setsid sh "$0" runner "$dir" "$@" </dev/null >/dev/null 2>&1 &
        else
            nohup sh "$0" runner "$dir" "$@" </dev/null >/dev/null 2>&1 &
        fi
        umask 077
        i_tries=0
        until read_begun; do
            i_tries=$((i_tries + 1))
            [ "$i_tries" -le 75 ] || broken "the command has not begun after 15 s"
            nap
        done
    fi
    report
}

# runner DIR WORDS...: the detached process. Of several that start at once, the one that links begun goes on.
runner() {
    dir=$1
    shift
    trap '' HUP
    proc_stat $$ || st_start=0
    once "$dir/begun" "run $$ $st_start $(boot_id) $(now)" || exit 0
    umask "$umask_was"
    "$@" </dev/null >"$dir/out" 2>"$dir/err"
    r_code=$?
    umask 077
    # A shell cannot tell a signal from a program that exits with 128 and more by itself; none of ours does.
    r_how="exit $r_code"
    if [ "$r_code" -gt 128 ] && [ "$r_code" -le 192 ]; then
        r_name=$(kill -l "$r_code" 2>/dev/null) && [ -n "$r_name" ] && r_how="signal $r_name"
    fi
    once "$dir/end" "$r_how $(now)"
}

# The line every 5 s stands before the answer, where it is noise; it ends the following when nobody listens
# any more, which would otherwise hold one of the few sessions that sshd allows.
follow() {
    w_until=$(($(now) + $1))
    w_round=0
    while [ ! -e "$dir/end" ] && read_begun; do
        if [ $((w_round % 5)) -eq 0 ]; then
            lives || break
            [ "$(now)" -lt "$w_until" ] || break
            [ $((w_round % 25)) -ne 20 ] || echo 2>/dev/null || exit 95
        fi
        w_round=$((w_round + 1))
        nap
    done
    report
}

# Everything that the runner started, without itself: its session, and the children of those (sudo may give a
# command a session of its own).
members() {
    m_all=''
    for m_path in /proc/[0-9]*; do
        proc_stat "${m_path#/proc/}" || continue
        [ "$st_state" = Z ] && continue
        m_all="$m_all ${m_path#/proc/}:$st_ppid:$st_session"
    done
    m_found=" $b_pid "
    m_more=yes
    while [ "$m_more" = yes ]; do
        m_more=no
        for m_one in $m_all; do
            m_pid=${m_one%%:*}
            m_rest=${m_one#*:}
            case $m_found in *" $m_pid "*) continue ;; esac
            case $m_found in
                *" ${m_rest%%:*} "*) ;;
                *) [ "${m_rest#*:}" = "$b_pid" ] || continue ;;
            esac
            m_found="$m_found$m_pid "
            m_more=yes
        done
    done
    echo "${m_found#" $b_pid "}"
}

# signal_members NAME: what belongs to root is signalled through sudo.
signal_members() {
    for g_pid in $(members); do
        kill -s "$1" "$g_pid" 2>/dev/null && continue
        [ ! -d "/proc/$g_pid" ] || sudo kill -s "$1" "$g_pid" </dev/null >/dev/null 2>&1
    done
}

# await_end ROUNDS: whether it ended within that many naps.
await_end() {
    a_round=0
    while [ ! -e "$dir/end" ] && lives; do
        a_round=$((a_round + 1))
        [ "$a_round" -le "$1" ] || return 1
        nap
    done
}

stop() {
    mkdir -p "$dir" 2>/dev/null || broken "cannot make $dir"
    s_now=$(now)
    if once "$dir/begun" "never 0 0 none $s_now"; then
        once "$dir/end" "never - $s_now"
    fi
    read_begun || broken "cannot write $dir"
    if [ "$b_kind" = run ] && [ ! -e "$dir/end" ] && lives; then
        signal_members TERM
        if ! await_end 50; then
            signal_members KILL
            if ! await_end 15; then
                kill -s KILL "$b_pid" 2>/dev/null
                await_end 15 || broken "process $b_pid does not end"
            fi
        fi
    fi
    report
}

# ---- Verbs ---------------------------------------------------------------------------------------------

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
    exec)
        [ $# -ge 5 ] && [ "$4" = -- ] || broken "exec: wrong arguments"
        check "$1" "$2" "$3"
        shift 4
        say go
        umask "$umask_was"
        exec "$@"
        ;;
    run)
        [ $# -ge 5 ] && [ "$4" = -- ] || broken "run: wrong arguments"
        run_dir "$3"
        check "$1" "$2" changes
        shift 4
        run_it "$@"
        ;;
    ask)
        [ $# -eq 3 ] || broken "ask: wrong arguments"
        run_dir "$3"
        check "$1" "$2" reads
        report
        ;;
    follow)
        [ $# -eq 4 ] && is_number "$4" || broken "follow: wrong arguments"
        run_dir "$3"
        check "$1" "$2" reads
        follow "$4"
        ;;
    stop)
        [ $# -eq 3 ] || broken "stop: wrong arguments"
        run_dir "$3"
        check "$1" "$2" changes
        stop
        ;;
    fence)
        read_fence || refuse "unreadable - 0"
        say "fence ${f_installation:-none} ${f_epoch:-0}"
        ;;
    take-over)
        [ $# -eq 2 ] || broken "take-over: wrong arguments"
        take_over "$1" "$2"
        ;;
    runner)
        [ $# -ge 2 ] || exit 95
        runner "$@"
        ;;
    *) broken "unknown verb $verb" ;;
esac
