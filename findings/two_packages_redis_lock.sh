#!/bin/sh
# python-redis-lock 4.0.1 and redis-lock-py 1.3.0 (PyPI; seen 2026-11-27, Python 3.11, pip 23.2.1)
# both install a package called redis_lock, and pip overwrites the one with the other without a word.
#
# Who meets it: a program that uses one of them and gets the other through a dependency. Which of the
# two works is decided by the order in which they were installed. The one that was overwritten still
# counts as installed, so pip does not repair it.
#
# Seen, as "Lock RedisLock" (the class of the first, of the second):
#     python-redis-lock, then redis-lock-py:  False True
#     redis-lock-py, then python-redis-lock:  True False
#     `pip check` names neither
#
# usage: two_packages_redis_lock.sh   exits with 1 when they behave in another way
set -eu

first=python-redis-lock==4.0.1
second=redis-lock-py==1.3.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0

# What is left after $1 and then $2 were installed is to be $3.
expect() {
	rm -rf "$folder/venv"
	python3 -m venv "$folder/venv"
	python="$folder/venv/bin/python"
	for package in redis==7.4.1 "$1" "$2"; do
		"$python" -m pip install -q --no-deps "$package"
	done
	seen=$("$python" -c 'import redis_lock
print(hasattr(redis_lock, "Lock"), hasattr(redis_lock, "RedisLock"))')
	told=$("$python" -m pip check 2>&1 | grep -c 'redis.lock' || true)
	echo "$1, then $2: Lock RedisLock: $seen; lines of pip check about them: $told"
	[ "$seen" = "$3" ] && [ "$told" = 0 ] || status=1
}

expect "$first" "$second" "False True"
expect "$second" "$first" "True False"
exit $status
