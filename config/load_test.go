package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/upstream"
)

func TestDefault(t *testing.T) {
	c, err := Default(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Servers) != 0 || c.Path != "" || c.Files != nil {
		t.Errorf("a default with servers or files: %+v", c)
	}
	tg := c.Toolgate
	if tg.Listen.HTTP != "127.0.0.1:7777" || tg.Store != "sqlite:" || tg.Audit.Mode != "best_effort" || tg.Gate.Open {
		t.Errorf("defaults: %+v", tg)
	}
	want := Limits{
		ClientLimits: proxy.ClientLimits{
			Body: 16 << 20, Depth: 128, Sessions: 10000, SessionsPerPrincipal: 100, Idle: 30 * time.Minute, InFlight: 256, Page: 1000,
			Instructions: 16 << 10, SuspendedPerPrincipal: 64, SuspendedPerServer: 256, Rounds: 10000, RoundTime: 15 * time.Minute, Replay: 64 << 20,
			Tasks: 10000,
		},
		Settings: limit.Settings{
			Bodies: 256 << 20, Connections: 20000, Queue: 256, CallsPerPrincipal: 128, IdenticalCalls: 200,
			Rates: limit.Rates{
				Lists: 6000, Initializes: 6000, Notifications: 60000, Cancels: 6000, Completions: 1200, Unknown: 6000, AuthFailures: 6000,
			},
		},
		ServerLimits: upstream.ServerLimits{Result: 32 << 20, Line: 32 << 20, Items: 5000, Pages: 1000, Catalog: 64 << 20},
		InputLimits:  opa.InputLimits{PolicyInput: 256 << 10},
		SearchLimits: redact.SearchLimits{RedactBytes: 8 << 20, RedactTime: 5 * time.Second},
		StoreLimits:  result.StoreLimits{KeptResults: 64 << 20, KeptResultsPerPrincipal: 16 << 20, KeptResultsTime: 15 * time.Minute},
		CallerLimits: enable.CallerLimits{AddedPerPrincipal: 8},
		Drain:        5 * time.Second,
	}
	if diff := cmp.Diff(want, tg.Limits); diff != "" {
		t.Error(diff)
	}
}

func TestAuditIsRequiredWithAuthentication(t *testing.T) {
	const keys = `auth: { keys: [ { id: a, subject: a, sha256: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" } ] }`
	c := parse(t, "x.yaml", "toolgate: { "+keys+" }", Options{})
	if c.Toolgate.Audit.Mode != "required" || c.Toolgate.Auth.Keys[0].Tenant != "default" {
		t.Errorf("got %+v, %+v", c.Toolgate.Audit, c.Toolgate.Auth)
	}
	c = parse(t, "x.yaml", "toolgate: { "+keys+", audit: { mode: best_effort } }", Options{})
	if c.Toolgate.Audit.Mode != "best_effort" {
		t.Errorf("got %+v", c.Toolgate.Audit)
	}
}

