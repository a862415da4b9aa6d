#!/bin/sh
# The service is installed and not enabled: it needs /etc/toolgate/toolgate.yaml first.
# One that runs is restarted, so that it is the version that was installed. A systemd that
# cannot be asked, as in some containers, does not fail the installation.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart toolgate.service || true
fi
