#!/bin/sh
# Installs the Debian packages that are missing, and says nothing when none is.
#
# usage: install_packages.sh [--list] KIND...    (kinds: see packages.txt)
#
# --list prints what is missing and installs nothing. Elsewhere than on Debian it does nothing:
# the build then names what it does not find.
set -eu

list=no
if [ "${1:-}" = --list ]; then
	list=yes
	shift
fi
[ $# -gt 0 ] || { echo "usage: $0 [--list] KIND..." >&2; exit 2; }
command -v dpkg-query >/dev/null 2>&1 || exit 0

missing=
for kind in "$@"; do
	for package in $(sed -n "s/^$kind  *//p" "$(dirname "$0")/packages.txt"); do
		case $package in
		*:*)
			command -v "${package%%:*}" >/dev/null 2>&1 && continue
			package=${package#*:}
			;;
		esac
		status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || :)
		[ "$status" = 'install ok installed' ] || missing="$missing $package"
	done
done
[ -n "$missing" ] || exit 0
if [ "$list" = yes ]; then
	echo "$missing"
	exit 0
fi

if [ "$(id -u)" = 0 ]; then
	root=
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
	root=sudo
else
	echo "Missing packages; as root: apt-get update && apt-get install$missing" >&2
	exit 1
fi
echo "Installing:$missing"
$root apt-get -qq update
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive \
	apt-get -qq -y --no-install-recommends install $missing </dev/null
