package fs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/native/plugins/fs"
	"github.com/toolgate/toolgate/native/toolapi"
)

// kit is an open plugin.
type kit struct {
	t     *testing.T
	tools map[string]toolapi.Tool
}

func open(t *testing.T, c fs.Config) *kit {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := fs.Plugin()
	tools, err := p.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	k := &kit{t: t, tools: make(map[string]toolapi.Tool)}
	for _, tool := range tools {
		k.tools[tool.Name] = tool
	}
	return k
}

// call calls a tool and holds what it answers against its schema.
func (k *kit) call(name string, args map[string]any) (map[string]any, toolapi.Result, error) {
	k.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		k.t.Fatal(err)
	}
	tool := k.tools[name]
	k.fits(tool.Input, raw)
	result, err := tool.Run(k.t.Context(), &toolapi.Call{
		Arguments: raw, Progress: func(float64, float64, string) {}, Log: func(string, string) {},
	})
	if err != nil {
		if _, ok := errors.AsType[toolapi.Problem](err); !ok {
			k.t.Errorf("%s %s: %v is not a problem", name, raw, err)
		}
		return nil, result, err
	}
	k.fits(tool.Output, result.Structured)
	var out map[string]any
	if err := json.Unmarshal(result.Structured, &out); err != nil {
		k.t.Fatal(err)
	}
	return out, result, nil
}

func (k *kit) fits(schema, value []byte) {
	k.t.Helper()
	s, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		k.t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", s); err != nil {
		k.t.Fatal(err)
	}
	compiled, err := c.Compile("s.json")
	if err != nil {
		k.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		k.t.Fatal(err)
	}
	if err := compiled.Validate(v); err != nil {
		k.t.Errorf("%s: %v", value, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDefinitions(t *testing.T) {
	k := open(t, fs.Config{Roots: []string{t.TempDir()}})
	for name, want := range map[string]string{
		"read_file": "true false true low", "list_directory": "true false true low",
		"write_file": "false true true high", "delete_file": "false true false high",
	} {
		tool := k.tools[name]
		if got := fmt.Sprint(tool.ReadOnly, tool.Destructive, tool.Idempotent, " ", tool.Risk); got != want || tool.OpenWorld {
			t.Errorf("%s: %s", name, got)
		}
		if tool.Title == "" || tool.Description == "" || tool.Category == "" || tool.Timeout <= 0 || tool.RatePerHour <= 0 || tool.Output == nil {
			t.Errorf("%s: %+v", name, tool)
		}
	}
	if len(k.tools) != 4 {
		t.Errorf("%d tools", len(k.tools))
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	k := open(t, fs.Config{Roots: []string{dir}, MaxBytes: 1000})
	text := strings.Repeat("aé€😀", 300) // 10 bytes each
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "bytes"), []byte("a\x00b\xff"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	sparse := filepath.Join(dir, "sparse")
	must(t, os.WriteFile(sparse, nil, 0o600))
	must(t, os.Truncate(sparse, 1<<40))

	// Whatever the length of a part, the parts make up the whole.
	for _, length := range []int{3, 4, 7, 999, 1000, 100000} {
		var got strings.Builder
		offset := 0.0
		for range 2000 {
			out, result, err := k.call("read_file", map[string]any{"path": filepath.Join(dir, "text"), "offset": offset, "length": length})
			if err != nil {
				t.Fatal(err)
			}
			content, _ := out["content"].(string)
			if out["encoding"] == "base64" {
				// A part that is shorter than a character is no text.
				if length >= utf8.UTFMax {
					t.Fatalf("%v is not text", out)
				}
				break
			}
			if result.Text != content || len(content) > 1000 {
				t.Fatalf("%d bytes", len(content))
			}
			got.WriteString(content)
			next, more := out["next_offset"].(float64)
			if !more {
				break
			}
			offset = next
		}
		if length >= utf8.UTFMax && got.String() != text {
			t.Errorf("parts of %d: %d bytes, want %d", length, got.Len(), len(text))
		}
	}
	for _, tc := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"path": "bytes"}, `{"content":"YQBi/w==","encoding":"base64","length":4}`},
		{map[string]any{"path": "bytes", "encoding": "text"}, "not UTF-8 text"},
		{map[string]any{"path": "bytes", "length": 1}, `{"content":"a","encoding":"text","length":1,"next_offset":1}`},
		{map[string]any{"path": "bytes", "offset": 4}, `{"content":"","encoding":"text","length":0,"offset":4}`},
		{map[string]any{"path": "bytes", "offset": 1 << 50}, `{"content":"","encoding":"text","length":0,"offset":1125899906842624}`},
		{map[string]any{"path": "empty"}, `{"content":"","encoding":"text","length":0,"size":0}`},
		{map[string]any{"path": "sparse", "length": 3}, `{"content":"AAAA","length":3,"next_offset":3,"size":1099511627776}`},
		{map[string]any{"path": "sparse", "offset": 1<<40 - 1}, `{"content":"AA==","length":1}`},
		{map[string]any{"path": "sparse"}, `{"length":1000}`},
		{map[string]any{"path": "none"}, "There is no"},
		{map[string]any{"path": "../x"}, "not absolute"},
	} {
		if tc.args["path"] != "../x" {
			tc.args["path"] = filepath.Join(dir, fmt.Sprint(tc.args["path"]))
		}
		out, _, err := k.call("read_file", tc.args)
		if !strings.HasPrefix(tc.want, "{") {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v: %v, want %s", tc.args, err, tc.want)
			}
			continue
		}
		var want map[string]any
		must(t, json.Unmarshal([]byte(tc.want), &want))
		for name, value := range want {
			if out[name] != value {
				t.Errorf("%v: %s is %v, want %v (%v)", tc.args, name, out[name], value, err)
			}
		}
		if _, more := out["next_offset"]; !more && want["next_offset"] != nil {
			t.Errorf("%v: no next_offset", tc.args)
		}
	}
}

