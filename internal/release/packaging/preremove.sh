#!/bin/sh
# dpkg says "remove" and rpm says 0 if the package goes; otherwise it is replaced.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl --no-reload disable --now toolgate.service || true
fi
