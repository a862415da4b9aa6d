//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testwait"
)

// realServer is a reference server from the npm registry, with one call that
// means something.
type realServer struct {
	name  string // its key, so also its namespace
	entry func(dir string) object
	tools []string // some that it must list
	visit func(ctx context.Context, a adapter, v *visit) error
}

// visit is what one visit of a server knows: the folder that the filesystem
// server serves, and a name that no other visit uses.
type visit struct {
	dir   string
	label string
	tools []string // as listed
}

// tool finds a tool by the server's own name for it.
func (v *visit) tool(name string) (string, error) { return named(v.tools, nil, name) }

// npmEntry returns the configuration of an npm server of the cache.
func npmEntry(pkg string, args ...string) object {
	script := filepath.Join(lab.cache, "node", "node_modules", "@modelcontextprotocol", pkg, "dist", "index.js")
	return object{"command": lab.node.path, "args": append([]string{script}, args...)}
}

var realServers = []realServer{
	{
		name:  "everything",
		entry: func(string) object { return npmEntry("server-everything") },
		tools: []string{"echo", "get-sum", "get-tiny-image"},
		visit: visitEverything,
	},
	{
		name:  "files",
		entry: func(dir string) object { return npmEntry("server-filesystem", dir) },
		tools: []string{"read_text_file", "list_directory", "write_file"},
		visit: func(ctx context.Context, a adapter, v *visit) error {
			file := filepath.Join(v.dir, v.label+".txt")
			if err := os.WriteFile(file, []byte("written by "+v.label), 0o600); err != nil {
				return fmt.Errorf("writing a file to read: %w", err)
			}
			got, err := callNamed(ctx, a, v, "read_text_file", object{"path": file})
			if err == nil && got.Text != "written by "+v.label {
				return fmt.Errorf("read_text_file returned %q", got.Text)
			}
			return err
		},
	},
	{
		name: "memory",
		entry: func(dir string) object {
			return with(npmEntry("server-memory"), object{"env": object{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.json")}})
		},
		tools: []string{"create_entities", "open_nodes", "read_graph"},
		visit: func(ctx context.Context, a adapter, v *visit) error {
			if _, err := callNamed(ctx, a, v, "create_entities", object{"entities": []object{
				{"name": v.label, "entityType": "visit", "observations": []string{"it came by"}},
			}}); err != nil {
				return err
			}
			got, err := callNamed(ctx, a, v, "open_nodes", object{"names": []string{v.label}})
			if err == nil && !(strings.Contains(got.Text, v.label) && strings.Contains(got.Text, "it came by")) {
				return fmt.Errorf("open_nodes returned %q", got.Text)
			}
			return err
		},
	},
	{
		name:  "thinking",
		entry: func(string) object { return npmEntry("server-sequential-thinking") },
		tools: []string{"sequentialthinking"},
		visit: func(ctx context.Context, a adapter, v *visit) error {
			got, err := callNamed(ctx, a, v, "sequentialthinking", object{
				"thought": v.label, "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
			})
			if err == nil && !strings.Contains(got.Text, `"totalThoughts": 1`) {
				return fmt.Errorf("sequentialthinking returned %q", got.Text)
			}
			return err
		},
	},
}

func visitEverything(ctx context.Context, a adapter, v *visit) error {
	got, err := callNamed(ctx, a, v, "get-sum", object{"a": 2, "b": 40})
	if err != nil {
		return err
	}
	if !strings.Contains(got.Text, "42") {
		return fmt.Errorf("get-sum returned %q", got.Text)
	}
	prompts, err := a.Prompts(ctx)
	if err != nil {
		return fmt.Errorf("listing prompts: %w", err)
	}
	prompt, err := named(prompts, nil, "args-prompt")
	if err != nil {
		return err
	}
	text, err := a.Prompt(ctx, prompt, map[string]string{"city": "Ghent"})
	if err != nil {
		return fmt.Errorf("getting %s: %w", prompt, err)
	}
	if !strings.Contains(text, "Ghent") {
		return fmt.Errorf("%s returned %q", prompt, text)
	}
	resources, err := a.Resources(ctx)
	if err != nil {
		return fmt.Errorf("listing resources: %w", err)
	}
	static, err := named(resources, nil, "demo://resource/static/document/features.md")
	if err != nil {
		return err
	}
	templates, err := a.Templates(ctx)
	if err != nil {
		return fmt.Errorf("listing templates: %w", err)
	}
	dynamic, err := named(templates, nil, "demo://resource/dynamic/text/{resourceId}")
	if err != nil {
		return err
	}
	for uri, want := range map[string]string{
		static: "# Everything Server",
		strings.Replace(dynamic, "{resourceId}", "7", 1): "Resource 7",
	} {
		text, err := a.Read(ctx, uri)
		if err != nil {
			return fmt.Errorf("reading %s: %w", uri, err)
		}
		if !strings.Contains(text, want) {
			return fmt.Errorf("%s reads %.200q, want %q in it", uri, text, want)
		}
	}
	return nil
}

func callNamed(ctx context.Context, a adapter, v *visit, name string, args object) (callResult, error) {
	tool, err := v.tool(name)
	if err != nil {
		return callResult{}, err
	}
	data, err := json.Marshal(args)
	if err != nil {
		return callResult{}, fmt.Errorf("writing the arguments of %s: %w", tool, err)
	}
	got, err := a.Call(ctx, tool, string(data), nil)
	if err != nil {
		return callResult{}, fmt.Errorf("calling %s: %w", tool, err)
	}
	return got, nil
}

// visitAll visits servers through one client. A list that lacks tools is asked
// for again for a while, since servers from npm take up to a second to start.
func visitAll(t *testing.T, a adapter, servers []realServer, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := &visit{dir: dir, label: newLabel("visit")}
	var missing error
	if !testwait.Within(20*time.Second, func() bool {
		v.tools, missing = a.Tools(ctx)
		for _, s := range servers {
			for _, tool := range s.tools {
				if missing == nil {
					_, missing = v.tool(tool)
				}
			}
		}
		return missing == nil || ctx.Err() != nil
	}) || missing != nil {
		t.Fatalf("listing tools: %v", missing)
	}
	for _, s := range servers {
		if err := s.visit(ctx, a, v); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// TestServersDirect is the baseline: each server by itself, over stdio.
func TestServersDirect(t *testing.T) {
	need(t, lab.node)
	for _, s := range realServers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			entry := s.entry(dir)
			to := target{Command: entry["command"].(string), Args: entry["args"].([]string), Env: map[string]string{"PATH": os.Getenv("PATH")}}
			if env, ok := entry["env"].(object); ok {
				for k, v := range env {
					to.Env[k] = v.(string)
				}
			}
			visitAll(t, dialRawStdio(t, to), []realServer{s}, dir)
		})
	}
}

// TestServers reaches all four through toolgate, over each downstream
// transport with another client.
func TestServers(t *testing.T) {
	need(t, lab.node)
	built(t, lab.toolgate)
	dir := t.TempDir()
	servers := object{}
	for _, s := range realServers {
		servers[s.name] = s.entry(dir)
	}
	var want []string
	for _, s := range realServers {
		for _, tool := range s.tools {
			want = append(want, s.name+"__"+tool)
		}
	}
	g := startGateway(t, servers, nil, want...)

	t.Run("http", func(t *testing.T) {
		c, err := dialGoSDK(t.Context(), target{Transport: "http", Era: "legacy", URL: g.mcp})
		if err != nil {
			t.Fatal(err)
		}
		visitAll(t, c, realServers, dir)
		if err := c.Close(); err != nil {
			t.Errorf("closing the session: %v", err)
		}
	})
	t.Run("sse", func(t *testing.T) {
		c, err := dialMCPGo(t.Context(), target{Transport: "sse", Era: "legacy", URL: g.sse})
		if err != nil {
			t.Fatal(err)
		}
		visitAll(t, c, realServers, dir)
		if err := c.client.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	// Two processes of "toolgate stdio": one that starts the servers itself, and
	// one that finds toolgate running with the same file.
	t.Run("stdio-alone", func(t *testing.T) {
		visitAll(t, dialRawStdio(t, newSetup(t, servers, nil).stdio(t)), realServers, dir)
	})
	t.Run("stdio-joined", func(t *testing.T) {
		visitAll(t, dialRawStdio(t, g.stdio(t)), realServers, dir)
	})
}