// A file that grows as fast as it is read is read as far as it was when it was
// opened.
func TestReadGrowing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for line := bytes.Repeat([]byte("x"), 4096); ; {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := f.Write(line); err != nil {
				return
			}
			if at, _ := f.Seek(0, 1); at > 64<<20 {
				_, _ = f.Seek(0, 0)
			}
		}
	}()
	k := open(t, fs.Config{Roots: []string{dir}, MaxBytes: 1 << 20})
	for range 50 {
		out, _, err := k.call("read_file", map[string]any{"path": path})
		must(t, err)
		size, _ := out["size"].(float64)
		if length, _ := out["length"].(float64); length > 1<<20 || length > size {
			t.Errorf("%v of %v bytes", length, size)
		}
	}
	close(stop)
	<-stopped
}

func TestWriteAndDelete(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	own := filepath.Join(dir, "toolgate.yaml")
	must(t, os.WriteFile(own, []byte("mine"), 0o600))
	k := open(t, fs.Config{Roots: []string{dir}, Write: []string{dir}, Own: []string{own}, MaxBytes: 10})
	path := filepath.Join(dir, "sub", "file")
	for _, tc := range []struct {
		tool string
		args map[string]any
		want string // of the error, or what the file holds
		ok   bool
	}{
		{"write_file", map[string]any{"path": path, "content": "a"}, "There is no", false},
		{"write_file", map[string]any{"path": path, "content": "a", "create_folders": true}, "a", true},
		{"write_file", map[string]any{"path": path, "content": "b", "create_only": true}, "exists already", false},
		{"write_file", map[string]any{"path": path, "content": "AP8=", "encoding": "base64"}, "\x00\xff", true},
		{"write_file", map[string]any{"path": path, "content": "!", "encoding": "base64"}, "not base64", false},
		{"write_file", map[string]any{"path": path, "content": strings.Repeat("x", 11)}, "at most 10", false},
		{"write_file", map[string]any{"path": own, "content": "x"}, "forbidden", false},
		{"read_file", map[string]any{"path": own}, "forbidden", false},
		{"delete_file", map[string]any{"path": own}, "forbidden", false},
		{"delete_file", map[string]any{"path": dir}, "is a folder that is configured", false},
		{"delete_file", map[string]any{"path": filepath.Join(dir, "sub")}, "is a folder", false},
	} {
		_, _, err := k.call(tc.tool, tc.args)
		if tc.ok {
			must(t, err)
			if data, _ := os.ReadFile(path); string(data) != tc.want {
				t.Errorf("%v: %q", tc.args, data)
			}
		} else if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %v: %v, want %s", tc.tool, tc.args, err, tc.want)
		}
	}
	out, _, err := k.call("delete_file", map[string]any{"path": path})
	if err != nil || out["deleted"] != true {
		t.Errorf("%v, %v", out, err)
	}
	out, _, err = k.call("list_directory", map[string]any{"path": dir, "limit": 1})
	if err != nil || out["next_after"] != "sub" {
		t.Errorf("%v, %v", out, err)
	}
	out, _, err = k.call("list_directory", map[string]any{"path": dir, "after": "sub"})
	if entries, _ := out["entries"].([]any); err != nil || len(entries) != 1 || out["next_after"] != nil {
		t.Errorf("%v, %v", out, err)
	}
	if data, _ := os.ReadFile(own); string(data) != "mine" {
		t.Errorf("%q", data)
	}
}

// An argument in another spelling is not the argument that a policy has judged.
func TestArgumentsAreExact(t *testing.T) {
	k := open(t, fs.Config{Roots: []string{t.TempDir()}})
	for _, raw := range []string{`{"Path":"/etc/passwd"}`, `{"path":"/a","path":"/b"}`, `{"path":["/a"]}`, `[]`, `{"path":"/a","follow":true}`} {
		for name, tool := range k.tools {
			if _, err := tool.Run(t.Context(), &toolapi.Call{Arguments: []byte(raw)}); err == nil {
				t.Errorf("%s took %s", name, raw)
			}
		}
	}
}

func TestConfiguration(t *testing.T) {
	for _, config := range []string{``, `{`, `[]`, `{"roots":["relative"]}`, `{"roots":["/none/such"]}`, `{"root":["/"]}`, `{"roots":["/"],"forbidden":["["]}`} {
		if _, err := fs.Plugin().Open([]byte(config)); err == nil {
			t.Errorf("%s was taken", config)
		}
	}
}
