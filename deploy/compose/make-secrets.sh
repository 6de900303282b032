#!/bin/sh
# Draw the secrets of the compose files into deploy/compose/secrets; those that are there stay as they are.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
umask 077
draw() {
    [ -s "secrets/$1" ] || head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' > "secrets/$1"
}
for name in postgres_password token worker_token operator_token admin_token; do
    draw "$name"
done
[ -s secrets/database_url ] || printf 'postgresql://durable_workflow:%s@postgres:5432/durable_workflow' \
    "$(cat secrets/postgres_password)" > secrets/database_url
# The server runs as a user of its own and reads them through a bind mount.
chmod 0644 secrets/*
echo "The secrets are in $(pwd)/secrets."
