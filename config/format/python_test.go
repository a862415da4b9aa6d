package format

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config/tree"
)

const module = `"""Settings of an agent."""
import os

DEBUG = True
MCP_SERVERS: dict = {
    "filesystem": {
        "command": ["uvx", 'mcp-files'],  # a { comment
        "args": ["--root", "/data"],
        "timeout": 120,
    },
    "search": {"command": ["npx", "x"], "env": {"KEY": "a\"b}"}, "disabled": False},
}
OTHER = {"a": os.environ["B"]}
`

func TestPython(t *testing.T) {
	t.Parallel()
	root, err := ParseDocument("settings.py", []byte(module))
	if err != nil {
		t.Fatal(err)
	}
	got, err := root.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"MCP_SERVERS":{"filesystem":{"command":["uvx","mcp-files"],"args":["--root","/data"],"timeout":120},` +
		`"search":{"command":["npx","x"],"env":{"KEY":"a\"b}"},"disabled":false}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if line := root.Get("MCP_SERVERS").Get("filesystem").Get("timeout").Line; line != 9 {
		t.Errorf("the time limit is in line %d", line)
	}
}

// Whatever would have to be run is refused, with its line.
func TestPythonThatIsNotWrittenOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"X = 1\n", "1: the module assigns nothing"},
		"a call":            {"\nMCP_SERVERS = load()\n", "2: MCP_SERVERS is no dict"},
		"a name":            {"MCP_SERVERS = {\n  'a': {'env': {'K': TOKEN}},\n}\n", "2: only a running module knows what TOKEN is"},
		"a variable":        {"MCP_SERVERS = {\n  'a': os.environ['B'],\n}\n", "2: only a running module knows what os.environ is"},
		"a prefix":          {"MCP_SERVERS = {'a': f'{x}'}\n", "1: only a running module knows what f is"},
		"an expression":     {"MCP_SERVERS = {'a': 60*2}\n", "1: only a running module knows what * is"},
		"none":              {"MCP_SERVERS = {'a': None}\n", "1: only a running module knows what None is"},
		"a tuple":           {"MCP_SERVERS = {'a': ('b',)}\n", "1: only a running module knows what ( is"},
		"a backslash":       {"MCP_SERVERS = {'a': 'b\\n'}\n", "1: this text has no end in its line, or has a backslash"},
		"no end of a text":  {"MCP_SERVERS = {\n'a\n'}\n", "2: this text has no end"},
		"no end":            {"MCP_SERVERS = {'a': {}\n", "the dict does not end"},
		"two texts":         {"MCP_SERVERS = {'a': \"b\" \"c\"}\n", "1"},
		"in a function":     {"def f():\n  MCP_SERVERS = {}\n", "1: the module assigns nothing"},
		"a key given twice": {"MCP_SERVERS = {'a': {},\n'a': {}}\n", "2: MCP_SERVERS.a: this key is already on line 1"},
	} {
		root, err := ParseDocument("settings.py", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", name, root, err, tt.want)
		}
	}
}

// FuzzPython looks for a text that is taken and is not what Python would read: the
// document has the one key, and nothing takes long or fails otherwise than with a fault.
func FuzzPython(f *testing.F) {
	f.Add(module)
	f.Add("MCP_SERVERS = {'a': \"\\u0041\", 'b': -1.5}")
	f.Add("MCP_SERVERS = {[{}]: {")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := ParseDocument("x.py", []byte(text))
		if (root == nil) == (err == nil) {
			t.Fatalf("%v, %v", root, err)
		}
		if err == nil && (len(root.Fields) != 1 || root.Fields[0].Key != "MCP_SERVERS" || root.Fields[0].Value.Kind != tree.KindMap) {
			t.Errorf("%q became %v", text, root.Fields)
		}
	})
}
