//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clientScenario is a scenario of the suite's client side. The suite plays the server, so
// it judges what toolgate sends to servers.
type clientScenario struct {
	name      string
	revisions []string // of the server, all that the suite has it for
	skipped   []string // checks that the suite has to skip, with their reasons

	skippedModern []string // as skipped, for a modern client alone
}

var clientScenarios = []clientScenario{
	{name: "initialize", revisions: []string{"2025-11-25"}},
	{name: "tools_call", revisions: []string{"2025-11-25", "2026-07-28"}},
	{name: "sse-retry", revisions: []string{"2025-11-25"}},
	{name: "json-schema-2020-12-preservation", revisions: []string{"2025-11-25", "2026-07-28"}},
	{name: "request-metadata", revisions: []string{"2026-07-28"}},
	{name: "sep-2322-client-request-state", revisions: []string{"2026-07-28"}},
	{name: "http-standard-headers", revisions: []string{"2026-07-28"}, skipped: []string{
		// A modern server turns initialize down, which it is sent for a legacy client.
		"ClientMcpMethodHeader_notifications_initialized",
	}, skippedModern: []string{"ClientMcpMethodHeader_initialize"}},
	{name: "http-custom-headers", revisions: []string{"2026-07-28"}},
	{name: "http-invalid-tool-headers", revisions: []string{"2026-07-28"}},
	{name: "json-schema-ref-no-deref", revisions: []string{"2026-07-28"}},
}

// otherClientScenarios are those that are not driven, by name or by the folder
// that they are in, with the reason.
var otherClientScenarios = map[string]string{
	"auth": "they are what TestConformanceCredentials drives",
	"elicitation-sep1034-client-defaults": "its server asks beside the stream of the call, " +
		"where a question is attributed to nobody",
}

// clientSideTimeout is the suite's time limit for one run of the driver, which takes
// seconds and bounds itself. It allows for a loaded machine.
const clientSideTimeout = 2 * time.Minute

// conformanceClient is the driver, built when it is first needed.
var conformanceClient = sync.OnceValue(func() installed {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	return build(ctx, "conformance-client", "./internal/e2e/cmd/conformance-client", "-tags", "e2e")
})

// runConformance runs the suite's program and returns its output.
func runConformance(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	program := filepath.Join(lab.cache, "node", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(ctx, need(t, lab.node), append([]string{program}, args...)...)
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return colour.ReplaceAllString(out.String(), ""), err
}

// TestConformanceClient lets the suite judge what toolgate sends to servers: for
// a legacy client and for a modern one, every check of every scenario.
func TestConformanceClient(t *testing.T) {
	need(t, lab.node)
	toolgate, driver := built(t, lab.toolgate), built(t, conformanceClient())
	for _, s := range clientScenarios {
		for _, revision := range s.revisions {
			for _, era := range []string{"legacy", "modern"} {
				s := s
				if era == "modern" {
					s.skipped = slices.Concat(s.skipped, s.skippedModern)
				}
				t.Run(s.name+"/"+revision+"/"+era, func(t *testing.T) {
					t.Parallel()
					dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // short enough for the path of a socket
					if err != nil {
						t.Fatalf("making a folder: %v", err)
					}
					t.Cleanup(func() {
						noLeftovers(t, dir)
						os.RemoveAll(dir)
					})
					results := t.TempDir()
					out, err := runConformance(
						t, "client",
						// The suite splits the command at spaces and appends the URL.
						"--command", strings.Join([]string{driver, "-toolgate", toolgate, "-dir", dir, "-era", era}, " "),
						"--scenario", s.name, "--spec-version", revision, "-o", results,
						"--timeout", strconv.FormatInt(clientSideTimeout.Milliseconds(), 10),
					)
					for _, wrong := range s.judge(results) {
						t.Error(wrong)
					}
					if err != nil {
						t.Errorf("the suite: %v", err)
					}
					if t.Failed() {
						t.Logf("the suite wrote:\n%s", newest(out, 6000))
					}
				})
			}
		}
	}
}

// judge returns what is wrong with the one run whose results are in folder. The suite
// also succeeds if it does not run a scenario, if it checks nothing, and in some
// scenarios if the driver fails. None of that is good enough here.
func (s *clientScenario) judge(folder string) []error {
	// The folder of a run is the scenario's name and the time.
	runs, err := filepath.Glob(filepath.Join(folder, s.name+"-2*"))
	if err != nil || len(runs) != 1 {
		return []error{errors.Join(errors.New("there is not one result: "+strconv.Itoa(len(runs))), err)}
	}
	var wrong []error
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(runs[0], name))
		if err != nil {
			wrong = append(wrong, err)
		}
		return data
	}
	if out := read("stdout.txt"); string(out) != "done\n" {
		wrong = append(wrong, errors.New("the driver did not come to its end"))
	}
	if bytes.Contains(read("stderr.txt"), []byte("WARNING: DATA RACE")) {
		wrong = append(wrong, errors.New("toolgate reports a data race"))
	}
	var checks []struct{ Name, Status, ErrorMessage string }
	if err := json.Unmarshal(read("checks.json"), &checks); err != nil {
		return append(wrong, err)
	}
	passed, skipped := 0, []string{}
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			passed++
		case c.Status == "INFO":
		case c.Status == "SKIPPED" && slices.Contains(s.skipped, c.Name):
			skipped = append(skipped, c.Name)
		default:
			wrong = append(wrong, errors.New(c.Name+" ("+strings.ToLower(c.Status)+"): "+c.ErrorMessage))
		}
	}
	for _, name := range s.skipped {
		if !slices.Contains(skipped, name) {
			wrong = append(wrong, errors.New(name+" is listed as skipped, and was not"))
		}
	}
	if passed == 0 {
		wrong = append(wrong, errors.New("no check has passed"))
	}
	return wrong
}

