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

installed() {
	[ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null || :)" = 'install ok installed' ]
}

# The major version of Debian's clang: of the installed one, else of the one that apt would install;
# nothing when apt has no lists.
clang_version() {
	if installed clang; then
		dpkg-query -W -f '${Version}\n' clang
	else
		apt-cache policy clang | sed -n 's/^ *Candidate: //p'
	fi | sed -n 's/^\([0-9]*:\)\{0,1\}\([0-9][0-9]*\).*/\2/p'
}

# The packages with that version in their names.
named() {
	version=$(clang_version)
	echo "$*" | sed "s/CLANG/${version:-CLANG}/g"
}

missing=
for kind in "$@"; do
	for package in $(sed -n "s/^$kind  *//p" "$(dirname "$0")/packages.txt"); do
		case $package in
		*:*)
			command -v "${package%%:*}" >/dev/null 2>&1 && continue
			package=${package#*:}
			;;
		*CLANG*)
			installed clang && package=$(named "$package")
			;;
		esac
		installed "$package" || missing="$missing $package"
	done
done
[ -n "$missing" ] || exit 0
if [ "$list" = yes ]; then
	named "$missing"
	exit 0
fi

if [ "$(id -u)" = 0 ]; then
	root=
elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
	root=sudo
else
	echo "Missing packages; as root: apt-get update && apt-get install$(named "$missing")" >&2
	exit 1
fi
# First: on a bare system apt knows of no package before, and of no version.
$root apt-get -qq update
missing=$(named "$missing")
echo "Installing:$missing"
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive \
	apt-get -qq -y --no-install-recommends install $missing </dev/null
