#!/bin/sh
trap '' PIPE # if locker has ended, its last line says why
pipes=$(mktemp -d) && mkfifo "$pipes/in" "$pipes/out" || exit 1
locker hold --wait 1m deploy <"$pipes/in" >"$pipes/out" &
exec 3>"$pipes/in" 4<"$pipes/out"
rm -r "$pipes"
held() { echo check >&3; read -r line <&4 && [ "${line#*\"held\"}" != "$line" ]; } 2>/dev/null

read -r granted <&4 || { wait $!; exit $?; } # 118: somebody else has the lock
token=$(expr "$granted" : '.*"token":"\([0-9]*\)"')
for step in build copy; do
	held || { echo "the lock was lost" >&2; exit 1; }
	echo "$step with token $token" 3>&- # a process that keeps 3 open keeps the lock
done
exec 3>&-
read -r line <&4; expr "$line" : '.*"event":"\([a-z]*\)"'
