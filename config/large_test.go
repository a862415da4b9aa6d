package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/raced"
)

// TestLargeFiles reads files with as many values as are plausible and more; with
// work that grows by their square each would take minutes. Without the race detector they are
// smaller: what reads them is the same.
func TestLargeFiles(t *testing.T) {
	many := func(n int, form string) string {
		var b strings.Builder
		for i := range n / raced.Times(1, 3) {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	files := map[string]string{
		"top.json":       `{` + many(25_000, `"mcpSer%d":1,`) + `}`,
		"servers.json":   `{"mcpServers":{` + many(15_000, `"s%d":{"command":"x"},`) + `}}`,
		"unknown.json":   `{"toolgate":{` + many(25_000, `"lis%d":1,`) + `}}`,
		"settings.json":  `{"mcpServers":{` + many(900, `"s%d":{"command":"x"},`) + `},"toolgate":{"servers":{` + many(15_000, `"s%dx":{},`) + `}}}`,
		"tools.json":     `{"mcpServers":{"a":{"command":"x"}},"toolgate":{"servers":{"a":{"tools":{` + many(20_000, `"t%d":{"cost":2},`) + `}}}}}`,
		"inherit.json":   `{"mcpServers":{"a":{"command":"x"}},"toolgate":{"servers":{"a":{"env_inherit":[` + many(25_000, `"V%d",`) + `]}}}}`,
		"keys.json":      `{"toolgate":{"auth":{"keys":[` + many(15_000, `{"id":"k%d","subject":"a"},`) + `]}}}`,
		"gemini.json":    `{"mcp":{"allowed":[` + many(20_000, `"x%d",`) + `]},"mcpServers":{` + many(900, `"s%d":{"httpUrl":"https://x"},`) + `}}`,
		"pairs.toml":     many(format.MaxTOMLNodes, "k%d = 1\n"),
		"tables.toml":    many(format.MaxTOMLNodes/2-1, "[a.t%d]\nb = 1\n"),
		"arrays.toml":    many(format.MaxTOMLNodes/2-1, "[[a]]\nb = %d\n"),
		"pairs.yaml":     many(25_000, "k%d: 1\n"),
		"merges.yaml":    "a: &a {x: 1}\nb: {<<: [" + strings.Repeat("*a,", 50_000) + "]}\n",
		"variables.json": `{"mcpServers":{"a":{"command":"x","args":["` + strings.Repeat("${A:-b}", 100_000) + `"]}}}`,
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			if len(text) > format.MaxFileSize {
				t.Fatalf("the file has %d bytes", len(text))
			}
			c, err := Parse(name, []byte(text), Options{})
			if (c == nil) == (err == nil) {
				t.Errorf("got %v and %v", c, err)
			}
			if n := len(flatten(err)); err != nil && n > tree.MaxErrors+1 {
				t.Errorf("%d errors", n)
			}
		})
	}
}
