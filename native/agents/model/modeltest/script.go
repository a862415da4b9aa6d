// Package modeltest is a model's endpoint for tests and examples. It speaks the three wire
// formats, streams included, says what a script has it say, and refuses requests that a
// real endpoint would refuse.
package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/native/agents/model"
)

// Script is what the model says.
//
// A turn with When is said each time the last message of a conversation holds that text;
// the first one that fits counts. The others are said in order: the first one to a
// conversation without a turn of the model, and so on. So a repeated request gets the same
// answer, whatever was asked in between, and many conversations can go on at once.
type Script struct {
	Turns []Turn `json:"turns"`
	// Repeat says the last turn again and again, instead of refusing to go on.
	Repeat bool `json:"repeat,omitempty"`
}

// Turn is one turn of the model.
type Turn struct {
	When     string       `json:"when,omitempty"`
	Text     string       `json:"text,omitempty"`
	Refusal  bool         `json:"refusal,omitempty"` // the text says why the model refuses
	Thinking string       `json:"thinking,omitempty"`
	Calls    []Call       `json:"calls,omitempty"`
	Cut      bool         `json:"cut,omitempty"` // the turn reached its limit of tokens
	Usage    *model.Usage `json:"usage,omitempty"`
	Whole    bool         `json:"whole,omitempty"` // answered without a stream
	Delay    Duration     `json:"delay,omitempty"` // before the answer
	Pause    Duration     `json:"pause,omitempty"` // between the parts of a stream
	Fault    Fault        `json:"fault,omitempty"`
	// Times is how often a conversation meets the fault before it gets the turn. 0 is
	// always.
	Times int `json:"times,omitempty"`
}

// Call is a call that the model makes.
type Call struct {
	ID   string          `json:"id,omitempty"`   // made up if empty
	Tool string          `json:"tool,omitempty"` // exposed name
	Args json.RawMessage `json:"args,omitempty"`
	Raw  string          `json:"raw,omitempty"` // in place of the arguments, broken as it may be
}

func (c *Call) args() string {
	switch {
	case c.Raw != "":
		return c.Raw
	case len(c.Args) == 0:
		return "{}"
	}
	return string(c.Args)
}

// Fault is what goes wrong in place of a turn.
type Fault string

// The faults.
const (
	RateLimit    Fault = "rate_limit"   // 429, to come back after a second
	ServerError  Fault = "error"        // 500
	Overloaded   Fault = "overloaded"   // 529, or 503
	Unauthorized Fault = "unauthorized" // 401
	TooLong      Fault = "too_long"     // 400: the conversation does not fit
	InStream     Fault = "in_stream"    // an error in the middle of a stream
	CutStream    Fault = "cut_stream"   // the connection breaks in the middle of a stream
	EndStream    Fault = "end_stream"   // the stream ends in the middle
	Garbage      Fault = "garbage"      // an event that is not JSON
	Page         Fault = "page"         // 200 with a page for people
	Huge         Fault = "huge"         // a text beyond every bound
	Silent       Fault = "silent"       // no answer until the client gives up
	Hang         Fault = "hang"         // nothing more in the middle of a stream
	Hangup       Fault = "hangup"       // the connection breaks before the answer
)

var faults = []Fault{RateLimit, ServerError, Overloaded, Unauthorized, TooLong, InStream, CutStream, EndStream, Garbage, Page, Huge, Silent, Hang, Hangup, ""}

// Duration is a time such as "150ms".
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Parse reads a script. Members that do not exist are an error.
func Parse(data []byte) (*Script, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s Script
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	if dec.More() {
		return nil, errors.New("read the script: there is more than one document")
	}
	for i := range s.Turns {
		known := false
		for _, f := range faults {
			known = known || f == s.Turns[i].Fault
		}
		if !known {
			return nil, fmt.Errorf("turn %d of the script: there is no fault %q", i, s.Turns[i].Fault)
		}
	}
	return &s, nil
}

// pick returns the turn for a conversation.
func (s *Script) pick(a *asked) *Turn {
	var ordered []*Turn
	for i := range s.Turns {
		t := &s.Turns[i]
		switch {
		case t.When == "":
			ordered = append(ordered, t)
		case bytes.Contains([]byte(a.last), []byte(t.When)):
			return t
		}
	}
	switch {
	case a.turns < len(ordered):
		return ordered[a.turns]
	case s.Repeat && len(ordered) > 0:
		return ordered[len(ordered)-1]
	}
	return nil
}
