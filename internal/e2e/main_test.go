//go:build e2e && unix

package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// update rewrites the generated table instead of comparing it.
var update = flag.Bool("update", false, "rewrite generated files")

// maxParallel bounds the tests that run at once: each runs several processes,
// and the timing steps must not starve each other on two cores.
const maxParallel = "2"

// installTimeout bounds everything TestMain fetches and builds.
const installTimeout = 8 * time.Minute

// lab is what TestMain prepared. It is written before the first test runs.
var lab laboratory

// laboratory holds the installed programs, and why one of them is missing.
type laboratory struct {
	root  string // repository root
	cache string // installed packages and results
	bin   string // built binaries, of this run only

	node   installed
	python installed
	plugin installed // the virtual environment of examples/plugin-python

	toolgate, fixture, everything installed

	mu     sync.Mutex
	notRun map[string]string
}

// installed is one prepared thing: a path, or the reason why there is none.
type installed struct {
	path string
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", maxParallel); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: bounding parallel tests:", err)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: finding the repository root:", err)
		return 1
	}
	bin, err := os.MkdirTemp("", "tge2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: making a folder for binaries:", err)
		return 1
	}
	defer os.RemoveAll(bin)

	lab.root, lab.bin, lab.notRun = root, bin, map[string]string{}
	lab.cache = os.Getenv("TOOLGATE_E2E_CACHE")
	if lab.cache == "" {
		lab.cache = filepath.Join(root, "internal", "e2e", ".cache")
	}
	if lab.cache, err = filepath.Abs(lab.cache); err == nil {
		err = os.MkdirAll(filepath.Join(lab.cache, "results"), 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: preparing the cache:", err)
		return 1
	}

	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	prepare(ctx)
	cancel()

	code := m.Run()
	if err := results.write(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: keeping the results:", err)
		code = max(code, 1)
	}
	return max(code, lab.report())
}

// prepare installs and builds everything, side by side where they wait for
// different things: the network for packages, the processors for builds.
func prepare(ctx context.Context) {
	start := time.Now()
	told := telling(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { lab.node = installNode(ctx) })
	wg.Go(func() { lab.python = installPython(ctx) })
	wg.Go(func() { lab.plugin = installPlugin(ctx) })
	wg.Go(func() {
		lab.fixture = build(ctx, "fixture", "./internal/e2e/cmd/fixture", "-tags", "e2e")
		lab.everything = build(ctx, "everything-server", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
		lab.toolgate = installed{path: os.Getenv("TOOLGATE_E2E_BINARY")}
		if lab.toolgate.path == "" {
			var flags []string
			if raceEnabled {
				flags = append(flags, "-race") // in the tests, so in what they test
			}
			lab.toolgate = build(ctx, "toolgate", "./cmd/toolgate", flags...)
		}
	})
	wg.Wait()
	told()
	fmt.Printf("e2e: prepared in %s, cache %s\n", time.Since(start).Round(100*time.Millisecond), lab.cache)
}

// report prints what could not run, and returns the exit code that this
// deserves: never silent, and a failure where CI=true.
func (l *laboratory) report() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.notRun)) {
		fmt.Fprintf(&list, "  %s: %s\n", name, l.notRun[name])
	}
	// Without -v the go command shows nothing of a run that succeeds, so whoever
	// started it finds the list in the cache too.
	if err := os.WriteFile(filepath.Join(l.cache, "results", "could-not-run.txt"), []byte(list.String()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: keeping what could not run:", err)
		return 1
	}
	if list.Len() == 0 {
		return 0
	}
	fmt.Printf("\ncould not run:\n%s", list.String())
	if os.Getenv("CI") == "true" {
		fmt.Println("with CI=true this is a failure")
		return 1
	}
	return 0
}

// need returns the path of a prepared program. Where it is missing because this
// machine cannot have it, the test is listed as not run, or fails with CI=true.
func need(t *testing.T, what installed) string {
	t.Helper()
	if what.err == nil {
		return what.path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("could not run: %v", what.err)
	}
	lab.mu.Lock()
	lab.notRun[t.Name()] = what.err.Error()
	lab.mu.Unlock()
	t.Skipf("could not run: %v", what.err)
	return ""
}

// built returns the path of a program of this repository. It must build: there
// is no machine on which that would be a reason not to run.
func built(t *testing.T, what installed) string {
	t.Helper()
	if what.err != nil {
		t.Fatalf("%v", what.err)
	}
	return what.path
}
