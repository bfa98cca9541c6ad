#!/bin/sh
# Runs a job on another host under its lock. With -t the job has a terminal: closing the window, or
# a lost connection, hangs it up, and lockkeeper ends it and frees the lock.
exec ssh -t "$1" lockkeeper run import -- import.sh
