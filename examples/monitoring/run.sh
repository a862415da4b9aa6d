#!/usr/bin/env bash
# Runs the gateway of this folder, and a Prometheus that scrapes it and evaluates alerts.yaml.
# Both listen on this machine alone, and end together: with Ctrl-C, or when one of them ends.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for program in toolgate prometheus; do
	command -v "$program" >/dev/null || {
		echo "$program is missing; Debian and Ubuntu have the package prometheus" >&2
		exit 1
	}
done
address="${PROMETHEUS:-127.0.0.1:9090}"
data="$(mktemp -d)"

finish() {
	trap - EXIT INT TERM
	# shellcheck disable=SC2046 # one word for each process
	kill $(jobs -p) 2>/dev/null || true
	wait || true
	rm -rf "$data"
}
trap finish EXIT
trap 'exit 0' INT TERM

toolgate up toolgate.yaml &
prometheus --config.file=prometheus.yml --storage.tsdb.path="$data" --web.listen-address="$address" --log.level=warn &
echo "Prometheus  http://$address/"
wait -n
