#!/bin/sh
# Runs a command in a session of its own, with a systemd for its user and nothing of the
# machine's. It is started in new namespaces for mounts and processes, which end with it.
set -eu
mount -t tmpfs none /run
mkdir -p /run/systemd/system
mkdir -m 0700 /run/session
export XDG_RUNTIME_DIR=/run/session
for systemd in /usr/lib/systemd/systemd /lib/systemd/systemd; do
	if [ -x "$systemd" ]; then break; fi
done
"$systemd" --user --log-target=console </dev/null >/run/session/log 2>&1 &
tries=0
until systemctl --user daemon-reload 2>/dev/null; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ]; then
		cat /run/session/log
		exit 77
	fi
	sleep 0.1
done
exec "$@"
