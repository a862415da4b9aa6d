package declared

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/native/group"
	"github.com/toolgate/toolgate/native/steps"
	"github.com/toolgate/toolgate/proxy/reuse"
)

// Settings are a tool that is declared instead of written: a request, a command, or calls
// of other tools. In url, args, stdin, body and header_templates {NAME} is where an
// argument goes; except in url {{ and }} are braces.
type Settings struct {
	// Name of the tool. Required.
	Name string `config:"name" required:"true" format:"toolname"`
	// Prefix of the tool's exposed name. Default: tools.
	Namespace string `config:"namespace" default:"tools" format:"namespace"`
	// Title for people. Default: the name.
	Title string `config:"title"`
	// Description for models. Default: none.
	Description string `config:"description"`
	// What a call does. Required.
	Type string `config:"type" required:"true" enum:"http|command|python|steps"`

	// HTTP method. Default: GET.
	Method string `config:"method" enum:"GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"`
	// URL of the request, with placeholders in its path and in the values of its query. Required for http.
	URL string `config:"url"`
	// Additional query parameters without placeholders; a value may contain variables, as in "${TOKEN}". Default: none.
	Query map[string]secret.Text `config:"query"`
	// Headers without placeholders; a value may contain variables, as in "Bearer ${TOKEN}". Default: none.
	Headers map[string]secret.Text `config:"headers"`
	// Headers with placeholders. Default: none.
	HeaderTemplates map[string]string `config:"header_templates"`
	// JSON body with placeholders in its strings. A string that is only a placeholder becomes the argument itself, and
	// "{*}" becomes all arguments. Default: none.
	Body json.RawMessage `config:"body"`
	// How many redirects to the same host are followed. Default: 0.
	Redirects int `config:"redirects" min:"0" max:"10"`
	// Private or special address ranges in which the host may be. Default: those that the URL itself names.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`

	// Python module in the folder cwd. Required for python.
	Module string `config:"module"`
	// Function of the module; it gets the arguments by their names. Required for python.
	Function string `config:"function"`

	// Program and its arguments; an argument with a placeholder always stays one argument. Required for command.
	Args []string `config:"args"`
	// Placeholders at the start of an argument whose values may begin with a dash. Default: none.
	Dashes []string `config:"dashes"`
	// What the program reads: a JSON value with placeholders as in body, or a string, which is written as it is.
	// Default: nothing.
	Stdin json.RawMessage `config:"stdin"`
	// Environment variables in addition to PATH, HOME and TMPDIR; a value may contain variables, as in "${TOKEN}".
	// Default: none.
	Env map[string]secret.Text `config:"env"`
	// Working folder of the program; for python the folder of the module. Default: a private temporary folder.
	Cwd string `config:"cwd" format:"path"`
	// What happens where the program cannot be sandboxed. Default: required; the tool is then not offered.
	Sandbox group.Sandboxing `config:"sandbox" enum:"auto|required|off"`
	// Files and folders that the program may read, with everything in them. Default: what programs need to run, and cwd.
	Read []string `config:"read" format:"path"`
	// Files and folders that the program may change. Default: only the private folder.
	Write []string `config:"write" format:"path"`
	// Files and folders that the program may execute. Default: itself and the programs of the system.
	Run []string `config:"run" format:"path"`
	// What the program may reach on the network. Default: none.
	Network string `config:"network" enum:"none|full"`
	// Resource limits of the sandbox. Default: the default of each setting.
	Limits group.Limits `config:"limits"`

	// Calls of other tools, one step after the other. Required for steps.
	Steps []steps.Settings `config:"steps"`
	// Capsule that decides on the calls of the steps in place of what the caller may do. Default: none; the steps may call
	// what the caller may.
	RunAs string `config:"run_as"`

	// Path to the part of a JSON answer that is the result, such as /items/0 or $.items[*].name. For steps a JSON pointer
	// that begins with a step, or a JSON value with placeholders as in body. Default: the whole answer, for steps that of
	// the last one.
	Answer json.RawMessage `config:"answer"`
	// Timeout of one call. Default: 30s.
	Timeout time.Duration `config:"timeout" min:"10ms" max:"24h"`
	// How much of the answer or output is read. Default: 1MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// JSON Schema of the arguments. Default: no arguments.
	InputSchema json.RawMessage `config:"input_schema" format:"object"`
	// JSON Schema of the result, which is an object. Default: the result is text.
	OutputSchema json.RawMessage `config:"output_schema" format:"object"`

	// What the tool does. Default: destructive.
	Class string `config:"class" enum:"read_only|write|destructive"`
	// Whether a repeated call has no further effect. Default: false.
	Idempotent bool `config:"idempotent"`
	// Risk of a call. Default: depends on the class.
	Risk string `config:"risk" enum:"low|medium|high"`
	// Version of the tool, for people and clients; the catalog has it. Default: none.
	Version string `config:"version" format:"id"`
	// A word to group tools by. Default: none.
	Category string `config:"category"`
	// Rate limit: how many calls all callers together may make in any 60 minutes. Default: no limit.
	RateLimitPerHour int64 `config:"rate_limit_per_hour" min:"1" max:"1000000"`
	// Makes it a template: it is not served, and agents may register tools of their own from it (see register_tool).
	// Default: false.
	Template bool `config:"template"`
	// Reuse of the results, of a tool with class: read_only. Default: each call is made.
	Cache *reuse.Settings `config:"cache"`
	// Requires an approval for every call (see approvals). Default: false.
	Approval bool `config:"approval"`
	// Executes calls as tasks, which wait for a free worker (see queue). Default: false.
	Queue bool `config:"queue"`

	// Of is the template that an agent's tool was made of, with its namespace; empty for
	// every other tool. Within is the template's own schema, which holds besides that of
	// the tool.
	Of     string          `config:"-"`
	Within json.RawMessage `config:"-"`
}

