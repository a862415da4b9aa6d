package system_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/native/plugins/system"
	"github.com/toolgate/toolgate/native/toolapi"
)

// sleeper is a variable that makes the test program wait for the end of its input.
const sleeper = "SYSTEM_TEST_SECRET"

func TestMain(m *testing.M) {
	if os.Getenv(sleeper) != "" {
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(m.Run())
}

func open(t *testing.T, c system.Config) map[string]toolapi.Tool {
	t.Helper()
	raw, err := json.Marshal(c)
	must(t, err)
	p := system.Plugin()
	list, err := p.Open(raw)
	must(t, err)
	t.Cleanup(p.Close)
	tools := make(map[string]toolapi.Tool)
	for _, tool := range list {
		tools[tool.Name] = tool
	}
	return tools
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call calls a tool and holds what it answers against its schema.
func call(t *testing.T, tool toolapi.Tool, args string, into any) error {
	t.Helper()
	result, err := tool.Run(t.Context(), &toolapi.Call{Arguments: []byte(args), Progress: func(float64, float64, string) {}, Log: func(string, string) {}})
	if err != nil {
		if _, ok := errors.AsType[toolapi.Problem](err); !ok {
			t.Errorf("%s %s: %v is not a problem", tool.Name, args, err)
		}
		return err
	}
	fits(t, tool.Output, result.Structured)
	must(t, json.Unmarshal(result.Structured, into))
	return nil
}

func fits(t *testing.T, schema, value []byte) {
	t.Helper()
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	must(t, err)
	must(t, c.AddResource("s.json", doc))
	s, err := c.Compile("s.json")
	must(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	must(t, err)
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v", value, err)
	}
}

func TestDefinitions(t *testing.T) {
	tools := open(t, system.Config{})
	if len(tools) != 3 {
		t.Errorf("%d tools", len(tools))
	}
	for name, tool := range tools {
		if !tool.ReadOnly || tool.Destructive || tool.Title == "" || tool.Description == "" || tool.Risk == "" || tool.Category == "" || tool.Timeout <= 0 || tool.RatePerHour <= 0 || tool.Output == nil {
			t.Errorf("%s: %+v", name, tool)
		}
		for _, args := range []string{`{"other":1}`, `[]`, `{"pid":1,"name":"a"}`} {
			if _, err := tool.Run(t.Context(), &toolapi.Call{Arguments: []byte(args)}); err == nil {
				t.Errorf("%s took %s", name, args)
			}
		}
	}
	for _, config := range []string{``, `{"logs":["/none/such/log"]}`, `{"log":["/"]}`, `{} {}`} {
		if _, err := system.Plugin().Open([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}

func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	tool := open(t, system.Config{Disks: []string{dir, filepath.Join(dir, "none")}})["metrics_snapshot"]
	var got struct {
		CPU    struct{ Count int }
		Memory struct{ Total, Available uint64 }
		Disks  []struct {
			Path  string
			Total uint64
		}
		Uptime      int `json:"uptime_seconds"`
		Unavailable []string
	}
	must(t, call(t, tool, `{}`, &got))
	if got.CPU.Count < 1 || got.Memory.Total < 1<<20 || got.Memory.Available > got.Memory.Total || len(got.Disks) != 1 || got.Disks[0].Path != dir || got.Disks[0].Total == 0 || got.Uptime < 1 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(strings.Join(got.Unavailable, ","), "disk "+filepath.Join(dir, "none")) {
		t.Errorf("%v", got.Unavailable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.Run(ctx, &toolapi.Call{Arguments: []byte(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type processes struct {
	Processes []struct {
		Pid, Parent int
		Name, State string
		RSS         uint64 `json:"rss_bytes"`
	}
}

// A process is told of without what it was started with.
func TestProcessHealth(t *testing.T) {
	tool := open(t, system.Config{})["process_health"]
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "--password=canary-in-argument")
	cmd.Env = append(os.Environ(), sleeper+"=canary-in-environment")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		stdin.Close()
		_ = cmd.Wait()
	}()
	if _, err := stdout.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{fmt.Sprintf(`{"pid":%d}`, cmd.Process.Pid), fmt.Sprintf(`{"name":%q}`, filepath.Base(self))} {
		result, err := tool.Run(t.Context(), &toolapi.Call{Arguments: []byte(args)})
		must(t, err)
		if strings.Contains(string(result.Structured), "canary") {
			t.Errorf("%s", result.Structured)
		}
		var got processes
		must(t, call(t, tool, args, &got))
		found := false
		for _, p := range got.Processes {
			if p.Pid == cmd.Process.Pid {
				found = p.Parent == os.Getpid() && p.RSS > 0 && p.State != "unknown" && strings.HasPrefix(filepath.Base(self), p.Name[:min(len(p.Name), 10)])
			}
		}
		if !found {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for args, want := range map[string]string{
		`{}`: "either pid", `{"pid":0}`: "either pid", `{"pid":-1}`: "either pid", `{"pid":1,"name":"x"}`: "either pid",
		`{"pid":4294967297}`: "either pid", `{"pid":2147483646}`: "no process 2147483646",
	} {
		if err := call(t, tool, args, &processes{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	var none processes
	if err := call(t, tool, `{"name":"no such program"}`, &none); err != nil || len(none.Processes) != 0 {
		t.Errorf("%v, %+v", err, none)
	}
}

type logs struct {
	Lines    []string
	Searched int64 `json:"searched_bytes"`
	Complete bool
}

func TestReadLogs(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	app := write("logs/app.log", "one\ntwo\nthree error\nfour\n\nsix error\n")
	write("logs/odd.log", "\x1b[31mred\x1b[0m\r\ntab\there\n\xff\xfe\x00\n"+strings.Repeat("x", 10000)+"\nno end")
	write("logs/empty.log", "")
	long := write("logs/long.log", strings.Repeat("0123456789abcdef\n", 10000))
	single := write("single.log", "single\n")
	write("single.log.1", "other\n")
	own := write("logs/audit.jsonl", "mine\n")
	write("secret", "secret")
	must(t, os.Symlink("../secret", filepath.Join(dir, "logs", "out")))
	must(t, os.Symlink("app.log", filepath.Join(dir, "logs", "current")))
	must(t, os.Symlink("audit.jsonl", filepath.Join(dir, "logs", "hidden")))
	tool := open(t, system.Config{Logs: []string{filepath.Join(dir, "logs"), single}, Own: []string{own}, MaxBytes: 20000})["read_logs"]
	for _, tc := range []struct {
		path, more string
		want       []string
		complete   bool
		refused    string
	}{
		{path: app, want: []string{"one", "two", "three error", "four", "", "six error"}, complete: true},
		{path: app, more: `,"lines":2`, want: []string{"", "six error"}},
		{path: app, more: `,"contains":"error"`, want: []string{"three error", "six error"}, complete: true},
		{path: app, more: `,"contains":"error","lines":1`, want: []string{"six error"}},
		{path: app, more: `,"contains":"none"`, want: []string{}, complete: true},
		{path: "logs/odd.log", want: []string{"�[31mred�[0m", "tab\there", "�\uFFFD", strings.Repeat("x", 8192) + "...", "no end"}, complete: true},
		{path: "logs/empty.log", want: []string{}, complete: true},
		{path: long, more: `,"lines":2,"contains":"abc"`, want: []string{"0123456789abcdef", "0123456789abcdef"}},
		{path: long, more: `,"contains":"none"`, want: []string{}},
		{path: single, want: []string{"single"}, complete: true},
		{path: "single.log.1", refused: "outside of what this tool reaches. Allowed: "},
		{path: "secret", refused: "outside of what"},
		{path: "logs/out", refused: "by a link"},
		{path: "logs/hidden", refused: "is forbidden"},
		{path: own, refused: "is forbidden"},
		{path: "logs/none", refused: "There is no"},
		{path: "logs", refused: "is a folder"},
		{path: app, more: `,"lines":0`, refused: "between 1 and 5000"},
		{path: "/proc/self/environ", refused: "outside of what"},
	} {
		path := tc.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		var got logs
		err := call(t, tool, fmt.Sprintf(`{"path":%q%s}`, path, tc.more), &got)
		switch {
		case tc.refused != "":
			if runtime.GOOS != "linux" && err != nil {
				continue // links are refused for another reason
			}
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s%s: %v, want %s", tc.path, tc.more, err, tc.refused)
			}
		case err != nil:
			t.Errorf("%s%s: %v", tc.path, tc.more, err)
		default:
			if diff := cmp.Diff(tc.want, got.Lines); diff != "" || got.Complete != tc.complete || got.Searched > 20000 {
				t.Errorf("%s%s: complete %v, %d searched, %s", tc.path, tc.more, got.Complete, got.Searched, diff)
			}
		}
	}
	if runtime.GOOS == "linux" {
		if err := call(t, tool, fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "logs", "current")), &logs{}); err != nil {
			t.Error(err)
		}
	}
	none := open(t, system.Config{})["read_logs"]
	if err := call(t, none, fmt.Sprintf(`{"path":%q}`, app), &logs{}); err == nil || !strings.Contains(err.Error(), "Nothing is allowed: no folder is configured") {
		t.Error(err)
	}
}
