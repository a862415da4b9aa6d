package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/placeholder"
	"github.com/toolgate/toolgate/native/steps"
)

// Tool is a declared tool. Exactly one of HTTP, Command and Steps is set.
type Tool struct {
	Name, Title, Description string

	// Version is listed in _meta as VersionKey; empty for none.
	Version, VersionKey string

	Input  json.RawMessage // JSON Schema of the arguments, an object; nil takes none
	Output json.RawMessage // of the structured result; nil when there is none

	// Hints for clients; nil says nothing.
	ReadOnly, Destructive, Idempotent, OpenWorld *bool

	Timeout  time.Duration // of one call; 30 s when zero
	MaxBytes int64         // of an answer, or of each output of a command; 1 MiB when zero
	// Answer is the path of the part of a JSON answer, or of a JSON output, that is
	// the result; empty is all of it.
	Answer string

	HTTP    *HTTP
	Command *Command
	Steps   *steps.Declaration
	RunAs   string // the capsule that is lent to the calls of Steps; empty for none

	// Template means that the tool is checked and not served.
	Template bool
	// Within is the input schema of the template that the tool was made of; nil for none.
	// Its defaults count where Input has none. Fits says what is wrong with arguments by
	// that schema, empty for nothing; nil asks nothing.
	Within json.RawMessage
	Fits   func(args []byte) string
}

// HTTP is a request.
type HTTP struct {
	Method string // GET when empty
	// URL is a template (see egress.Template): its host is fixed, and only such an
	// address of this machine or of a private network is reached that it names.
	URL string
	// Headers and Query are sent as they are; their values are secrets.
	Headers, Query map[string]string
	// HeaderTemplates are headers whose values are templates.
	HeaderTemplates map[string]string
	// Body is a JSON value whose strings are templates; nil sends none.
	Body      json.RawMessage
	Redirects int            // that are followed; to the same host alone
	Allow     []netip.Prefix // special addresses that the host may have
}

// Command is a program with its arguments; no shell reads them.
type Command struct {
	// Args are the program, by its absolute path, and its arguments. Each of them
	// but the program is a template and becomes exactly one argument.
	Args []string
	// Dashes names the places whose values may begin with a dash although they
	// begin an argument.
	Dashes []string
	Stdin  json.RawMessage   // a JSON value whose strings are templates; a string is written as its text; nil is nothing
	Env    map[string]string // the whole environment, besides what the sandbox adds; values are secrets
	Dir    string            // absolute; empty is a private temporary folder
	Policy sandbox.Policy
}

const (
	defaultTimeout  = 30 * time.Second
	defaultMaxBytes = 1 << 20
	maxName         = 45
)

// compiled is a tool that can be called.
type compiled struct {
	Tool
	item     mcp.Item
	defaults map[string][]byte
	answer   path
	secrets  []string // longest first
	run      runner
	steps    *sequence // nil where the tool has none
}

// noInput is the schema of a tool that takes no arguments.
var noInput = json.RawMessage(`{"type":"object","additionalProperties":false}`)

