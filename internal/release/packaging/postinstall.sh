#!/bin/sh
# The service is installed and not enabled: it needs /etc/toolgate/toolgate.yaml first.
# One that runs is restarted, so that it is the version that was installed.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart toolgate.service
fi
