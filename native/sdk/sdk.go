package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolgate/toolgate/native/toolkit"
)

// Risk is how much harm a call of a tool can do.
type Risk = toolkit.Risk

// The risks. The zero Risk counts as [High].
const (
	Low    = toolkit.Low
	Medium = toolkit.Medium
	High   = toolkit.High
)

// Call is one call on its way to a tool, with what the tool can say meanwhile:
// Progress and Log.
type Call = toolkit.Call

// Result is an answer with content blocks of its own. A function that returns one
// has no output schema.
type Result = toolkit.Result

// Problemf is an error that is told to whoever called, in a sentence that a model
// can act on. Any other error is the plugin's own: the log has it, and the caller
// learns that the tool failed.
func Problemf(format string, args ...any) error { return toolkit.Problemf(format, args...) }

// Tool says what a tool is.
type Tool struct {
	Name        string // 1 to 45 of A-Z, a-z, 0-9, _ and -
	Title       string
	Description string

	// What is true of the tool, as the annotations of MCP name it.
	ReadOnly, Destructive, Idempotent, OpenWorld bool

	Category    string
	Risk        Risk
	Timeout     time.Duration // of one call; 0 is that of all servers
	RatePerHour int           // calls of one caller in an hour; 0 is no limit
	Queue       bool          // a call takes long and may run as a task
}

// Plugin is a program that serves tools. It is filled before it serves, and not
// changed then.
type Plugin struct {
	name, version string
	tools         []toolkit.Tool
	err           error // the first mistake of what was added

	// Init is given the configuration, a JSON object, before anything is called;
	// its error ends the start and is shown to the operator. Nil ignores it.
	Init func(config []byte) error
	// Close is called when no call runs any more. Nil does nothing.
	Close func()
}

// New returns a plugin without tools.
func New(name, version string) *Plugin { return &Plugin{name: name, version: version} }

// Tools returns what was added, or the first mistake in it.
func (p *Plugin) Tools() ([]toolkit.Tool, error) { return p.tools, p.err }

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,45}$`)

// Add adds a tool to a plugin. In is a struct whose fields are the arguments. Out
// is a struct for a structured result, a string for a text, or [Result]. The
// function is called from many goroutines at once and returns when its context
// ends. A mistake in the tool is an error of [Plugin.Serve].
func Add[In, Out any](p *Plugin, t Tool, run func(ctx context.Context, call *Call, in In) (Out, error)) {
	made := toolkit.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld,
		Category: t.Category, Risk: t.Risk, Timeout: t.Timeout, RatePerHour: t.RatePerHour, Queue: t.Queue,
	}
	if p.err != nil {
		return
	}
	if !toolName.MatchString(t.Name) {
		p.err = fmt.Errorf("the name %q of a tool is not 1 to 45 of A-Z, a-z, 0-9, _ and -", t.Name)
		return
	}
	var err error
	if made.Input, err = schema[In](); err != nil {
		p.err = fmt.Errorf("tool %s: arguments: %w", t.Name, err)
		return
	}
	out := reflect.TypeFor[Out]()
	if out.Kind() != reflect.String && out != reflect.TypeFor[Result]() {
		if made.Output, err = schema[Out](); err != nil {
			p.err = fmt.Errorf("tool %s: result: %w", t.Name, err)
			return
		}
	}
	made.Run = func(ctx context.Context, call *Call) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return Result{}, Problemf("The arguments do not fit the tool: %v.", err)
		}
		got, err := run(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		return result(got)
	}
	p.tools = append(p.tools, made)
}

// schema is that of a type, which is an object.
func schema[T any]() (json.RawMessage, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	if s.Type != "object" {
		return nil, errors.New("its type is not a struct")
	}
	return json.Marshal(s)
}

func result(got any) (Result, error) {
	switch v := got.(type) {
	case Result:
		return v, nil
	case string:
		return Result{Text: v}, nil
	}
	if v := reflect.ValueOf(got); v.Kind() == reflect.String {
		return Result{Text: v.String()}, nil
	}
	structured, err := json.Marshal(got)
	if err != nil {
		return Result{}, fmt.Errorf("write the result: %w", err)
	}
	return Result{Structured: structured}, nil
}
