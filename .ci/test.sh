#!/usr/bin/env bash
# Runs every part of the tests, goes on after a failure, and ends with
# a table, the list of what failed, the list of what could not run, and the
# line "N passed, N failed". What could not run is a failure when CI=true.
#
#   .ci/test.sh [PART...]      only the named parts
#
# The parts run in order. Those that only build and check run beside the tests, with low
# priority: they use the moments in which the tests wait. The full output of a part is kept
# in out/test/PART.log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly logs=out/test
readonly bin="$PWD/out/bin"
readonly cannot=77 # the exit code of a part that could not run

# Everything is built as releases are, so that no part compiles again what another has. Only
# the race detector needs C, and what its tests build does not.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"

# part NAME LIMIT COMMAND: the parts in order, with a limit in seconds. beside is a part that
# runs beside the tests.
names=() limits=() commands=() lanes=()
part() {
	names+=("$1") limits+=("$2") commands+=("$3") lanes+=("$lane")
}
beside() {
	lane=beside part "$@"
}

lane=first
part prepare 1500 'bash .ci/prepare.sh'
part build 900 'go build ./...'
part tools 1200 'GOBIN="$bin" go -C internal/tools install tool || { echo "the pinned tools could not be built"; exit "$cannot"; }'
lane=tests
# SQLite is translated from C and locks as C does: the race detector finds nothing
# there, and makes it several times slower. The tag adds the tests of whole programs that
# `go test ./...` leaves out; those of internal/e2e are a part of their own. The part vet
# vets all of it.
part unit 2100 'CGO_ENABLED=1 go test -vet=off -race -tags e2e -exec "env CGO_ENABLED=0 GORACE=atexit_sleep_ms=50" -gcflags=modernc.org/...=-race=false -timeout 20m -v $(go list ./... | grep -v "/internal/e2e\$")'
part e2e 1800 'go test -vet=off -tags e2e -timeout 25m -p 1 -v ./internal/e2e/... && go test -vet=off -tags e2e -timeout 5m -v ./examples -run TestReadmes -network'
beside fmt 300 'need golangci-lint && "$bin/golangci-lint" fmt --diff'
beside vet 1800 'go vet -tags e2e ./...'
beside lint 1800 'need golangci-lint && "$bin/golangci-lint" run --timeout 25m ./...'
# The program is built for three other systems, without optimization, which takes a third less
# time; the other packages and the tests are checked from the source. The last two have no
# files of their own: what they have is that every package has files for them.
for system in linux/arm64 darwin/arm64 windows/amd64; do
	beside "${system/\//-}" 1800 "GOOS=${system%/*} GOARCH=${system#*/} go build '-gcflags=all=-N -l' -o /dev/null ./cmd/toolgate && go run ./internal/crossvet $system"
done
for system in darwin/amd64 windows/arm64; do
	beside "${system/\//-}" 600 "GOOS=${system%/*} GOARCH=${system#*/} go list -deps ./... >/dev/null"
done
beside release 1200 'go -C internal/release vet -tags rehearsal ./... && go -C internal/release test -tags rehearsal -v ./...'
beside chart 1800 'go -C internal/tools/charttest vet ./... && go -C internal/tools/charttest test -v ./...'

# need TOOL: the part cannot run without it.
need() {
	[ -x "$bin/$1" ] || {
		echo "$1 is not there: see $logs/tools.log"
		return "$cannot"
	}
}
export -f need
export bin logs cannot

