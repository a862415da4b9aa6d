package toolapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Add adds a tool that is a typed function. In is a struct whose fields are the
// arguments. Out is a struct for a structured result, a string for a text, or [Result].
// The schemas are derived from the types where the tool has none. The function is
// called from many goroutines at once and returns when its context ends. A mistake in
// the tool is an error of [Plugin.Tools] and of Open.
func Add[In, Out any](p *Plugin, t Tool, run func(ctx context.Context, call *Call, in In) (Out, error)) {
	if p.err != nil {
		return
	}
	if !ValidName(t.Name) {
		p.Add(t) // says so
		return
	}
	var err error
	if t.Input == nil {
		if t.Input, err = schema[In](); err != nil {
			p.err = fmt.Errorf("tool %s: arguments: %w", t.Name, err)
			return
		}
	}
	if out := reflect.TypeFor[Out](); t.Output == nil && out.Kind() != reflect.String && out != reflect.TypeFor[Result]() {
		if t.Output, err = schema[Out](); err != nil {
			p.err = fmt.Errorf("tool %s: result: %w", t.Name, err)
			return
		}
	}
	t.Run = func(ctx context.Context, call *Call) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return Result{}, Problemf("The arguments do not fit the tool: %v.", err)
		}
		got, err := run(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		return resultOf(got)
	}
	p.Add(t)
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

func resultOf(got any) (Result, error) {
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
