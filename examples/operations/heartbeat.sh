#!/bin/sh
# A hook: a dead man's switch. It asks for HEARTBEAT_URL when the job has succeeded, and for nothing
# else; who listens there raises the alarm when nothing comes for too long. For several hosts that
# skip for one another, one switch is enough.
#
#     lockkeeper run -n --on end=./heartbeat.sh nightly -- nightly.sh
[ "$LOCKKEEPER_STATUS" = 0 ] || exit 0
exec curl -fsS -m 3 --retry 2 --retry-max-time 6 -o /dev/null "$HEARTBEAT_URL"
