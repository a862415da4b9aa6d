//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
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
	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// requirementSets are what the official suite scores, by revision, with the
// placement of the reference server that is of the same era.
var requirementSets = []struct{ revision, era, direct string }{
	{"2025-11-25", "legacy", "stateful"},
	{"2026-07-28", "modern", "stateless"},
}

// placements are the ways in which the reference server stands behind toolgate,
// and which direct run a cell is held against: that of the placement named, or,
// where none is, of the one in which the server is of the client's era. Over stdio
// the suite reaches no server directly. There the server speaks both eras, unless
// the configuration chooses one.
var placements = []struct{ name, era, like string }{
	{"stateful", "", "stateful"},
	{"stateless", "", "stateless"},
	{"stdio", "", ""},
	{"stdio-legacy", "legacy", "stateful"},
	{"stdio-modern", "modern", "stateless"},
}

// suiteTimeout bounds one run of the suite, which takes a few seconds.
const suiteTimeout = 3 * time.Minute

// suiteRun is the outcome of the suite for one URL and one requirement set.
type suiteRun struct {
	Scenarios map[string]scenario `json:"scenarios"`
	Passed    int                 `json:"passed"`
	Failed    int                 `json:"failed"`

	output string
}

type scenario struct {
	Passed int      `json:"passed"`
	Failed int      `json:"failed"`
	Scored bool     `json:"scored"`
	Wrong  []string `json:"wrong,omitempty"` // checks that failed or warned, with their message
}

// ok reports whether the scenario passed. One that checked nothing did, and one
// with a warning did not: so the suite holds it against a baseline.
func (s scenario) ok() bool { return s.Failed == 0 && len(s.Wrong) == 0 }

