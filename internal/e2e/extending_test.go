//go:build e2e && unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// extensions are the examples of docs/extending.md as an overlay of the source tree:
// files by their paths, those that are added and those that have lines more.
func extensions(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(lab.root, "docs", "extending.md"))
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]string{}
	for i, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, closed := strings.Cut(block, "```")
		first, rest, _ := strings.Cut(block, "\n")
		added, isFile := strings.CutPrefix(first, "// file: ")
		changed, isChange := strings.CutPrefix(first, "// in: ")
		switch {
		case closed && isFile:
			if _, err := os.Stat(filepath.Join(lab.root, added)); err == nil {
				t.Errorf("block %d adds %s, which is there", i+1, added)
			}
			overlay[added] = rest
		case closed && isChange:
			text, done := overlay[changed]
			if !done {
				raw, err := os.ReadFile(filepath.Join(lab.root, changed))
				if err != nil {
					t.Fatalf("block %d: %v", i+1, err)
				}
				text = string(raw)
			}
			if overlay[changed], err = withLines(text, rest); err != nil {
				t.Fatalf("block %d, %s: %v", i+1, changed, err)
			}
		default:
			t.Fatalf("block %d begins with %q, want a file that it adds or changes", i+1, first)
		}
	}
	return overlay
}

// withLines changes the lines of a text as a block says: those marked with - are removed
// and those marked with + are added. The lines before and those removed must be in the
// text once.
func withLines(text, block string) (string, error) {
	var before, after string
	added := 0
	for line := range strings.Lines(block) {
		if rest, is := strings.CutPrefix(line, "+"); is {
			after += rest
			added++
		} else if rest, is := strings.CutPrefix(line, "-"); is {
			before += rest
		} else {
			before, after = before+line, after+line
		}
	}
	if strings.Count(text, before) != 1 || added == 0 {
		return "", fmt.Errorf("the lines\n%sare there %d times, want once, and %d lines are added", before, strings.Count(text, before), added)
	}
	return strings.Replace(text, before, after, 1), nil
}

// buildExtended builds toolgate with the examples and returns the program.
func buildExtended(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range extensions(t) {
		file := filepath.Join(dir, fmt.Sprint(len(replace), filepath.Base(name)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(lab.root, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "toolgate")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-ldflags", "-s -w", "-o", program, "./cmd/toolgate")
	cmd.Dir = lab.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the examples do not build: %v\n%s", err, out)
	}
	return program
}

// Every example of docs/extending.md is written into the source tree, built and
// called.
func TestExtending(t *testing.T) {
	t.Parallel()
	program := buildExtended(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "toolgate.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TOOLGATE_STATE="+filepath.Join(dir, "state"), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	write("toolgate:\n  native: { dice: {}, util: {} }\n  denied: { names: [\"util__*\"] }\n")
	if out, err := run("whereami", "-c", config); err != nil || strings.TrimSpace(out) != config {
		t.Errorf("the command: %v, %q, want %s", err, out, config)
	}
	if out, err := run("call", "dice__roll", "sides=6", "-c", config); err != nil || !strings.Contains(out, "rolled") {
		t.Errorf("the tool: %v, %s", err, out)
	}
	if out, err := run("call", "util__echo", "text=hi", "-c", config); err == nil || !strings.Contains(out, "calls of util__* are switched off") {
		t.Errorf("a call that the phase denies: %v, %s", err, out)
	}
	write("mcpServers:\n  lines: { type: tcp, url: \"tcp://" + serveLines(t) + "\" }\n")
	if out, err := run("call", "lines__greet", "-c", config); err != nil || !strings.Contains(out, "hello over a line") {
		t.Errorf("the transport: %v, %s", err, out)
	}
	write("toolgate:\n  budgets_in: logged\n  native: { util: {} }\n  budgets: [ { name: one, per: subject, match: \"*\", limit: 1, window: day } ]\n")
	if out, err := run("call", "util__echo", "text=hi", "-c", config); err != nil {
		t.Errorf("a call within the budget: %v, %s", err, out)
	}
	if out, err := run("call", "util__echo", "text=hi", "-c", config); err == nil || !strings.Contains(out, "a budget is used up") {
		t.Errorf("a call beyond the budget: %v, %s, want a line in the log", err, out)
	}
	write("toolgate:\n  denied: { nams: [] }\n")
	if out, err := run("validate", config); err == nil || !strings.Contains(out, "write names instead") {
		t.Errorf("the setting, misspelled: %v, %s, want the right name", err, out)
	}
}

// serveLines runs a legacy MCP server that speaks over TCP, a message a line, and
// returns its address.
func serveLines(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				answerLines(conn)
			})
		}
	})
	return l.Addr().String()
}

// answerLines answers the requests on a connection until it ends.
func answerLines(conn net.Conn) {
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"lines","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"hello over a line"}]}`,
		"ping":       `{}`,
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"Method not found"}`
		if result, ok := results[req.Method]; ok {
			answer = `"result":` + result
		}
		if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", req.ID, answer); err != nil {
			return
		}
	}
}
