//go:build e2e && unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// extensionScenarios are those of credentials that belong to no revision, and that
// toolgate has the extension of.
var extensionScenarios = []string{
	"auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/enterprise-managed-authorization",
	"auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer",
}

// authListed is a line of the suite's list that is of credentials.
var authListed = regexp.MustCompile(`(?m)^  - (auth/\S+) \[[a-z0-9,-]+\]$`)

// listedAuth returns the scenarios of credentials that the suite has for a revision.
func listedAuth(t *testing.T, revision string) (names []string) {
	t.Helper()
	out, err := runConformance(t, "list", "--client", "--spec-version", revision)
	if err != nil {
		t.Fatalf("listing the scenarios: %v\n%s", err, newest(out, 2000))
	}
	for _, m := range authListed.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		t.Fatalf("the suite lists no scenario of credentials:\n%s", newest(out, 2000))
	}
	return names
}

// authFailures are the scenarios that are known to fail, by revision.
func authFailures(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("credentials", "failures.yml"))
	if err != nil {
		t.Fatalf("reading the expected failures: %v", err)
	}
	var all map[string][]string
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatalf("reading the expected failures: %v", err)
	}
	return all
}

// TestConformanceCredentials lets the suite, as server and authorization server,
// judge how toolgate has itself signed in: every check of every scenario of both
// revisions and of the extensions. What is known to fail is in
// credentials/failures.yml, where a scenario that passes is a failure.
func TestConformanceCredentials(t *testing.T) {
	need(t, lab.node)
	toolgate, driver := built(t, lab.toolgate), built(t, conformanceClient())
	known := authFailures(t)
	sets := map[string][]string{"extensions": extensionScenarios}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		sets[revision] = listedAuth(t, revision)
	}
	for set, names := range sets {
		for _, name := range known[set] {
			if !slices.Contains(names, name) {
				t.Errorf("%s is listed to fail in %s, which does not have it", name, set)
			}
		}
		for _, name := range names {
			t.Run(set+"/"+name, func(t *testing.T) {
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
				args := []string{
					"client", "--command", strings.Join([]string{driver, "-toolgate", toolgate, "-dir", dir, "-era", "modern"}, " "),
					"--scenario", name, "-o", results, "--timeout", strconv.FormatInt(clientSideTimeout.Milliseconds(), 10),
				}
				if set != "extensions" {
					args = append(args, "--spec-version", set)
				}
				out, err := runConformance(t, args...)
				s := clientScenario{name: name}
				wrong := s.judge(results)
				if err != nil {
					wrong = append(wrong, err)
				}
				if slices.Contains(known[set], name) {
					if len(wrong) == 0 {
						t.Errorf("%s is listed to fail, and passes: take it out", name)
					}
					return
				}
				for _, err := range wrong {
					t.Error(err)
				}
				if t.Failed() {
					t.Logf("the suite wrote:\n%s", newest(out, 6000))
				}
			})
		}
	}
	var sections, want []string
	for set := range known {
		sections = append(sections, set)
	}
	slices.Sort(sections)
	want = []string{"2025-11-25", "2026-07-28", "extensions"}
	if diff := cmp.Diff(want, sections); diff != "" {
		t.Errorf("sections of the expected failures (-want +have):\n%s", diff)
	}
}
