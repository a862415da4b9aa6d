package model

import (
	"context"
	"encoding/json"
)

// The bounds of a turn. A turn beyond them is an [Error] of kind [BadAnswer].
const (
	MaxAnswer = 8 << 20 // bytes of the answer on the wire
	MaxCalls  = 64      // calls of one turn
)

// Model is an endpoint of a language model. It is safe for concurrent use.
type Model interface {
	// Infer asks for the next turn of a conversation and waits for all of it. Its errors
	// are of type [*Error], or those of ctx where ctx has ended: [context.Cause] is in
	// the chain. It returns soon after ctx has ended.
	//
	// delta is called for each part of the turn as it arrives, in order and from one
	// goroutine at a time, and never after Infer has returned. It may be nil. Parts tell
	// of progress alone: they may be missing, and what counts is the turn.
	Infer(ctx context.Context, r *Request, delta func(Delta)) (*Turn, error)
}

// Request is what a model is asked.
type Request struct {
	Model        string // its name at the endpoint
	Instructions string // the system's prompt; empty for none
	// Messages is the conversation so far. A turn with calls is followed by one message
	// with a result for each of them.
	Messages []Message
	Tools    []Tool
	Choice   Choice
	// MaxTokens bounds the turn, thinking included. 0 leaves it to the endpoint, and is
	// 4096 where the format requires a number.
	MaxTokens int
	// ID is of this request, the same for each repetition of it, so that an endpoint that
	// knows of such ids can tell a repetition. Empty for none.
	ID string
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string          `json:"name"` // any text; see [Names]
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of the arguments, an object; nil takes any object
}

// Choice is which tools the model may, or has to, call. The zero Choice leaves it to the
// model.
type Choice struct {
	Mode ChoiceMode `json:"mode,omitempty"`
	Tool string     `json:"tool,omitempty"` // with ChooseTool
}

// ChoiceMode says whether a turn has calls.
type ChoiceMode string

// The modes.
const (
	ChooseAuto     ChoiceMode = ""         // the model chooses
	ChooseRequired ChoiceMode = "required" // at least one call
	ChooseNone     ChoiceMode = "none"     // no call
	ChooseTool     ChoiceMode = "tool"     // a call of one tool
)

// Role is who says a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant" // the model
	Tools     Role = "tools"     // the results of an assistant's calls
)

// Message is one message of a conversation. It can be written as JSON and read again, and
// is the same afterwards.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// Calls are what an assistant wants to have called, in its order.
	Calls []Call `json:"calls,omitempty"`
	// Results are in the order of the calls that they answer, one for each.
	Results []Result `json:"results,omitempty"`
	// Opaque is what the endpoint has to be given back as it was: signed thinking, and
	// encrypted reasoning. It belongs to one wire format and one model, and others leave it
	// out. Text and Calls are complete without it.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// Call is a call of a tool that a model wants.
type Call struct {
	// ID is unique within the turn and not empty. A client makes one up where the endpoint
	// gives none.
	ID   string `json:"id"`
	Tool string `json:"tool"` // the name of [Tool], or whatever the model has made up
	// Args is a JSON object. It is nil where the call is broken.
	Args json.RawMessage `json:"args,omitempty"`
	// Broken is why the call cannot be made as it is, for the model to read; empty for a
	// good one. Raw is what came in place of arguments, cut to a bounded length.
	Broken string `json:"broken,omitempty"`
	Raw    string `json:"raw,omitempty"`
}

// Result is what came of a call.
type Result struct {
	Call    string `json:"call"` // its ID
	Text    string `json:"text,omitempty"`
	IsError bool   `json:"isError,omitempty"`
}

// Turn is what a model says when it is asked.
type Turn struct {
	Message            // by the assistant; without text and calls if the model said nothing
	Stop    StopReason `json:"stop"`
	Usage   Usage      `json:"usage"`
}

// StopReason is why a turn has ended.
type StopReason string

// The reasons. A turn that was cut short can have calls; their arguments may be complete.
const (
	StopEnd     StopReason = "end"     // the model has said all
	StopCalls   StopReason = "calls"   // the model waits for results
	StopLength  StopReason = "length"  // the turn or the context is full
	StopRefusal StopReason = "refusal" // the model, or a filter, refuses to answer
	StopOther   StopReason = "other"   // a reason that is not known here
)

// Usage is what a turn has cost.
type Usage struct {
	Input  int64 `json:"input"`  // tokens, cached ones included
	Output int64 `json:"output"` // tokens, thinking included
	Cached int64 `json:"cached"` // tokens of the input that the endpoint had cached
	Known  bool  `json:"known"`  // false where the endpoint does not say
}

// Delta is a part of a turn as it arrives.
type Delta struct {
	Text     string // more of the text
	Thinking int    // more bytes of thinking, which are not shown
	Call     string // the tool of a call that has begun
}