# Of each lane: running is the process group of the part at work, watcher the one that ends
# it when its time is over, narrator the one that prints what it does, pulse the
# one that says that it is still at work. besides is the process of the lane beside the tests.
running='' watcher='' narrator='' pulse='' besides=''
finish() {
	local pid
	[ -z "$besides" ] || { kill -TERM "$besides" && wait "$besides"; } 2>/dev/null || true
	for pid in $pulse $narrator $watcher $running; do
		kill -TERM -- "-$pid" 2>/dev/null || true
	done
	[ -z "$running" ] || { sleep 1 && kill -KILL -- "-$running" 2>/dev/null; } || true
	running='' watcher='' pulse=''
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# beat LOG NAME: says every 20 s how long a part has been at work, and at what.
beat() {
	local began=$SECONDS at
	while sleep 20; do
		at=$(tail -n 500 "$1" 2>/dev/null | sed -n -E 's/^=== (RUN|CONT) +//p' | tail -n 1) || true
		printf '    %s: %d s so far%s\n' "$2" $((SECONDS - began)) "${at:+, at $at}"
	done
}

# run I: runs a part in a process group of its own, so that everything it started ends with
# it. What came of it, "CODE SECONDS", is in its .result.
run() {
	local name=${names[$1]} code=0 start=$SECONDS
	local log="$logs/$name.log"
	printf '==> %s\n' "$name"
	set -m
	bash -o pipefail -c "${commands[$1]}" </dev/null >"$log" 2>&1 &
	running=$!
	(sleep "${limits[$1]}" && echo "ended after ${limits[$1]} s" >>"$log" && kill -TERM -- "-$running") </dev/null >/dev/null 2>&1 &
	watcher=$!
	# A line for each package as it ends, for each test that failed, and for each step of
	# the preparation of the end-to-end tests.
	tail -n +1 -F "$log" 2>/dev/null </dev/null > >(grep --line-buffered -E '^(ok|FAIL)[[:space:]]+[^[:space:]]|^ *--- FAIL|^e2e: ') &
	narrator=$!
	beat "$log" "$name" </dev/null 2>/dev/null &
	pulse=$!
	set +m
	wait "$running" || code=$?
	sleep 0.2 # the last lines of the log
	kill -TERM -- "-$narrator" 2>/dev/null || true
	wait "$narrator" 2>/dev/null || true
	kill -TERM -- "-$pulse" 2>/dev/null || true
	wait "$pulse" 2>/dev/null || true
	narrator='' pulse=''
	kill -TERM -- "-$watcher" 2>/dev/null || true
	wait "$watcher" 2>/dev/null || true
	watcher=''
	kill -KILL -- "-$running" 2>/dev/null || true # what the part left behind
	running=''
	echo "$code $((SECONDS - start))" >"$logs/$name.result"
}

# show LOG: the lines of a failed part that say why.
show() {
	# The lines of a failed test come first; tests that passed say nothing here.
	grep -vE '^ *--- PASS|^=== (RUN|PAUSE|CONT|NAME)' "$1" | grep -E -B 8 -A 17 '^ *--- FAIL|^panic:|^FAIL|DATA RACE|^# ' | head -n 150 || true
	echo "... the last lines of $1:"
	tail -n 40 "$1"
}

# culprits LOG: the tests that failed, with what they said first; of a package that ran
# out of time, the tests that still ran and, for each goroutine, the first function of
# this module.
culprits() {
	awk '
		/^=== (RUN|NAME|CONT)/ { test = $3 }
		/^ +[^ ]+_test\.go:[0-9]+: / && said[test] < 5 { said[test]++; lines[test] = lines[test] "\n" substr($0, 1, 400) }
		/^ *--- FAIL: / { print $0 lines[$3] }
	' "$1" | head -n 40
	awk '
		/^(panic|fatal error): / { dump = 1 }
		/^FAIL/ { dump = 0 }
		dump && (/^(panic|fatal error):/ || /^[[:space:]]+Test[^ ]* \(/) { sub(/^[[:space:]]+/, ""); print }
		dump && /^goroutine / { state = $0; sub(/^goroutine [0-9]+ /, "", state); sub(/, [0-9]+ minutes/, "", state) }
		dump && state != "" && /^github.com\/toolgate\/toolgate\// { at = $0; sub(/^github.com\/toolgate\/toolgate\//, "", at); sub(/\([^()]*\)$/, "", at); next }
		at != "" { where = $1; sub(/.*\//, "", where); count[at " " where " " state]++; at = ""; state = "" }
		END { for (line in count) print count[line] " x " line }
	' "$1" | head -n 60
}

# wanted I: part I was asked for, or none was.
asked=" $* "
wanted() {
	[ "$asked" = '  ' ] || [[ "$asked" == *" ${names[$1]} "* ]]
}

# run_lane LANE: runs the parts of a lane in order.
run_lane() {
	local i
	for i in "${!names[@]}"; do
		if [ "${lanes[$i]}" = "$1" ] && wanted "$i"; then run "$i"; fi
	done
}

mkdir -p "$logs"
rm -f "$logs"/*.result
run_lane first
(
	trap finish EXIT
	trap 'exit 143' TERM
	renice -n 19 -p "$BASHPID" >/dev/null || true
	run_lane beside
) &
besides=$!
run_lane tests
wait "$besides" || true
besides=''

passed=0 failed=0
table=() failures=() absent=()
for i in "${!names[@]}"; do
	wanted "$i" || continue
	name=${names[$i]} log="$logs/${names[$i]}.log"
	read -r code seconds <"$logs/$name.result" || code=1 seconds=0

	# Tests that were skipped are parts that could not run. A container engine needs rights
	# that not every machine gives: its test is named with the engine's own words, and is no
	# failure.
	skipped=0
	while IFS= read -r line; do
		absent+=("$name: $line")
	done < <(grep -A 3 -E '^ *[^ ]*_test.go:[0-9]+: NOT CHECKED: containers' "$log" | sed 's/^ *//')
	while IFS= read -r line; do
		absent+=("$name: $line")
		skipped=$((skipped + 1))
	done < <(sed -n 's/^ *--- SKIP: \([^ ]*\).*/\1/p' "$log" | grep -v -x TestContainerEngine)

	if [ "$code" -eq "$cannot" ]; then
		absent+=("$name: $(tail -n 1 "$log")")
	fi
	if [ "$code" -eq 0 ] && { [ "$skipped" -eq 0 ] || [ "${CI:-}" != true ]; }; then
		result=passed passed=$((passed + 1))
	elif [ "$code" -eq "$cannot" ] && [ "${CI:-}" != true ]; then
		result='not run'
	else
		result=FAILED failed=$((failed + 1))
		failures+=("$name: exit code $code, $skipped not run, see $log")
		while IFS= read -r line; do
			failures+=("  $line")
		done < <(culprits "$log")
		show "$log"
	fi
	table+=("$(printf '%-14s %-8s %6d s' "$name" "$result" "$seconds")")
done

printf '\n%s\n' "part           result   seconds"
printf '%s\n' "${table[@]}"
if [ ${#absent[@]} -gt 0 ]; then
	printf '\ncould not run:\n'
	printf '  %s\n' "${absent[@]}"
fi
if [ ${#failures[@]} -gt 0 ]; then
	printf '\nfailed:\n'
	printf '  %s\n' "${failures[@]}"
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
