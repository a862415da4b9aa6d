//go:build !windows

package cli

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
)

// declaring is a toolgate section with declared tools.
func declaring(tools ...map[string]any) map[string]any { return map[string]any{"tools": tools} }

// properties is a schema with required texts.
func properties(names ...string) map[string]any {
	p := map[string]any{}
	for _, name := range names {
		p[name] = map[string]any{"type": "string", "maxLength": 100}
	}
	return map[string]any{"type": "object", "properties": p, "required": names, "additionalProperties": false}
}

// What a declaration has wrong is said when it is read, by validate as by a start.
func TestDeclaredToolsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	command := func(more map[string]any) map[string]any {
		out := map[string]any{"name": "x", "type": "command", "sandbox": "auto", "args": []any{"echo"}}
		maps.Copy(out, more)
		return out
	}
	link := filepath.Join(h.dir, "link")
	if err := os.Symlink(h.dir, link); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for name, tc := range map[string]struct {
		tool map[string]any
		want string
	}{
		"the folder of the file":    {command(map[string]any{"write": []any{h.dir}}), "the gateway's own"},
		"the file itself":           {command(map[string]any{"write": []any{h.file}}), "the gateway's own"},
		"by a link":                 {command(map[string]any{"write": []any{link}}), "the gateway's own"},
		"above it":                  {command(map[string]any{"write": []any{"/"}}), "the gateway's own"},
		"read":                      {command(map[string]any{"read": []any{h.dir}}), "the gateway's own"},
		"its working folder":        {command(map[string]any{"cwd": h.dir}), "the gateway's own"},
		"no program":                {command(map[string]any{"args": []any{"no-such-program"}}), "no-such-program is not there"},
		"a pattern of another kind": {command(map[string]any{"input_schema": map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string", "pattern": "^(?!-).*$"}}}}), "cannot be checked"},
		"a broken schema":           {command(map[string]any{"input_schema": map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"type": "strin"}}}}), "input_schema"},
		"a shell":                   {command(map[string]any{"args": []any{"sh", "-c", "echo {x}"}, "input_schema": properties("x")}), "run as code"},
		"a host":                    {map[string]any{"name": "x", "type": "http", "url": "https://{h}/", "input_schema": properties("h")}, "in its host"},
		"no url":                    {map[string]any{"name": "x", "type": "http"}, "url"},
		"a key of the other kind":   {map[string]any{"name": "x", "type": "http", "url": "https://a.example", "args": []any{"x"}}, "it is of tools with type: command"},
		"a server's namespace":      {command(map[string]any{"namespace": "a"}), "is that of the server a"},
		"the gateway's namespace":   {command(map[string]any{"namespace": "toolgate"}), "the gateway's own"},
		"a long name":               {command(map[string]any{"name": strings.Repeat("x", 40)}), "more than 45 characters"},
		"what is granted":           {command(map[string]any{"write": []any{outside}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			h.write(t, servers{"a": fake()}, declaring(tc.tool))
			c, err := config.Load(h.file, config.Options{LookupEnv: os.LookupEnv})
			if err == nil {
				err = daemon.CheckDeclared(c)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v; want %s", err, tc.want)
			}
		})
	}
}