// compile checks a tool. Its error says everything that is wrong.
func compile(t Tool) (*compiled, error) {
	c := &compiled{Tool: t}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if len(c.Input) == 0 {
		c.Input = noInput
	}
	var wrong []error
	add := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	if t.Name == "" || len(t.Name) > maxName || strings.Trim(t.Name, nameLetters) != "" {
		add(fmt.Errorf("the name has 1 to %d letters, digits, _ and -", maxName))
	}
	declared, err := c.arguments()
	add(err)
	c.answer, err = parsePath(t.Answer)
	add(err)
	var names, needed []string
	kinds := 0
	for _, is := range []bool{t.HTTP != nil, t.Command != nil, t.Steps != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		add(errors.New("it is a request, a command or steps, and only one of them"))
	case t.Steps != nil:
		r, err := newSequence(c, t.Steps)
		add(err)
		c.run, c.steps = r, r
	case t.HTTP != nil:
		r, err := newRequest(c, t.HTTP)
		add(err)
		if err == nil {
			c.run, names, needed = r, r.names(), r.needed()
		}
	default:
		r, err := newCommand(c, t.Command)
		add(err)
		if err == nil {
			c.run, names, needed = r, r.names(), r.needed()
		}
	}
	for _, name := range names {
		if name != placeholder.Whole && !declared[name].there {
			add(fmt.Errorf("{%s} is not a property of input_schema", name))
		}
	}
	for _, name := range needed {
		if a := declared[name]; a.there && !a.required && c.defaults[name] == nil {
			add(fmt.Errorf("{%s} is used where a value must be, so that input_schema must require it or give its default", name))
		}
	}
	slices.SortFunc(c.secrets, func(a, b string) int { return len(b) - len(a) })
	c.item = mcp.Item{Key: t.Name, Raw: c.definition()}
	return c, errors.Join(wrong...)
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

type argument struct{ there, required bool }

// arguments reads which arguments the schema has.
func (c *compiled) arguments() (map[string]argument, error) {
	out := make(map[string]argument)
	for name, schema := range map[string][]byte{"input_schema": c.Input, "output_schema": c.Output} {
		if schema == nil {
			continue
		}
		if err := mcp.Validate(schema, mcp.Limits{}); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
		if kind, _ := mcp.LookupString(schema, "type"); !mcp.IsObject(schema) || kind != "object" {
			return out, fmt.Errorf(`%s must be an object with "type": "object"`, name)
		}
	}
	c.defaults = make(map[string][]byte)
	for name, p := range propertiesOf(c.Within) {
		if !p.required || p.preset != nil {
			out[name] = argument{there: true}
		}
		if p.preset != nil {
			c.defaults[name] = p.preset
		}
	}
	for name, p := range propertiesOf(c.Input) {
		out[name] = argument{there: true, required: p.required}
		if p.preset != nil {
			c.defaults[name] = p.preset
		}
	}
	return out, nil
}

// definition is the tool as it is listed.
func (c *compiled) definition() []byte {
	description := strings.TrimSpace(c.Description + " " + caveat(c.Command))
	type annotations struct {
		ReadOnly    *bool `json:"readOnlyHint,omitempty"`
		Destructive *bool `json:"destructiveHint,omitempty"`
		Idempotent  *bool `json:"idempotentHint,omitempty"`
		OpenWorld   *bool `json:"openWorldHint,omitempty"`
	}
	var meta map[string]string
	if c.Version != "" {
		meta = map[string]string{c.VersionKey: c.Version}
	}
	raw, err := json.Marshal(struct {
		Name        string            `json:"name"`
		Title       string            `json:"title,omitempty"`
		Description string            `json:"description,omitempty"`
		Input       json.RawMessage   `json:"inputSchema"`
		Output      json.RawMessage   `json:"outputSchema,omitempty"`
		Hints       annotations       `json:"annotations"`
		Meta        map[string]string `json:"_meta,omitempty"`
	}{c.Name, c.Title, description, c.Input, c.Output, annotations{c.ReadOnly, c.Destructive, c.Idempotent, c.OpenWorld}, meta})
	if err != nil {
		return nil // a schema that is no JSON, which is an error of its own
	}
	return raw
}

// minSecret is below how many characters a fixed value is no secret: taking it
// out of answers would only make them unreadable.
const minSecret = 6

// keep notes a fixed value, so that no answer repeats it, nor its last word, as
// the token is of "Bearer TOKEN", plainly or as JSON writes it.
func (c *compiled) keep(value string) {
	parts := []string{value}
	if words := strings.Fields(value); len(words) > 1 {
		parts = append(parts, words[len(words)-1])
	}
	for _, part := range slices.Clone(parts) {
		quoted, err := json.Marshal(part) // with <, > and & escaped
		if err != nil {
			continue
		}
		inner := func(quoted []byte) string { return string(quoted[1 : len(quoted)-1]) }
		for _, form := range []string{inner(quoted), inner(mcp.Quote(part))} {
			parts = append(parts, form, strings.ReplaceAll(form, "/", `\/`))
		}
	}
	for _, part := range parts {
		if len(part) >= minSecret && !slices.Contains(c.secrets, part) {
			c.secrets = append(c.secrets, part)
		}
	}
}

// hide takes the fixed values out of a text.
func (c *compiled) hide(text string) string {
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
