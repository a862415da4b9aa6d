package toolapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/toolapi"
)

type numbers struct {
	A int `json:"a"`
}

func double(_ context.Context, _ *toolapi.Call, in numbers) (numbers, error) {
	if in.A < 0 {
		return numbers{}, toolapi.Problemf("a is 0 or more.")
	}
	return numbers{2 * in.A}, nil
}

func none(context.Context, *toolapi.Call) (toolapi.Result, error) { return toolapi.Result{}, nil }

// A schema that was written by hand stays; the others are derived from the types.
func TestAddKeepsSchemas(t *testing.T) {
	p := toolapi.New("p", "")
	own := json.RawMessage(`{"type":"object","maxProperties":1}`)
	toolapi.Add(p, toolapi.Tool{Name: "own", Input: own}, double)
	tools, err := p.Tools()
	if err != nil || len(tools) != 1 || string(tools[0].Input) != string(own) || !strings.Contains(string(tools[0].Output), `"a"`) {
		t.Fatalf("%+v %v", tools, err)
	}
}

func TestMistakesOfPlugins(t *testing.T) {
	for want, add := range map[string]func(*toolapi.Plugin){
		"two tools have the name a": func(p *toolapi.Plugin) { p.Add(toolapi.Tool{Name: "a", Run: none}, toolapi.Tool{Name: "a", Run: none}) },
		`the name "a b"`:            func(p *toolapi.Plugin) { p.Add(toolapi.Tool{Name: "a b", Run: none}) },
		`the name ""`:               func(p *toolapi.Plugin) { toolapi.Add(p, toolapi.Tool{}, double) },
		"refused": func(p *toolapi.Plugin) {
			p.Init = func([]byte) error { return errors.New("refused") }
		},
	} {
		p := toolapi.New("p", "")
		add(p)
		p.Add(toolapi.Tool{Name: "good", Run: none})
		s := toolapi.NewServer(p)
		if err := s.Init([]byte("{}")); err == nil || !strings.Contains(err.Error(), want) || len(s.Tools()) != 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Init may add tools. A second Open does not add them twice.
func TestOpenAgain(t *testing.T) {
	p := toolapi.New("p", "")
	p.Add(toolapi.Tool{Name: "always", Run: none})
	p.Init = func(config []byte) error {
		p.Add(toolapi.Tool{Name: string(config), Run: none})
		return nil
	}
	for _, name := range []string{"one", "two", "two"} {
		tools, err := p.Open([]byte(name))
		if err != nil || len(tools) != 2 || tools[1].Name != name {
			t.Errorf("%s: %+v, %v", name, tools, err)
		}
	}
}

func TestServer(t *testing.T) {
	p := toolapi.New("p", "")
	closed := 0
	p.Close = func() { closed++ }
	toolapi.Add(p, toolapi.Tool{Name: "double"}, double)
	s := toolapi.NewServer(p)
	call := func(ctx context.Context, name, args string) (toolapi.Result, error) {
		return s.Call(ctx, name, &toolapi.Call{Arguments: []byte(args)})
	}
	if _, err := call(t.Context(), "double", `{"a":2}`); !errors.Is(err, toolapi.ErrUnknownTool) {
		t.Error("a call before Init:", err)
	}
	if err := s.Init([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := s.Init([]byte("{}")); err == nil {
		t.Error("it is initialised twice")
	}
	if got, err := call(t.Context(), "double", `{"a":2}`); err != nil || string(got.Structured) != `{"a":4}` {
		t.Error(got, err)
	}
	if got, err := call(t.Context(), "double", `{"a":-1}`); err != nil || !got.IsError || got.Text != "a is 0 or more." {
		t.Error(got, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := call(ended, "double", `{"a":2}`); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := call(t.Context(), "none", `{}`); !errors.Is(err, toolapi.ErrUnknownTool) {
		t.Error(err)
	}
	s.Close()
	if s.Close(); closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}