var (
	scenarioLine = regexp.MustCompile(`(?m)^[✓✗] (\S+): (\d+) passed, (\d+) failed`)
	colour       = regexp.MustCompile("\x1b\\[[0-9;]*m")
	unscoredLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \((?:extension|pending|added-after-release)\)`)
)

// runSuite runs one requirement set against url. Its exit code tells of failures,
// which are read scenario by scenario.
func runSuite(ctx context.Context, t *testing.T, url, revision string) suiteRun {
	t.Helper()
	folder := t.TempDir()
	output, err := runServerSuite(ctx, "--url", url, "--requirements", revision, "-o", folder)
	r := suiteRun{Scenarios: map[string]scenario{}, output: output}
	for _, m := range scenarioLine.FindAllStringSubmatch(r.output, -1) {
		passed, _ := strconv.Atoi(m[2])
		failed, _ := strconv.Atoi(m[3])
		r.Scenarios[m[1]] = scenario{Passed: passed, Failed: failed, Scored: true}
		r.Passed += passed
		r.Failed += failed
	}
	for _, m := range unscoredLine.FindAllStringSubmatch(r.output, -1) {
		s := r.Scenarios[m[1]]
		s.Scored = false
		r.Scenarios[m[1]] = s
	}
	for name, s := range r.Scenarios {
		s.Wrong = wrongChecks(t, folder, name)
		r.Scenarios[name] = s
	}
	if len(r.Scenarios) == 0 {
		t.Fatalf("the suite ran no scenario (%v):\n%s", err, newest(r.output, 3000))
	}
	return r
}

// runServerSuite runs the suite against a server and returns what it wrote.
func runServerSuite(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	program := filepath.Join(lab.cache, "node", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(ctx, lab.node.path, append([]string{program, "server"}, args...)...)
	cmd.WaitDelay = 2 * time.Second
	ownGroup(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return colour.ReplaceAllString(out.String(), ""), err
}

// wrongChecks reads what a scenario found wrong from the suite's output folder.
func wrongChecks(t *testing.T, folder, scenario string) []string {
	t.Helper()
	// The folder of a scenario is its name and the time.
	files, err := filepath.Glob(filepath.Join(folder, "server-"+scenario+"-2*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Errorf("scenario %s has %d results (%v), want one", scenario, len(files), err)
		return nil
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Errorf("reading the result of %s: %v", scenario, err)
		return nil
	}
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Errorf("reading the result of %s: %v", scenario, err)
		return nil
	}
	var wrong []string
	for _, c := range checks {
		if c.Status == "FAILURE" || c.Status == "WARNING" {
			wrong = append(wrong, fmt.Sprintf("%s (%s): %s", c.ID, strings.ToLower(c.Status), c.ErrorMessage))
		}
	}
	return wrong
}

// everythingServer starts the reference server on HTTP and returns its URL.
func everythingServer(t *testing.T, stateless bool) string {
	t.Helper()
	addr := testport.Address(t)
	start(t, "everything-server", exec.Command(built(t, lab.everything), "-http", addr, fmt.Sprintf("-stateless=%t", stateless)))
	if !testwait.Within(10*time.Second, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}) {
		t.Fatalf("the reference server does not listen on %s", addr)
	}
	return "http://" + addr
}

// baselines are the direct runs, by requirement set and placement over HTTP.
var baselines = struct {
	sync.Mutex
	runs map[string]suiteRun
}{runs: map[string]suiteRun{}}

// direct returns the run of a requirement set against the reference server
// itself, made once.
func direct(t *testing.T, revision, placement string) suiteRun {
	t.Helper()
	baselines.Lock()
	defer baselines.Unlock()
	cell := revision + "-" + placement
	if r, ok := baselines.runs[cell]; ok {
		return r
	}
	r := runSuite(t.Context(), t, everythingServer(t, placement == "stateless"), revision)
	baselines.runs[cell] = r
	return r
}

// TestConformanceDirect records what the reference server passes by itself: in
// its own era every scored scenario, else the suite or the server has changed
// and the cells below prove less than they say.
func TestConformanceDirect(t *testing.T) {
	need(t, lab.node)
	for _, set := range requirementSets {
		r := direct(t, set.revision, set.direct)
		for _, name := range slices.Sorted(maps.Keys(r.Scenarios)) {
			if s := r.Scenarios[name]; s.Scored && !s.ok() {
				t.Errorf("%s: %s fails directly: %q", set.revision, name, s.Wrong)
			}
		}
		t.Logf("%s direct, %s: %d checks passed, %d failed", set.revision, set.direct, r.Passed, r.Failed)
	}
	keepConformance(t)
}

// TestConformance runs the requirement sets against toolgate for each placement:
// each on a fresh gateway, and then the other one on the same. Nothing may fail that
// does not fail directly. What fails in a cell, and why, is in conformance/<cell>.yml;
// an entry that never fails is stale.
func TestConformance(t *testing.T) {
	need(t, lab.node)
	built(t, lab.toolgate)
	t.Run("cells", func(t *testing.T) {
		for _, placement := range placements {
			t.Run(placement.name, func(t *testing.T) {
				t.Parallel()
				failed := map[string]map[string]bool{} // by revision
				for first := range requirementSets {
					g := everythingGateway(t, placement.name, placement.era)
					for turn := range requirementSets {
						set := requirementSets[(first+turn)%len(requirementSets)]
						cell := set.revision + "-" + placement.name
						when := []string{"fresh", "after the other revision"}[turn]
						like := placement.like
						if like == "" {
							like = set.direct
						}
						r := runSuite(t.Context(), t, g.mcp, set.revision)
						base := direct(t, set.revision, like)
						known := expectedFailures(t, cell)
						for _, name := range slices.Sorted(maps.Keys(r.Scenarios)) {
							switch s := r.Scenarios[name]; {
							case s.ok() || !s.Scored:
								continue
							case base.Scenarios[name].ok() && base.Scenarios[name].Passed > 0:
								t.Errorf("%s, %s: %s fails, and does not directly:\n  %s", cell, when, name, strings.Join(s.Wrong, "\n  "))
							case !slices.Contains(known, name):
								t.Errorf("%s, %s: %s fails, which its file does not say:\n  %s", cell, when, name, strings.Join(s.Wrong, "\n  "))
							}
							if failed[set.revision] == nil {
								failed[set.revision] = map[string]bool{}
							}
							failed[set.revision][name] = true
						}
						t.Logf("%s, %s: %d checks passed, %d failed (directly, %s: %d, %d)", cell, when, r.Passed, r.Failed, like, base.Passed, base.Failed)
						baselines.Lock()
						baselines.runs["toolgate-"+cell+" ("+when+")"] = r
						baselines.Unlock()
					}
				}
				for _, set := range requirementSets {
					for _, name := range expectedFailures(t, set.revision+"-"+placement.name) {
						if !failed[set.revision][name] {
							t.Errorf("%s-%s: %s is listed and does not fail", set.revision, placement.name, name)
						}
					}
				}
			})
		}
	})
	keepConformance(t)
}

// everythingGateway puts toolgate in front of the reference server, mounted
// without a namespace, since the suite asks for its tools by name.
func everythingGateway(t *testing.T, placement, era string) *gateway {
	t.Helper()
	servers, toolgate := everything(t, placement, era)
	return startGateway(t, servers, toolgate, "test_simple_text")
}

// everything returns the configuration with the reference server.
func everything(t *testing.T, placement, era string) (servers, toolgate object) {
	t.Helper()
	var server object
	options := object{
		"namespace": "",
		// What the server may ask of a client; all of it, which is not the default.
		"client_requests": object{"sampling": "allow", "elicitation": "allow", "roots": "allow"},
	}
	switch placement {
	case "stateful":
		server = object{"type": "http", "url": everythingServer(t, false)}
	case "stateless":
		server = object{"type": "http", "url": everythingServer(t, true)}
	default:
		server = object{"command": built(t, lab.everything)}
		if era != "" {
			options["protocol"] = era
		}
	}
	return object{"everything": server}, object{"servers": object{"everything": options}}
}

// expectedFailures reads what a cell is known to fail, in the form of the suite's
// own baselines.
func expectedFailures(t *testing.T, cell string) []string {
	t.Helper()
	file := filepath.Join(lab.root, "internal", "e2e", "conformance", cell+".yml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the expected failures: %v", err)
	}
	var lists map[string][]string
	if err := yaml.Unmarshal(data, &lists); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	return lists["server"]
}

// TestConformanceFiles holds the folder to exactly one file per cell.
func TestConformanceFiles(t *testing.T) {
	var want, have []string
	for _, set := range requirementSets {
		for _, placement := range placements {
			want = append(want, set.revision+"-"+placement.name+".yml")
		}
	}
	files, err := filepath.Glob(filepath.Join("conformance", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		have = append(have, filepath.Base(file))
		expectedFailures(t, strings.TrimSuffix(filepath.Base(file), ".yml"))
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("files in conformance (-want +have):\n%s", diff)
	}
}

// keepConformance logs the table of all runs so far and keeps it in the cache.
func keepConformance(t *testing.T) {
	t.Helper()
	baselines.Lock()
	defer baselines.Unlock()
	var table strings.Builder
	fmt.Fprintf(&table, "%-64s %7s %7s %9s %s\n", "run", "passed", "failed", "scenarios", "failing (scored)")
	for _, name := range slices.Sorted(maps.Keys(baselines.runs)) {
		r := baselines.runs[name]
		var failing []string
		for _, s := range slices.Sorted(maps.Keys(r.Scenarios)) {
			if !r.Scenarios[s].ok() && r.Scenarios[s].Scored {
				failing = append(failing, s)
			}
		}
		fmt.Fprintf(&table, "%-64s %7d %7d %9d %s\n", name, r.Passed, r.Failed, len(r.Scenarios), strings.Join(failing, " "))
	}
	t.Logf("conformance:\n%s", table.String())
	if err := writeResult("conformance.json", baselines.runs); err != nil {
		t.Error(err)
	}
}
