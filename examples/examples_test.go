//go:build e2e

package examples_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// programs are the binaries that the scripts call, by the packages they are
// built from.
var programs = []string{"../cmd/toolgate", "./notes-server", "./oauth-issuer", "./login-server", "./receiver", "./embedder", "./note-guard", "./model-server", "./broker", "./plugin-go", "./plugin-go-sdk", "./plugin-mcp-go"}

var bin string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	for _, p := range programs {
		to := filepath.Join(dir, filepath.Base(p))
		if runtime.GOOS == "windows" {
			to += ".exe"
		}
		if err := built.Program(context.Background(), to, p); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		return max(code, 1)
	}
	return code
}

// postgres is the PostgreSQL server of the examples that need one.
var postgres storetest.Server

// TestExamples runs the script of every example with its folder's files.
func TestExamples(t *testing.T) {
	scripts, err := filepath.Glob("*/example.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		folder := filepath.Dir(script)
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
				t.Errorf("the example does not say what it shows: %v", err)
			}
			testscript.Run(t, testscript.Params{
				Files: []string{script},
				Cmds:  map[string]func(*testscript.TestScript, bool, []string){"envfile": envFile, "until": until, "checksum": checksum},
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
					e.Setenv("BIN", bin)
					e.Setenv("TOOLGATE_STATE", filepath.Join(e.WorkDir, "state"))
					e.Setenv("TOOLGATE_LISTEN_METRICS", "")
					e.Setenv("TOOLGATE_LISTEN_CONSOLE", "")
					e.Setenv("TOOLGATE_KEYRING", "file") // not that of whoever runs the tests
					return copyFiles(folder, e.WorkDir, freeAddresses(t, e))
				},
			})
		})
	}
}

// envFile is the command "envfile NAME FILE": it sets a variable to the text of
// a file, without the white space around it.
func envFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: envfile NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// placeholder is written in configurations where a checksum belongs.
var placeholder = strings.Repeat("0", 2*sha256.Size)

// checksum is the command "checksum PROGRAM FILE": it writes a program's checksum
// into a file in the place of the placeholder.
func checksum(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: checksum PROGRAM FILE")
	}
	sum := sha256.Sum256([]byte(ts.ReadFile(args[0])))
	text := strings.Replace(ts.ReadFile(args[1]), placeholder, hex.EncodeToString(sum[:]), 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// patience bounds "until".
const patience = 30 * time.Second

// until is the command "until REGEXP PROGRAM ARGUMENT...": it runs a program until
// its output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM ARGUMENT...")
	}
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	if !testwait.Within(patience, func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && wanted.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("not within %v: %s", patience, args[0])
	}
}

// addresses are the ones that files of examples name, by the variable that
// scripts have for them. Each run has free ones in their places.
var addresses = map[string]string{"ISSUER": "127.0.0.1:7790", "GATEWAY": "127.0.0.1:7791", "RECEIVER": "127.0.0.1:7792", "METRICS": "127.0.0.1:7793", "EMBEDDER": "127.0.0.1:7794", "GUARD": "127.0.0.1:7795", "MODEL": "127.0.0.1:7796", "BROKER": "127.0.0.1:7797", "CONSOLE": "127.0.0.1:7798"}

func freeAddresses(t *testing.T, e *testscript.Env) *strings.Replacer {
	t.Helper()
	var pairs []string
	for name, written := range addresses {
		free := testport.Address(t)
		e.Setenv(name, free)
		pairs = append(pairs, written, free)
	}
	return strings.NewReplacer(pairs...)
}

// copyFiles copies an example's folder, with other texts for some of its own.
func copyFiles(from, to string, replace *strings.Replacer) error {
	return filepath.WalkDir(from, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if name == "example.txtar" {
			return nil
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), []byte(replace.Replace(string(data))), 0o600)
	})
}
