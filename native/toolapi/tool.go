package toolapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Risk is how much harm a call of a tool can do.
type Risk string

// The risks. The zero Risk is none of them, and counts as [High].
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// Tool is one tool of a plugin. It is not changed once it is served.
type Tool struct {
	Name        string // at most 45 characters of [A-Za-z0-9_-]
	Title       string
	Description string

	Input  json.RawMessage // JSON Schema (2020-12) of the arguments; an object. [Add] derives one where it is nil
	Output json.RawMessage // of the structured result; nil when there is none, or for Add to derive

	// What is true of the tool, as the annotations of MCP name it.
	ReadOnly, Destructive, Idempotent, OpenWorld bool

	Category    string
	Risk        Risk
	Timeout     time.Duration // of one call where the configuration has none; 0 is that of all servers
	RatePerHour int           // calls of one principal in an hour where the configuration has none; 0 is no limit
	Queue       bool          // a call takes long and runs as a task

	// Run runs one call. It returns when ctx ends. A [Problem] is told to whoever
	// called; any other error is the plugin's own and is told in general words. [Add]
	// sets it.
	Run func(ctx context.Context, call *Call) (Result, error)
}

// Call is one call on its way to a tool. Its functions may be called from several
// goroutines until Run returns; they are never nil.
type Call struct {
	ID        string // unique among all gateways
	Arguments []byte // a JSON object that fits the tool's input schema, verbatim

	// Progress reports how far the call is; total is 0 where it is not known, and
	// done grows from one report to the next.
	Progress func(done, total float64, message string)
	// Log sends a message to the client, at a level of RFC 5424 such as "info".
	Log func(level, message string)
	// Nested makes a call of another tool, by the name that clients know, as the caller of
	// this one: see [Call.CallTool]. nil makes none.
	Nested func(ctx context.Context, tool string, arguments []byte) (Result, error)
}

// CallTool calls another tool with arguments, a value that encodes as a JSON object, and
// waits for its result. The call is made as the caller of this one: it is decided, approved,
// charged and recorded as if the caller had made it. The error of a call that is refused is
// a [Problem], which says why. A result may be an error of the tool.
func (c *Call) CallTool(ctx context.Context, tool string, arguments any) (Result, error) {
	if c.Nested == nil {
		return Result{}, Problemf("This tool calls others, which this call may not: the gateway is too old, or calls are nested too deeply.")
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return Result{}, fmt.Errorf("encode the arguments of %s: %w", tool, err)
	}
	return c.Nested(ctx, tool, raw)
}

// ReadResult reads a result of tools/call as MCP has it.
func ReadResult(raw []byte) (Result, error) {
	var in struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Result{}, fmt.Errorf("read the result of a call: %w", err)
	}
	r := Result{Content: in.Content, Structured: in.Structured, IsError: in.IsError}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(in.Content, &blocks) == nil {
		for i := range blocks {
			if blocks[i].Type == "text" && blocks[i].Text != "" {
				r.Text = strings.TrimPrefix(r.Text+"\n"+blocks[i].Text, "\n")
			}
		}
	}
	return r, nil
}

// Result is what a tool answers.
type Result struct {
	// Content are the content blocks, a JSON array as MCP defines them. Nil is one
	// text block: Text, or Structured where that is empty.
	Content    json.RawMessage
	Text       string
	Structured json.RawMessage // a value that fits the tool's output schema, mostly an object; nil when there is none
	IsError    bool
}

// Problem is what is wrong with a call, in a sentence that a model can act on: it
// names the rule and what is allowed.
type Problem string

// Error implements error.
func (p Problem) Error() string { return string(p) }

// Problemf is a [Problem] made like fmt.Sprintf makes a string.
func Problemf(format string, args ...any) error { return Problem(fmt.Sprintf(format, args...)) }