func TestOverrides(t *testing.T) {
	const file = `mcpServers: { "my.server": { command: x }, b: { command: y } }
toolgate:
  listen: { http: "127.0.0.1:1", metrics: "127.0.0.1:2", admin: "127.0.0.1:3" }
`
	opts := Options{
		Environ: []string{
			"TOOLGATE_LISTEN_HTTP=127.0.0.1:11", "TOOLGATE_LISTEN_METRICS=127.0.0.1:12", "TOOLGATE_GATE_OPEN=true",
			"TOOLGATE_LIMITS_BODY=1MiB", "TOOLGATE_LIMITS_DEPTH=77", "TOOLGATE_LIMITS_IDLE=5m", "TOOLGATE_LISTEN_HOSTS=a.example, b.example",
			"TOOLGATE_SERVERS_MY_SERVER_NAMESPACE=mine", "TOOLGATE_SERVERS_B_TIMEOUTS_CALL=9s", "TOOLGATE_CONFIG=x", "TOOLGATE_LIMITS_DEPHT=1", "PATH=/bin",
		},
		Flags: map[string]string{"listen.http": "127.0.0.1:21", "servers.my.server.concurrency": "3"},
	}
	c := parse(t, "x.yaml", file, opts)
	tg := c.Toolgate
	if tg.Listen.HTTP != "127.0.0.1:21" || tg.Listen.Metrics != "127.0.0.1:12" || tg.Listen.Admin != "127.0.0.1:3" || !tg.Gate.Open ||
		tg.Limits.Body != 1<<20 || tg.Limits.Depth != 77 || tg.Limits.Idle != 5*time.Minute {
		t.Errorf("got %+v, %+v, %+v", tg.Listen, tg.Gate, tg.Limits)
	}
	if diff := cmp.Diff([]string{"a.example", "b.example"}, tg.Listen.Hosts); diff != "" {
		t.Error(diff)
	}
	if s, _ := c.Server("my.server"); s.Namespace != "mine" || s.Concurrency != 3 {
		t.Errorf("got %+v", s)
	}
	if s, _ := c.Server("b"); s.Timeouts.Call != 9*time.Second {
		t.Errorf("got %+v", s)
	}
	for path, want := range map[string]string{
		"listen.http": "flag listen.http", "listen.metrics": "env TOOLGATE_LISTEN_METRICS", "listen.admin": "x.yaml:3",
		"listen.public_url": "default", "servers.my.server.namespace": "env TOOLGATE_SERVERS_MY_SERVER_NAMESPACE",
		"servers.b.command": "x.yaml:1", "limits.depth": "env TOOLGATE_LIMITS_DEPTH",
	} {
		if got := c.Origin(path).String(); got != want {
			t.Errorf("%s comes from %s, want %s", path, got, want)
		}
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].String(), "TOOLGATE_LIMITS_DEPTH") {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestOverrideErrors(t *testing.T) {
	opts := Options{
		Environ: []string{"TOOLGATE_LIMITS_DEPTH=many", "TOOLGATE_GATE_OPEN=1", "TOOLGATE_SERVERS_A_B_PROCESSES=1"},
		Flags:   map[string]string{"listen.htpp": "x", "limits.tools": "0", "limits.replay_time": "x"},
	}
	_, err := Parse("x.yaml", []byte("mcpServers: { a.b: { command: x }, a-b: { command: x } }\ntoolgate: {}"), opts)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`env TOOLGATE_LIMITS_DEPTH: limits.depth: expected a whole number`,
		`env TOOLGATE_GATE_OPEN: gate.open: expected true or false`,
		`env TOOLGATE_SERVERS_A_B_PROCESSES: could mean`,
		`flag listen.htpp: there is no such setting; write listen.http instead`,
		`flag limits.tools: 0 is too small`,
		`flag limits.replay_time: there is no such setting; remove it: a broken stream is kept for a minute`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), Options{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "it is a folder, device or pipe, not a file; name the file itself") {
		t.Errorf("got %v", err)
	}
}

func TestFindFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	configDir := filepath.Join(dir, "config")
	user := filepath.Join(configDir, "toolgate", FileName)
	env := func(v string) func(string) (string, bool) {
		return func(name string) (string, bool) { return v, name == "TOOLGATE_CONFIG" }
	}
	check := func(want, arg, flag string, lookup func(string) (string, bool)) {
		t.Helper()
		if got, err := FindFile(arg, flag, configDir, lookup); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	check("", "", "", nil)
	if err := os.MkdirAll(filepath.Dir(user), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(user, "", "", env(""))
	if err := os.WriteFile(FileName, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(FileName, "", "", nil)
	for _, own := range [][3]string{{"", "", user}, {"", "flag.yaml", "flag.yaml"}, {FileName, "", FileName}} {
		if got, err := FindOwnFile(own[0], own[1], configDir, nil); err != nil || got != own[2] {
			t.Errorf("%q without the working folder: %q, %v", own, got, err)
		}
	}
	check("missing.yaml", "", "", env("missing.yaml"))
	check("flag.yaml", "", "flag.yaml", env("env.yaml"))
	check("arg.json", "arg.json", "flag.yaml", env("env.yaml"))
}

// TestEnvNamesAreUnique keeps two settings from sharing a variable.
func TestEnvNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, l := range leaves([]string{"x"}) {
		if other, dup := seen[l.env]; dup {
			t.Errorf("%s means %s and %s", l.env, l.path, other)
		}
		seen[l.env] = l.path
	}
	if seen["TOOLGATE_LISTEN_HTTP"] != "listen.http" || seen["TOOLGATE_SERVERS_X_TIMEOUTS_CALL"] != "servers.x.timeouts.call" {
		t.Errorf("names: %v", seen)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.*", "testdata/good/*/*", "testdata/good/.m*", "testdata/bad/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			if info, err := os.Stat(path); err != nil || info.IsDir() || filepath.Ext(path) == ".want" {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(filepath.Base(path), data)
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if strings.Contains(string(data), "envFile") {
			return // the file it names is not of this test
		}
		opts := testOptions()
		c, err := Parse("fuzz/"+filepath.Base(name), data, opts)
		if err != nil {
			for _, e := range flatten(err) {
				var ce *tree.Error
				if !errors.As(e, &ce) || ce.Line < 1 && !strings.Contains(ce.Problem, "larger than") && !strings.Contains(ce.Problem, "not shown") {
					t.Fatalf("an error without a line: %v", e)
				}
			}
			return
		}
		checkConfig(t, c)
		again, err := Parse("fuzz/"+filepath.Base(name), data, opts)
		if err != nil {
			t.Fatal(err)
		}
		if ch := Diff(c, again); !ch.Empty() {
			t.Fatalf("the same file differs from itself: %+v", ch)
		}
	})
}
