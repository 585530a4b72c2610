#!/bin/bash
# Makes a cluster in $PGDATA, unless there is one, with the superuser POSTGRES_USER, POSTGRES_PASSWORD and the database
# POSTGRES_DB, and runs the command as the user postgres. What the official image does beyond that is left out.
set -eu

if [ "$1" = postgres ] && [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA"
	chown -R postgres:postgres "$PGDATA"
	chmod 0700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$BASH_SOURCE" "$@"
fi

if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
	user=${POSTGRES_USER:-postgres}
	database=${POSTGRES_DB:-$user}
	: "${POSTGRES_PASSWORD:?is needed to make a cluster}"
	initdb --auth-host=scram-sha-256 --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") ${POSTGRES_INITDB_ARGS:-}
	printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
	printf "listen_addresses = '*'\n" >>"$PGDATA/postgresql.conf"
	if [ "$database" != postgres ]; then
		# Without a network: whoever waits for the port must not meet this one.
		echo "CREATE DATABASE \"$database\"" | postgres --single -D "$PGDATA" postgres >/dev/null
	fi
fi

exec "$@"
