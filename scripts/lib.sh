# shellcheck shell=bash
# What the scripts share: where things are, how a private Postgres is started. Read by the others with `source`.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
TOOLS=$TARGET/tools
export PATH="$TOOLS/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
# The checked queries are built from .sqlx/, whatever database the environment names.
export SQLX_OFFLINE=${SQLX_OFFLINE:-true}

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# The major version of the Postgres server in folder $1, or 0.
postgres_major() {
    local text
    text=$("$1/postgres" --version 2>/dev/null) || { echo 0; return; }
    text=${text##* (PostgreSQL) }
    text=${text##postgres }
    text=${text%%[!0-9]*}
    echo "${text:-0}"
}

# Prints the folder of the newest server binaries, 14 or newer. The order is that of `cksd up`.
postgres_bin() {
    local folder candidates=()
    [ -n "${CKSD_POSTGRES_BIN:-}" ] && candidates+=("$CKSD_POSTGRES_BIN")
    has pg_config && candidates+=("$(pg_config --bindir)")
    has initdb && candidates+=("$(dirname "$(readlink -f "$(command -v initdb)")")")
    while IFS= read -r folder; do candidates+=("$folder"); done < <(
        printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -Vr
    )
    candidates+=(/usr/bin "$TOOLS/postgres/bin")
    for folder in "${candidates[@]}"; do
        if [ -x "$folder/initdb" ] && [ "$(postgres_major "$folder")" -ge 14 ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

# Runs a command as the user that may run Postgres: ourselves, or another one when we are root.
as_postgres() {
    if [ "$(id -u)" != 0 ]; then
        (cd / && exec "$@")
        return
    fi
    local user=nobody
    id postgres >/dev/null 2>&1 && user=postgres
    (cd / && exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups \
        env -i PATH="$PATH" LANG=C TZ=UTC HOME=/ "$@")
}

# Starts a Postgres for this run only, in a folder of /tmp that its user can enter, on a socket and a random
# loopback port with a random password; exports DATABASE_URL. `stop_postgres` ends it.
start_postgres() {
    local bin password port try
    bin=$(postgres_bin) || die "no Postgres server, 14 or newer: run scripts/setup test"
    PG_FOLDER=$(mktemp -d /tmp/cksd-pg.XXXXXX)
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '%s\n' "$password" >"$PG_FOLDER/password"
    if [ "$(id -u)" = 0 ]; then
        local user=nobody
        id postgres >/dev/null 2>&1 && user=postgres
        chown -R "$user" "$PG_FOLDER"
    fi
    if ! as_postgres test -x "$bin/postgres"; then
        # Binaries below a folder that the other user cannot enter: give it a copy.
        cp -r "$bin/.." "$PG_FOLDER/install" && bin=$PG_FOLDER/install/bin
    fi
    PG_BIN=$bin
    as_postgres "$bin/initdb" -D "$PG_FOLDER/data" -U postgres --pwfile="$PG_FOLDER/password" -A scram-sha-256 \
        -E UTF8 --locale=C --no-sync >"$PG_FOLDER.log" 2>&1 || { cat "$PG_FOLDER.log" >&2; die "initdb failed"; }
    for try in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 12000))
        # What a test database loses in a power cut is of no interest, so fsync is off.
        if as_postgres "$bin/pg_ctl" -D "$PG_FOLDER/data" -l "$PG_FOLDER/log" -w -t 60 -s -o "-p $port -k $PG_FOLDER \
            -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=300 -c shared_buffers=128MB" start \
            >>"$PG_FOLDER.log" 2>&1; then
            rm -f "$PG_FOLDER.log"
            export DATABASE_URL="postgres://postgres:$password@127.0.0.1:$port/postgres"
            # Tests that need a server of their own (to stop it) start it from here.
            export CKSD_POSTGRES_BIN=$bin
            return 0
        fi
    done
    cat "$PG_FOLDER/log" >&2
    die "Postgres does not start (tried $try ports)"
}

stop_postgres() {
    [ -n "${PG_FOLDER:-}" ] || return 0
    as_postgres "$PG_BIN/pg_ctl" -D "$PG_FOLDER/data" -m immediate -s stop >/dev/null 2>&1 || true
    rm -rf "$PG_FOLDER" "$PG_FOLDER.log"
    PG_FOLDER=
}
