package declared

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are a tool that is declared instead of written: a request, or a
// command. In url, args, stdin, body and header_templates {NAME} is where an
// argument goes; except in url {{ and }} are braces.
type Settings struct {
	// Name of the tool. Required.
	Name string `config:"name" required:"true" format:"toolname"`
	// Namespace goes in front of it. Absent: tools.
	Namespace string `config:"namespace" default:"tools" format:"namespace"`
	// Title is a name for people. Absent: the name.
	Title string `config:"title"`
	// Description says to models what it does. Absent: nothing is said.
	Description string `config:"description"`
	// Type is what calling it does. Required.
	Type string `config:"type" required:"true" enum:"http|command"`

	// Method of the request. Absent: GET.
	Method string `config:"method" enum:"GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"`
	// URL of the request, with places in its path and in the values of its query. Required for http.
	URL string `config:"url"`
	// Query are further values of the query that are sent as they are; a value may name variables, as in "${TOKEN}". Absent: none.
	Query map[string]secret.Text `config:"query"`
	// Headers are sent as they are; a value may name variables, as in "Bearer ${TOKEN}". Absent: none.
	Headers map[string]secret.Text `config:"headers"`
	// HeaderTemplates are headers with places. Absent: none.
	HeaderTemplates map[string]string `config:"header_templates"`
	// Body is a JSON value whose texts have places: one that is a place alone becomes the argument itself, and "{*}" all of
	// them. Absent: none.
	Body json.RawMessage `config:"body"`
	// Redirects is how many are followed, to the same host alone. Absent: 0.
	Redirects int `config:"redirects" min:"0" max:"10"`
	// AllowAddresses are ranges of addresses of a private or special network that the host may have. Absent: those that the
	// url itself names.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`

	// Args are the program and its arguments, each of which stays one argument. Required for command.
	Args []string `config:"args"`
	// Dashes names the places whose values may begin with a dash where they begin an argument. Absent: none may.
	Dashes []string `config:"dashes"`
	// Stdin is what the program reads, a JSON value like body; a text is written as it is. Absent: nothing.
	Stdin json.RawMessage `config:"stdin"`
	// Env are the variables of its environment besides PATH, HOME and TMPDIR; a value may name variables, as in "${TOKEN}". Absent: none.
	Env map[string]secret.Text `config:"env"`
	// Cwd is its working folder. Absent: a private temporary one.
	Cwd string `config:"cwd" format:"path"`
	// Sandbox says what happens where it cannot be confined. Absent: required, so that it is not offered there.
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Read are files and folders that it may read, with everything in them. Absent: what programs need to run, and cwd.
	Read []string `config:"read" format:"path"`
	// Write are those that it may change. Absent: none but the private folder.
	Write []string `config:"write" format:"path"`
	// Run are those that it may execute. Absent: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// Network is what it may reach. Absent: none.
	Network string `config:"network" enum:"none|full"`
	// Limits bound what it may use up. Absent: the defaults of each.
	Limits group.Limits `config:"limits"`

	// Answer is the path of the part of a JSON answer that is the result, such as /items/0 or $.items[*].name. Absent: all of it.
	Answer string `config:"answer"`
	// Timeout bounds one call. Absent: 30s.
	Timeout time.Duration `config:"timeout" min:"10ms" max:"24h"`
	// MaxBytes is how much of an answer, or of an output, is read. Absent: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// InputSchema is the JSON Schema of its arguments. Absent: it takes none.
	InputSchema json.RawMessage `config:"input_schema" format:"object"`
	// OutputSchema is the JSON Schema of its answer, an object. Absent: the answer is text.
	OutputSchema json.RawMessage `config:"output_schema" format:"object"`

	// Class is what it does. Absent: destructive.
	Class string `config:"class" enum:"read_only|write|destructive"`
	// Idempotent tells that calling it twice is calling it once. Absent: false.
	Idempotent bool `config:"idempotent"`
	// Risk of calling it. Absent: by its class.
	Risk string `config:"risk" enum:"low|medium|high"`
	// Category is a word to group by. Absent: none.
	Category string `config:"category"`
	// Approval has every call of it approved by someone (see approvals). Absent: false.
	Approval bool `config:"approval"`
	// Queue has its calls be tasks, which wait for a worker (see queue). Absent: false.
	Queue bool `config:"queue"`
}

// Check implements decode.Checker: a request has what is of requests, a command what is
// of commands.
func (t *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	given := map[string]bool{}
	if n != nil {
		for _, f := range n.Fields {
			given[f.Key] = !f.Value.IsNull()
		}
	}
	const http, command = "http", "command"
	only := map[string]string{
		"method": http, "url": http, "query": http, "headers": http, "header_templates": http, "body": http, "redirects": http, "allow_addresses": http,
		"args": command, "dashes": command, "stdin": command, "env": command, "cwd": command, "sandbox": command, "read": command, "write": command,
		"run": command, "network": command, "limits": command,
	}
	if t.Type == http || t.Type == command {
		for _, f := range n.Fields {
			if kind := only[f.Key]; kind != "" && kind != t.Type {
				p.AtField(f, tree.Join(path, f.Key), "remove it", "it is of tools with type: %s", kind)
			}
		}
	}
	if t.Type == http && !given["url"] {
		p.At(n, tree.Join(path, "url"), "add url: ...", "is required and missing")
	}
	if t.Type == command && len(t.Args) == 0 {
		p.At(n, tree.Join(path, "args"), "add args: [program, argument, ...]", "is required and missing")
	}
	if t.Namespace == "" {
		p.At(n.Get("namespace"), tree.Join(path, "namespace"), "write a name, or leave it out", "declared tools need a namespace")
	}
	if len(t.Namespace)+len("__")+len(t.Name) > maxName {
		p.At(n.Get("name"), tree.Join(path, "name"), "write a shorter one", "it has more than %d characters with its namespace", maxName)
	}
}

// CheckForeign refuses relative paths in a document that is in no folder.
func (t *Settings) CheckForeign(p *tree.Problems, n *tree.Node, path string) {
	program := ""
	if len(t.Args) > 0 && strings.ContainsAny(t.Args[0], `/\`) {
		program = t.Args[0]
	}
	check := func(key string, paths ...string) {
		for _, text := range paths {
			if text != "" && !filepath.IsAbs(text) {
				p.At(n.Get(key), tree.Join(path, key), "write the whole path", "%.80q is relative, and this document is in no folder", text)
			}
		}
	}
	check("args", program)
	check("cwd", t.Cwd)
	check("read", t.Read...)
	check("write", t.Write...)
	check("run", t.Run...)
}