// The types of tools.
const (
	typeHTTP    = "http"
	typeCommand = "command"
	typePython  = "python"
	typeSteps   = "steps"
)

// types are all of them.
var types = []string{typeHTTP, typeCommand, typePython, typeSteps}

// typesOf are the types that have a key; every type has the keys that are not here.
var typesOf = map[string][]string{
	"method": {typeHTTP}, "url": {typeHTTP}, "query": {typeHTTP}, "headers": {typeHTTP}, "header_templates": {typeHTTP}, "body": {typeHTTP},
	"redirects": {typeHTTP}, "allow_addresses": {typeHTTP},
	"args": {typeCommand}, "dashes": {typeCommand}, "stdin": {typeCommand},
	"module": {typePython}, "function": {typePython}, "steps": {typeSteps}, "run_as": {typeSteps},
	"env": {typeCommand, typePython}, "cwd": {typeCommand, typePython}, "sandbox": {typeCommand, typePython}, "read": {typeCommand, typePython},
	"write": {typeCommand, typePython}, "run": {typeCommand, typePython}, "network": {typeCommand, typePython}, "limits": {typeCommand, typePython},
}

// dotted is the name of a Python module, or of a function in one.
var dotted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
})

// Check implements decode.Checker: a tool has what is of its type.
func (t *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	given := map[string]bool{}
	if n != nil {
		for _, f := range n.Fields {
			given[f.Key] = !f.Value.IsNull()
		}
	}
	if slices.Contains(types, t.Type) {
		for _, f := range n.Fields {
			if kinds := typesOf[f.Key]; kinds != nil && !slices.Contains(kinds, t.Type) {
				p.AtField(f, tree.Join(path, f.Key), "remove it", "it is of tools with type: %s", strings.Join(kinds, " or "))
			}
		}
	}
	if t.Type == typeHTTP && !given["url"] {
		p.At(n, tree.Join(path, "url"), "add url: ...", "is required and missing")
	}
	if t.Type == typeCommand && len(t.Args) == 0 {
		p.At(n, tree.Join(path, "args"), "add args: [program, argument, ...]", "is required and missing")
	}
	if t.Type == typePython {
		t.checkPython(p, n, path)
	}
	if t.Type == typeSteps {
		t.checkSteps(p, n, path)
	} else if _, err := t.path(); err != nil {
		p.At(n.Get("answer"), tree.Join(path, "answer"), "write a path, such as /items/0", "%v", err)
	}
	if t.Cache != nil && t.Class != "read_only" && t.Type != typeSteps {
		p.At(n.Get("cache"), tree.Join(path, "cache"), "add class: read_only, or remove it", "only results of a tool that changes nothing are reused")
	}
	if t.Namespace == "" {
		p.At(n.Get("namespace"), tree.Join(path, "namespace"), "write a name, or leave it out", "declared tools need a namespace")
	}
	if len(t.Namespace)+len("__")+len(t.Name) > maxName {
		p.At(n.Get("name"), tree.Join(path, "name"), "write a shorter one", "it has more than %d characters with its namespace", maxName)
	}
}

// checkPython reports what the function of a module has wrong.
func (t *Settings) checkPython(p *tree.Problems, n *tree.Node, path string) {
	for _, one := range [...][2]string{{"module", t.Module}, {"function", t.Function}} {
		key, name := one[0], one[1]
		switch at := tree.Join(path, key); {
		case name == "":
			p.At(n, at, "add "+key+": NAME", "is required and missing")
		case !dotted().MatchString(name):
			p.At(n.Get(key), at, "write its name, as Python imports it", "%.80q is not the name of a %s", name, key)
		}
	}
	if t.Cwd == "" {
		p.At(n, tree.Join(path, "cwd"), "add cwd: FOLDER, the folder that the module is in", "is required and missing")
	}
}

// CheckForeign refuses relative paths in a document that is in no folder, and a capsule that
// is lent by whoever wrote it.
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
	if t.RunAs != "" {
		p.At(n.Get("run_as"), tree.Join(path, "run_as"), "declare the tool in a file of this machine", "only the operator's own files lend a capsule")
	}
	check("args", program)
	check("cwd", t.Cwd)
	check("read", t.Read...)
	check("write", t.Write...)
	check("run", t.Run...)
}
