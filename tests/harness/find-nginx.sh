#!/bin/sh
# Leave an nginx for the tests in the folder $1: that of this machine, or that of Debian's package, whose signature apt
# checks. Where neither can be had, say so; the tests that need it are skipped then.
set -eu
mkdir -p "$1"
target=$(cd "$1" && pwd)/nginx
for found in "$(command -v nginx || true)" /usr/sbin/nginx; do
    if [ -x "$found" ]; then
        ln -sf "$found" "$target"
        exit 0
    fi
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null \
    && (cd "$folder" && timeout 60 apt-get download -qq nginx && dpkg-deb -x nginx_*.deb .) > "$folder/log" 2>&1; then
    mv "$folder/usr/sbin/nginx" "$target"
else
    echo "There is no nginx here: tests of the gateway will be skipped. Install nginx to run them."
fi
