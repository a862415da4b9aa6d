#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: a C compiler for the race
# detector, Node with npm and Python with venv for the end-to-end tests, a
# PostgreSQL, a Redis and a GNOME key ring with its D-Bus that the tests start and end
# themselves, make, git and ssh-keygen, and what takes apart and starts what a release
# has: rpm2cpio, cpio, umoci and bubblewrap, systemd for the units, Podman with runc
# for code in containers, Chromium for the console, and Prometheus for its example.
# It changes nothing where everything is there. On a machine without apt, or
# without the right to use it, it says what is missing and returns 77.
set -euo pipefail

missing=()
have() { command -v "$1" >/dev/null 2>&1; }

have go || {
	echo "go is missing: install Go 1.26 or newer first" >&2
	exit 77
}
have make || missing+=(make)
have git || missing+=(git)
have ssh-keygen || missing+=(openssh-client)
if ! have gcc && ! have cc && ! have clang; then missing+=(gcc libc6-dev); fi
have node || missing+=(nodejs)
have npm || missing+=(npm)
# python3 may be there without what makes a virtual environment.
# PostgreSQL keeps its server programs out of the path.
have initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
have redis-server || missing+=(redis-server)
have systemd-analyze || missing+=(systemd)
have rpm2cpio || missing+=(rpm2cpio)
have cpio || missing+=(cpio)
have umoci || missing+=(umoci)
have bwrap || missing+=(bubblewrap)
have podman || missing+=(podman)
have runc || missing+=(runc)
have dbus-daemon || missing+=(dbus)
have gnome-keyring-daemon || missing+=(gnome-keyring)
have prometheus || missing+=(prometheus)
have chromium || missing+=(chromium fonts-dejavu-core)
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3 python3-venv)

if [ ${#missing[@]} -eq 0 ]; then
	echo "nothing is missing"
	exit 0
fi

if ! have apt-get; then
	echo "missing, and there is no apt-get to install it: ${missing[*]}" >&2
	exit 77
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! have sudo || ! sudo -n true 2>/dev/null; then
		echo "missing, and this user may not install it: ${missing[*]}" >&2
		exit 77
	fi
	root=(sudo -n)
fi
echo "installing ${missing[*]}"
"${root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 900 \
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
