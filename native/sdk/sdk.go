package sdk

import (
	"context"

	"github.com/toolgate/toolgate/native/toolapi"
)

// Risk is how much harm a call of a tool can do.
type Risk = toolapi.Risk

// The risks. The zero Risk counts as [High].
const (
	Low    = toolapi.Low
	Medium = toolapi.Medium
	High   = toolapi.High
)

// Tool says what a tool is. [Add] derives its schemas where it has none.
type Tool = toolapi.Tool

// Call is one call on its way to a tool, with what the tool can say meanwhile:
// Progress and Log.
type Call = toolapi.Call

// Result is an answer with content blocks of its own. A function that returns one
// has no output schema.
type Result = toolapi.Result

// Problemf is an error that is told to whoever called, in a sentence that a model
// can act on. Any other error is the plugin's own: the log has it, and the caller
// learns that the tool failed.
func Problemf(format string, args ...any) error { return toolapi.Problemf(format, args...) }

// Plugin is a program that serves tools. It is filled before it serves, and not
// changed then, but for what Init adds: Init is given the configuration, a JSON object,
// before anything is called, and its error ends the start. Close is called when no call
// runs any more.
type Plugin struct {
	toolapi.Plugin

	look func(context.Context, *Invocation) (Verdict, error) // nil looks at nothing
}

// New returns a plugin without tools.
func New(name, version string) *Plugin { return &Plugin{Plugin: *toolapi.New(name, version)} }

// Add adds a tool to a plugin. In is a struct whose fields are the arguments. Out
// is a struct for a structured result, a string for a text, or [Result]. The
// function is called from many goroutines at once and returns when its context
// ends. A mistake in the tool is an error of [Plugin.Serve].
func Add[In, Out any](p *Plugin, t Tool, run func(ctx context.Context, call *Call, in In) (Out, error)) {
	toolapi.Add(&p.Plugin, t, run)
}
