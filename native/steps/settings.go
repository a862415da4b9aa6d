package steps

import (
	"encoding/json"
	"slices"

	"github.com/toolgate/toolgate/native/placeholder"
)

// The bounds of a plan.
const (
	MaxSteps = 64
	MaxItems = 1000
	MaxWidth = 32

	defaultWidth = 4
)

// Settings are one step of a tool with type: steps. In with, {NAME} is where an argument of
// the tool or the answer of an earlier step goes, and {NAME/POINTER} a part of it; {{ and
// }} are braces.
type Settings struct {
	// Name of the step, by which later steps use its answer. Required.
	ID string `config:"id" required:"true"`
	// Exposed name of the tool that is called. Required.
	Call string `config:"call" required:"true"`
	// Arguments of the call. A string that is only a placeholder becomes the value itself, and is left out where there is
	// none. Default: no arguments.
	With json.RawMessage `config:"with" format:"object"`
	// JSON pointer to a list, such as /issues/items; the call is made for each element, which is {item}. Default: one call.
	ForEach string `config:"for_each"`
	// How many elements the list may have. Required with for_each.
	Max int `config:"max" min:"1" max:"1000"`
	// How many calls of a for_each run at a time. Default: 4.
	Width int `config:"width" min:"1" max:"32"`
	// Conditions that must all hold for a call: the JSON Schema that a value must fit, or the value itself, by its JSON
	// pointer. Default: none.
	If json.RawMessage `config:"if" format:"object"`
	// What a failed call means: fail ends the tool, skip leaves its answer out, continue has {"error": "..."} in its
	// place. Default: fail.
	OnError string `config:"on_error" enum:"fail|skip|continue"`
}

// Whole tells whether the arguments have a place of all arguments of the tool.
func (s *Settings) Whole() bool {
	if len(s.With) == 0 {
		return false
	}
	v, err := placeholder.ParseValue(s.With)
	return err == nil && slices.Contains(v.Names(), placeholder.Whole)
}

// The values of on_error.
const (
	onErrorSkip     = "skip"
	onErrorContinue = "continue"
)

// item is the name of the current element of a for_each.
const item = "item"