// TestConformanceClientJudge checks that judge rejects what it must reject.
func TestConformanceClientJudge(t *testing.T) {
	s := clientScenario{name: "some", skipped: []string{"known"}}
	const good = `{"name":"a","status":"SUCCESS"},{"name":"known","status":"SKIPPED"}`
	tests := []struct {
		name, stdout, stderr, checks string
		ok                           bool
	}{
		{"passed", "done\n", "", "[" + good + `,{"name":"i","status":"INFO"}]`, true},
		{"one failed", "done\n", "", "[" + good + `,{"name":"b","status":"FAILURE"}]`, false},
		{"one warned", "done\n", "", "[" + good + `,{"name":"b","status":"WARNING"}]`, false},
		{"another skipped", "done\n", "", "[" + good + `,{"name":"b","status":"SKIPPED"}]`, false},
		{"a known one failed", "done\n", "", "[" + good + `,{"name":"known","status":"FAILURE"}]`, false},
		{"a known one passed", "done\n", "", `[{"name":"a","status":"SUCCESS"},{"name":"known","status":"SUCCESS"}]`, false},
		{"an unknown status", "done\n", "", "[" + good + `,{"name":"b","status":"NEW"}]`, false},
		{"nothing checked", "done\n", "", "[]", false},
		{"only skipped", "done\n", "", `[{"name":"known","status":"SKIPPED"}]`, false},
		{"no list", "done\n", "", "", false},
		{"the driver failed", "", "conformance-client: no", "[" + good + "]", false},
		{"a data race", "done\n", "WARNING: DATA RACE", "[" + good + "]", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			run := filepath.Join(folder, "some-2026-11-21T00-00-00-000Z")
			if err := os.Mkdir(run, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"stdout.txt": tt.stdout, "stderr.txt": tt.stderr, "checks.json": tt.checks} {
				if err := os.WriteFile(filepath.Join(run, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if wrong := s.judge(folder); (len(wrong) == 0) != tt.ok {
				t.Errorf("judge = %q, want none: %t", wrong, tt.ok)
			}
		})
	}
	if len(s.judge(t.TempDir())) == 0 {
		t.Error("a scenario that did not run passes")
	}
}

// listedScenario is a line of the suite's list, with the revisions in brackets.
var listedScenario = regexp.MustCompile(`(?m)^  - (\S+) \[[0-9,-]+\]$`)

// TestConformanceClientScenarios holds the table to what the suite has: nothing
// that it knows is forgotten, and nothing is asked of it that it would skip.
func TestConformanceClientScenarios(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		out, err := runConformance(t, "list", "--client", "--spec-version", revision)
		if err != nil {
			t.Fatalf("listing the scenarios: %v\n%s", err, newest(out, 2000))
		}
		var have, want []string
		for _, m := range listedScenario.FindAllStringSubmatch(out, -1) {
			folder, _, _ := strings.Cut(m[1], "/")
			if otherClientScenarios[folder] == "" {
				have = append(have, m[1])
			}
		}
		for _, s := range clientScenarios {
			if slices.Contains(s.revisions, revision) {
				want = append(want, s.name)
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("client scenarios of %s (-driven +listed):\n%s", revision, diff)
		}
	}
}
