#!/bin/sh
# Runs the server in the foreground: what the official image's script of this name does with "start-foreground".
set -e

if [ "$1" != start-foreground ]; then
	echo "usage: zkServer.sh start-foreground" >&2
	exit 64
fi
. /etc/zookeeper/conf/environment # has CLASSPATH; a wider one would break the logging
# shellcheck disable=SC2086 # JVMFLAGS is many words
exec java "-Xmx${ZK_SERVER_HEAP:-1000}m" $JVMFLAGS -cp "$CLASSPATH" \
	org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg"
