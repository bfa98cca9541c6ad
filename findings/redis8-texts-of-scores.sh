#!/bin/bash
# Redis 7.0.15 and 8.0 (Debian 12 and 13): one sorted set, and its scores are other texts. Up to 7.0 a
# score that is no whole number has 17 digits ("0.10000000000000001"), and a large one an exponent
# ("9.9999999999999984e+19"); 8.0 writes the shortest digits that are the same number ("0.1"), and some
# large ones without an exponent ("99999999999999980000", but "1e+20"). The numbers are equal. So a program that compares the text
# that it has stored with the text that it gets, or a copy of a set by its answers, differs from one
# server to the next, in a script too. A good guess is wrong: ZSCORE gives the text that ZADD was given.
set -eu
d=$(mktemp -d); servers=
clean() {
	for server in $servers; do kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; done
	rm -rf "$d"
}
trap clean EXIT
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' | sed -n 's/ Debian Debian$//p' | head -1)
for suite in bookworm trixie; do
	mkdir -p "$d/$suite"/{lists/partial,cache/archives/partial,root}
	: > "$d/$suite/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$d/$suite/sources.list"
	for step in update "install --download-only -y redis-server"; do
		# shellcheck disable=SC2086
		apt-get -qq -o Dir::Etc::SourceList="$d/$suite/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$d/$suite" \
			-o Dir::State::Lists="$d/$suite/lists" -o Dir::State::status="$d/$suite/status" -o Dir::Cache="$d/$suite/cache" \
			-o APT::Sandbox::User=root -o APT::Install-Recommends=false $step > "$d/log" 2>&1 || { tail -5 "$d/log"; exit 2; }
	done
	for package in "$d/$suite"/cache/archives/*.deb; do dpkg-deb -x "$package" "$d/$suite/root"; done
done
wrong=0
try() { # SUITE, and what each score is expected to be
	local suite=$1 root=$d/$1/root port said
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	# A loader of its own suite, for libraries of another version than this machine's.
	local run=("$root"/lib64/ld-linux-*.so.* --library-path "$root/lib/$(uname -m)-linux-gnu:$root/usr/lib/$(uname -m)-linux-gnu")
	[ -e "${run[0]}" ] || run=("$root"/usr/lib64/ld-linux-*.so.* "${run[@]:1}")
	"${run[@]}" "$root/usr/bin/redis-check-rdb" --version
	"${run[@]}" "$root/usr/bin/redis-server" --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$d" --logfile "$d/log.$suite" &
	servers="$servers $!"
	for _ in $(seq 50); do redis-cli -p "$port" ping >/dev/null 2>&1 && break; sleep 0.1; done
	shift
	for score in 0.1 1e20 99999999999999984000 3e-7 7; do
		redis-cli -p "$port" zadd scores "$score" member >/dev/null
		said=$(redis-cli -p "$port" zscore scores member)
		[ "$said" = "$(redis-cli -p "$port" eval 'return redis.call("ZSCORE", KEYS[1], "member")' 1 scores)" ] || wrong=1
		echo "  ZADD $score, ZSCORE $said"
		[ "$said" = "$1" ] || wrong=1
		shift
	done
}
try bookworm 0.10000000000000001 1e+20 9.9999999999999984e+19 2.9999999999999999e-07 7
try trixie 0.1 1e+20 99999999999999980000 3e-7 7
[ "$wrong" = 0 ] && echo "as stated" || echo "DIFFERS"
exit "$wrong"
