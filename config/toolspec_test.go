package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/native/declared"
)

const specs = `tools:
  - name: page_reader
    display_name: Read a page
    description: Read a page of the manual
    tool_type: http
    timeout_seconds: 5
    input_schema: { type: object, properties: { page: { type: string } }, required: [page] }
    implementation_config:
      url: "https://manual.example/{page}"
      headers: { Accept: text/plain }
    metadata: { category: manual, requires_approval: false, risk_level: low }
  - name: remove
    tool_type: sandbox
    input_schema: { type: object, properties: { path: { type: string } }, required: [path] }
    implementation_config:
      command: [rm, "{path}"]
    metadata: { is_dangerous: true, requires_approval: true }
  - name: now
    tool_type: shell
    implementation_config: { command: date }
`

// A file of specifications of another tool system is read as it is, as a file of tools, in
// the section itself, and as a document of a server.
func TestToolSpecs(t *testing.T) {
	t.Parallel()
	want := []declared.Settings{
		{
			Name: "page_reader", Namespace: "tools", Title: "Read a page", Description: "Read a page of the manual", Type: "http",
			URL: "https://manual.example/{page}", Timeout: 5 * time.Second, Category: "manual", Risk: "low",
		},
		{Name: "remove", Namespace: "tools", Type: "command", Args: []string{"rm", "{path}"}, Class: "destructive", Risk: "high", Approval: true},
		{Name: "now", Namespace: "tools", Type: "command", Args: []string{"date"}},
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tools.yaml"), []byte(specs), 0o600); err != nil {
		t.Fatal(err)
	}
	indented := "  " + strings.ReplaceAll(strings.TrimSpace(specs), "\n", "\n  ") + "\n"
	for name, read := range map[string]func() ([]declared.Settings, error){
		"a file": func() ([]declared.Settings, error) {
			c, err := Parse(filepath.Join(dir, "toolgate.yaml"), []byte("toolgate: { tool_files: [tools.yaml] }\n"), Options{})
			if err != nil {
				return nil, err
			}
			return c.Toolgate.Tools, nil
		},
		"the section": func() ([]declared.Settings, error) {
			c, err := Parse(filepath.Join(dir, "toolgate.yaml"), []byte("toolgate:\n"+indented), Options{})
			if err != nil {
				return nil, err
			}
			return c.Toolgate.Tools, nil
		},
		"a document": func() ([]declared.Settings, error) { return ParseTools("https://x.example/tools.yaml", []byte(specs)) },
	} {
		got, err := read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got) == len(want) && !json.Valid(got[0].InputSchema) {
			t.Errorf("%s: the schema is %s", name, got[0].InputSchema)
		}
		for i := range got {
			got[i] = declared.Settings{
				Name: got[i].Name, Namespace: got[i].Namespace, Title: got[i].Title, Description: got[i].Description, Type: got[i].Type,
				URL: got[i].URL, Args: got[i].Args, Timeout: got[i].Timeout, Category: got[i].Category, Risk: got[i].Risk,
				Class: got[i].Class, Approval: got[i].Approval,
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What cannot be kept is said line by line, with what to write, and nothing else is said
// of the entry.
func TestToolSpecsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	_, err := ParseTools("tools.yaml", []byte(`tools:
  - name: file_reader
    tool_type: python
    implementation_config: { module: file_tools, function_name: read_file }
  - name: dangerous_delete
    tool_type: shell
    implementation_config:
      command: "rm {path}"
  - name: count
    tool_type: sandbox
    implementation_config:
      command: "cat {path} | wc -l"
  - name: search
    tool_type: mcp
    implementation_config: { server: web }
  - name: dance
    tool_type: robot
    metadata:
      permissions: [admin]
      is_dangerous: perhaps
  - name: twice
    tool_type: http
    type: http
    implementation_config: 7
`))
	if err == nil {
		t.Fatal("all of it was taken")
	}
	want := []string{
		"2: tools[0].cwd: is required and missing", "the folder that the module is in",
		"8: tools[1].implementation_config.command: ", `write args: [rm, "{path}"]`,
		"12: tools[2].implementation_config.command: ", "this line needs one",
		"14: tools[3].tool_type: ", "mcpServers",
		`17: tools[4].tool_type: there is no type "robot"`,
		"19: tools[4].metadata.permissions: ", "capsules",
		"20: tools[4].metadata.is_dangerous: ",
		"23: tools[5].type: type says the same",
		"24: tools[5].implementation_config: expected a map",
	}
	text := err.Error()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
	if got := strings.Count(text, "\n") + 1; got != 9 {
		t.Errorf("%d lines, want 9:\n%s", got, text)
	}
}

// A line for a shell is refused in our own keys too, with the arguments to write; a list is
// the arguments.
func TestShellLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`command: "rm {path}"`:          `tools[0].command: no shell reads a command: each argument is an element of its own, so that what takes the place of {NAME} stays one argument; write args: [rm, "{path}"]`,
		`args: "rm -f {path}"`:          `tools[0].args: no shell reads a command: each argument is an element of its own, so that what takes the place of {NAME} stays one argument; write args: [rm, -f, "{path}"]`,
		`shell: "cat {path} | wc -l"`:   "tools[0].shell: no shell reads a command, and this line needs one",
		`shell: "echo $HOME"`:           "tools[0].shell: no shell reads a command, and this line needs one",
		`command: [rm, "{path}"]`:       "",
		`command: date`:                 "",
		"args: [rm]\n    command: [rm]": "remove one of the two",
	} {
		tools, err := ParseTools("tools.yaml", []byte("tools:\n  - name: it\n    type: command\n    "+text+"\n"))
		if said := fmt.Sprint(err); want != "" && !strings.Contains(said, want) || want == "" && (err != nil || len(tools) != 1 || len(tools[0].Args) == 0) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A function is named by its module and the folder of that; nothing else of a tool is.
func TestDeclaredFunctions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"module: kit.math\n    function: add\n    cwd: /srv/kit":                 "",
		"module: kit.math\n    function: Box.open\n    cwd: /srv/kit":            "",
		"function: add\n    cwd: /srv/kit":                                       "tools[0].module: is required and missing",
		"module: kit\n    cwd: /srv/kit":                                         "tools[0].function: is required and missing",
		"module: kit\n    function: add":                                         "tools[0].cwd: is required and missing; add cwd: FOLDER",
		"module: kit\n    function: add\n    cwd: kit":                           `"kit" is relative`,
		"module: ../kit\n    function: add\n    cwd: /srv":                       `"../kit" is not the name of a module`,
		"module: kit\n    function: \"add()\"\n    cwd: /srv":                    `"add()" is not the name of a function`,
		"module: kit\n    function: add\n    cwd: /srv\n    args: [x]":           "tools[0].args: it is of tools with type: command",
		"module: kit\n    function: add\n    cwd: /srv\n    url: https://a.com/": "tools[0].url: it is of tools with type: http",
	} {
		tools, err := ParseTools("tools.yaml", []byte("tools:\n  - name: it\n    type: python\n    "+text+"\n"))
		if said := fmt.Sprint(err); want != "" && !strings.Contains(said, want) || want == "" && (err != nil || tools[0].Module != "kit.math") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"type: command\n    args: [date]\n    module: kit": "tools[0].module: it is of tools with type: python",
		"type: http\n    url: https://a.com/\n    cwd: /":  "tools[0].cwd: it is of tools with type: command or python",
	} {
		if _, err := ParseTools("tools.yaml", []byte("tools:\n  - name: it\n    "+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	tools, err := ParseTools("tools.yaml", []byte(`tools:
  - { name: file_reader, tool_type: python, cwd: /srv, implementation_config: { module: file_tools, function_name: read_file } }
`))
	if err != nil || tools[0].Type != "python" || tools[0].Module != "file_tools" || tools[0].Function != "read_file" {
		t.Errorf("a specification: %+v, %v", tools, err)
	}
}
