package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A list of servers under MCP_SERVERS is read as it is, from a module of Python and from
// JSON: the command may be a list, and a time limit is in seconds.
func TestListOfServers(t *testing.T) {
	t.Parallel()
	const entries = `{
    "filesystem": {"command": ["uvx", "mcp-files"], "args": ["--root", "/data"], "timeout": 120},
    "search": {"command": ["npx", "mcp-search"], "env": {"KEY": "text"}}
}`
	for name, text := range map[string]string{
		"settings.py":  "import os\nMCP_SERVERS = " + entries + "\n",
		"servers.json": `{"MCP_SERVERS": ` + entries + `}`,
		"servers.yaml": "MCP_SERVERS: " + entries + "\n",
	} {
		c, err := Parse(name, []byte(text), Options{})
		if err != nil || len(c.Servers) != 2 {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		files, search := &c.Servers[0], &c.Servers[1]
		if diff := cmp.Diff([]string{"uvx", "mcp-files", "--root", "/data"}, append([]string{files.Command}, files.Args...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if files.Refused != nil || search.Refused != nil || files.Timeouts.Call != 2*time.Minute || search.Env["KEY"].Reveal() != "text" {
			t.Errorf("%s: %+v, %+v", name, files, search)
		}
	}
}
