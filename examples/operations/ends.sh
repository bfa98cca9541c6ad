#!/bin/sh
# A service beside the jobs: writes to the system's log how the holds of locks ended that nobody
# released, and whether something may have been missed. usage: ends.sh PREFIX
exec lockkeeper watch --no-initial --prefix "$1" -- sh -c '
case $LOCKKEEPER_EVENT in
broken | expired | lost | unknown) ;;
*) [ -n "$LOCKKEEPER_GAP" ] || exit 0 ;;
esac
words="$LOCKKEEPER_NAME: $LOCKKEEPER_EVENT${LOCKKEEPER_GAP:+, after a gap}"
exec logger -t lockkeeper "$words${LOCKKEEPER_HOLDER:+, $LOCKKEEPER_HOLDER}"
'
