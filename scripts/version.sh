#!/bin/sh
# Prints the version, as the public header has it.
sed -n 's/^#define LK_VERSION "\(.*\)"$/\1/p' "$(dirname "$0")/../include/lockkeeper/version.h"
