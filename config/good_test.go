package config

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/upstream"
)

// testEnv is the environment of the good and bad files.
var testEnv = map[string]string{
	"HOME":         "/home/ada",
	"GITHUB_TOKEN": "gh-token",
	"DATABASE_URL": "postgres://db",
	"EMPTY":        "",
	"RECURSIVE":    "${GITHUB_TOKEN}",
}

func testOptions() Options {
	return Options{
		LookupEnv: func(name string) (string, bool) { v, ok := testEnv[name]; return v, ok },
		Input: func(id, description string, password bool) (string, error) {
			return "typed:" + id + ":" + description + map[bool]string{true: ":hidden"}[password], nil
		},
	}
}

func goodFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("testdata/good", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".env" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 16 {
		t.Fatalf("only %d good files", len(files))
	}
	return files
}

// shown is a server with everything a golden should pin, secrets revealed.
func shown(t *testing.T, s Server) map[string]any {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	reveal := func(in map[string]secret.Text) map[string]string {
		out := map[string]string{}
		for k, v := range in {
			out[k] = v.Reveal()
		}
		return out
	}
	m["Command"], m["Args"], m["URL"] = s.Command, s.Args, s.URL
	m["Env"], m["Headers"] = reveal(s.Env), reveal(s.Headers)
	m["Refused"] = errorText(s.Refused)
	m["Timeouts"] = map[string]string{
		"start": s.Timeouts.Start.String(), "list": s.Timeouts.List.String(),
		"call": s.Timeouts.Call.String(), "hard": s.Timeouts.Hard.String(), "idle": s.Timeouts.Idle.String(),
	}
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case string:
			if v == "" && k != "Namespace" {
				delete(m, k)
			}
		case bool:
			if !v {
				delete(m, k)
			}
		case map[string]string:
			if len(v) == 0 {
				delete(m, k)
			}
		case []string:
			if v == nil {
				delete(m, k)
			}
		}
	}
	return m
}

func TestGood(t *testing.T) {
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range goodFiles(t) {
		t.Run(path, func(t *testing.T) {
			c, err := Load(path, testOptions())
			if err != nil {
				t.Fatal(err)
			}
			servers := []any{}
			for _, s := range c.Servers {
				servers = append(servers, shown(t, s))
			}
			warnings := []string{}
			for _, w := range c.Warnings {
				warnings = append(warnings, w.String())
			}
			origins := map[string]string{}
			for path, o := range c.Origins {
				origins[path] = o.String()
			}
			out := map[string]any{
				"client": c.Client, "servers": servers, "skipped": c.Skipped,
				"warnings": warnings, "files": c.Files, "origins": origins,
			}
			if path == "testdata/good/toolgate.yaml" {
				out["toolgate"] = c.Toolgate
			}
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(out); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(b.String(), cwd, "/DIR")
			name := strings.ReplaceAll(strings.TrimPrefix(path, "testdata/good/"), "/", "_")
			golden := filepath.Join("testdata/golden", name+".json")
			if *update {
				if err := os.MkdirAll("testdata/golden", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("parsed differently than %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// TestGoodInvariants holds for every server of every good file.
func TestGoodInvariants(t *testing.T) {
	for _, path := range goodFiles(t) {
		c, err := Load(path, testOptions())
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, c)
		if len(c.Servers)+len(c.Skipped) == 0 {
			t.Errorf("%s: nothing was found", path)
		}
	}
}

// checkConfig asserts what holds for every configuration whatever the file.
func checkConfig(t *testing.T, c *Config) {
	t.Helper()
	if !slices.IsSortedFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("servers are not sorted by key")
	}
	seen := map[string]bool{}
	for _, s := range c.Servers {
		if seen[s.Namespace] {
			t.Errorf("two servers have the namespace %q", s.Namespace)
		}
		seen[s.Namespace] = true
		if s.Namespace != "" && !decode.Pattern("namespace").MatchString(s.Namespace) {
			t.Errorf("server %q has the bad namespace %q", s.Key, s.Namespace)
		}
		if s.Timeouts.Start <= 0 || s.Timeouts.List <= 0 || s.Timeouts.Call <= 0 || s.Timeouts.Hard < s.Timeouts.Call {
			t.Errorf("server %q has the timeouts %v", s.Key, s.Timeouts)
		}
		if s.Concurrency < 1 || s.Processes < 1 || s.Protocol == "" || s.Isolation == "" {
			t.Errorf("server %q lacks settings", s.Key)
		}
		if !s.running() {
			continue
		}
		switch s.Transport {
		case upstream.Stdio:
			if s.Command == "" || s.URL != "" || s.Headers != nil {
				t.Errorf("server %q is stdio and has command %q, url %q", s.Key, s.Command, s.URL)
			}
		case upstream.Streamable, upstream.SSE, upstream.Auto:
			if s.URL == "" || s.Command != "" || s.Env != nil {
				t.Errorf("server %q is remote and has command %q, url %q", s.Key, s.Command, s.URL)
			}
		default:
			t.Errorf("server %q has the transport %q and is not refused", s.Key, s.Transport)
		}
	}
}
