package schema

import (
	"errors"
	"fmt"
	"sync"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Arguments are the parsed arguments of a call, shared by everything that inspects
// them. They are immutable. Nil ones are an empty object.
type Arguments struct {
	size    int
	value   any
	values  int
	problem *Problem       // why they were not read
	loose   error          // they were read, but parsers may disagree about them
	room    map[string]any // memory of the value, if it is an object
}

// freed are arguments that nobody uses, with their room.
var freed = sync.Pool{New: func() any { return &Arguments{room: make(map[string]any)} }}

// maxRoom is how many members arguments may have whose room is kept.
const maxRoom = 64

// Free gives the memory of arguments to others. Nobody may use them, or a value of theirs,
// afterwards. Arguments need not be freed.
func (a *Arguments) Free() {
	if a.empty() {
		freed.Put(a)
	}
}

// empty empties arguments, unless they have so much room that nobody else is to have it.
func (a *Arguments) empty() bool {
	room := a.room
	if len(room) > maxRoom {
		return false
	}
	clear(room)
	*a = Arguments{room: room}
	return true
}

// ReadArguments parses arguments; nil and empty ones are an empty object. The methods
// of the result report what is wrong.
func ReadArguments(raw []byte) *Arguments {
	a := freed.Get().(*Arguments)
	a.size = len(raw)
	if len(raw) == 0 {
		return a
	}
	limits := mcp.Limits{Depth: maxArgsDepth}
	if a.loose = mcp.Validate(raw, limits); a.loose != nil {
		limits.LoneSurrogates = true
		if err := mcp.Validate(raw, limits); err != nil {
			a.problem = &Problem{Problem: "the arguments are not valid JSON: " + err.Error(), Fix: "send one JSON object"}
			return a
		}
	}
	var err error
	a.value, a.values, err = decode(raw, MaxValues, a.room)
	if err == nil {
		return a
	}
	a.problem = &Problem{
		Problem: fmt.Sprintf("the arguments hold more than %d values", MaxValues),
		Fix:     "send them in several calls",
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		a.problem = &Problem{Pointer: r.pointer, Problem: r.reason, Fix: "send a shorter number"}
	}
	return a
}

// Size returns the length of the arguments' text in bytes.
func (a *Arguments) Size() int {
	if a == nil {
		return 0
	}
	return a.size
}

// Object returns the arguments with exact numbers ([json.Number]). Do not change the
// result. The error says why parsers could read the arguments differently or not at
// all: they are no JSON or no object, are too large, or contain text that is not
// Unicode.
func (a *Arguments) Object() (map[string]any, error) {
	value, _, problem := a.read()
	if a != nil && a.loose != nil {
		return nil, a.loose
	}
	if problem != nil {
		return nil, &refusal{problem.Pointer, problem.Problem}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("they are not an object")
	}
	return object, nil
}

// read returns the value and the number of values in it, or the problem.
func (a *Arguments) read() (value any, values int, problem *Problem) {
	switch {
	case a == nil || a.size == 0:
		return map[string]any{}, 1, nil
	case a.problem != nil:
		return nil, 0, a.problem
	}
	return a.value, a.values, nil
}
