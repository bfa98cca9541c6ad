#!/bin/sh
# A hook: tells healthchecks.io (its pinging API) what becomes of a job.
#
#     HEALTHCHECKS_URL=https://hc-ping.com/UUID
#     lockkeeper run -n --on start,skip,lost,end,error=./healthchecks.sh nightly -- nightly.sh
#
# A run that another host keeps from starting goes into the log there. It is no success: a host that
# skips would hide that nobody runs the job.
case $LOCKKEEPER_EVENT in
start) signal=/start ;;
end) signal=/$LOCKKEEPER_STATUS ;;
timeout | error) signal=/fail ;;
*) signal=/log ;;
esac
text="$LOCKKEEPER_EVENT $LOCKKEEPER_NAME: waited ${LOCKKEEPER_WAITED:-?} s"
text="$text${LOCKKEEPER_HELD:+, held for $LOCKKEEPER_HELD s}"
text="$text${LOCKKEEPER_HOLDER:+, held by $LOCKKEEPER_HOLDER}"
# Tries again within the 10 seconds that a hook has.
exec curl -fsS -m 3 --retry 2 --retry-max-time 6 -o /dev/null --data-raw "$text" \
	"$HEALTHCHECKS_URL$signal?rid=$LOCKKEEPER_RUN"
