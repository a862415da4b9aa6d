#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (20s), goes on after a
# finding, and lists the findings at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${FUZZTIME:-20s}
passed=0 findings=()

# `go test -list` prints the names of a package and then a line with its path.
# Not in a pipe: a package that does not compile must end this script.
list=$(go test -list '^Fuzz' ./...)
targets=$(awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$list")

while read -r pkg name; do
	[ -n "$pkg" ] || continue
	printf '==> %s %s\n' "$pkg" "$name"
	if go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$pkg" </dev/null; then
		passed=$((passed + 1))
	else
		findings+=("$pkg $name")
	fi
done <<<"$targets"

if [ ${#findings[@]} -gt 0 ]; then
	printf '\nfailed:\n'
	printf '  %s\n' "${findings[@]}"
fi
printf '\n%d passed, %d failed\n' "$passed" "${#findings[@]}"
[ ${#findings[@]} -eq 0 ]
