package sdk_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/sdk"
	"github.com/toolgate/toolgate/native/sdk/sdktest"
)

type numbers struct {
	A int64 `json:"a"`
	B int64 `json:"b,omitempty"`
}

type sum struct {
	Sum int64 `json:"sum"`
}

func calculator() *sdk.Plugin {
	p := sdk.New("calculator", "1")
	sdk.Add(p, sdk.Tool{Name: "add", ReadOnly: true, Risk: sdk.Low}, func(_ context.Context, call *sdk.Call, in numbers) (sum, error) {
		call.Progress(1, 1, "added")
		call.Log("info", "done")
		return sum{in.A + in.B}, nil
	})
	sdk.Add(p, sdk.Tool{Name: "divide"}, func(_ context.Context, _ *sdk.Call, in numbers) (sum, error) {
		if in.B == 0 {
			return sum{}, sdk.Problemf("b must not be 0.")
		}
		return sum{in.A / in.B}, nil
	})
	sdk.Add(p, sdk.Tool{Name: "text"}, func(context.Context, *sdk.Call, struct{}) (string, error) { return "a", nil })
	sdk.Add(p, sdk.Tool{Name: "broken"}, func(context.Context, *sdk.Call, struct{}) (sum, error) {
		return sum{}, errors.New("no disk")
	})
	sdk.Add(p, sdk.Tool{Name: "panics"}, func(context.Context, *sdk.Call, struct{}) (sum, error) {
		panic("a mistake")
	})
	return p
}

func TestCalls(t *testing.T) {
	c := sdktest.Start(t, calculator(), "{}")
	got, err := c.Call(t.Context(), "add", numbers{1 << 53, 1})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Structured) != `{"sum":9007199254740993}` || len(got.Progress) != 1 || len(got.Logs) != 1 || string(got.Logs[0].GetDataJson()) != `"done"` {
		t.Errorf("%+v", got)
	}
	if got, err = c.Call(t.Context(), "text", struct{}{}); err != nil || got.Text != "a" || got.IsError {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = c.Call(t.Context(), "divide", numbers{A: 1}); err != nil || !got.IsError || got.Text != "b must not be 0." {
		t.Errorf("%+v %v", got, err)
	}
	for _, tool := range []string{"broken", "panics"} {
		if _, err = c.Call(t.Context(), tool, struct{}{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err = c.Call(t.Context(), "add", map[string]any{"a": "one"}); err == nil || !strings.Contains(err.Error(), "the arguments") {
		t.Error("arguments that do not fit:", err)
	}
	if _, err = c.Call(t.Context(), "none", struct{}{}); err == nil {
		t.Error("a tool that is not there")
	}
}

func TestMistakes(t *testing.T) {
	run := func(context.Context, *sdk.Call, numbers) (string, error) { return "", nil }
	for name, add := range map[string]func(*sdk.Plugin){
		"name": func(p *sdk.Plugin) { sdk.Add(p, sdk.Tool{Name: "a b"}, run) },
		"arguments": func(p *sdk.Plugin) {
			sdk.Add(p, sdk.Tool{Name: "a"}, func(context.Context, *sdk.Call, int) (string, error) { return "", nil })
		},
		"result": func(p *sdk.Plugin) {
			sdk.Add(p, sdk.Tool{Name: "a"}, func(context.Context, *sdk.Call, numbers) (chan int, error) { return nil, nil })
		},
	} {
		p := sdk.New("p", "1")
		add(p)
		sdk.Add(p, sdk.Tool{Name: "good"}, run)
		if _, err := p.Tools(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p := sdk.New("p", "1")
	sdk.Add(p, sdk.Tool{Name: "a"}, run)
	if tools, err := p.Tools(); err != nil || len(tools) != 1 {
		t.Error(tools, err)
	}
}

// TestIntercept: an interceptor of a plugin gets what is known of a call, and its panic or
// error is none but its own.
func TestIntercept(t *testing.T) {
	p := sdk.New("guard", "1")
	var got sdk.Invocation
	p.Intercept(func(_ context.Context, inv *sdk.Invocation) (sdk.Verdict, error) {
		switch got = *inv; inv.Name {
		case "panics":
			panic("a mistake")
		case "fails":
			return sdk.Verdict{Decision: sdk.Allow}, errors.New("no disk")
		}
		return sdk.Verdict{Decision: sdk.Ask, Reason: "r", Payload: []byte(`{"a":2}`), Note: "n"}, nil
	})
	c := sdktest.Start(t, p, "{}")
	out, err := c.Intercept(t.Context(), &proto.InterceptRequest{
		Interceptor: "i", Phase: "after", CallId: "c", Method: "tools/call", Principal: "alice", Tenant: "acme", Capsule: "k", Server: "s", Name: "s__echo",
		PayloadJson: []byte(`{"a":1}`),
	})
	if err != nil || out.GetDecision() != proto.Decision_DECISION_ASK || out.GetReason() != "r" || string(out.GetPayloadJson()) != `{"a":2}` || out.GetNote() != "n" {
		t.Errorf("%v, %v", out, err)
	}
	want := sdk.Invocation{Interceptor: "i", Phase: sdk.After, CallID: "c", Method: "tools/call", Principal: "alice", Tenant: "acme", Capsule: "k", Server: "s", Name: "s__echo", Payload: []byte(`{"a":1}`)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, name := range []string{"panics", "fails"} {
		if _, err := c.Intercept(t.Context(), &proto.InterceptRequest{Name: name}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sdktest.Start(t, calculator(), "{}").Intercept(t.Context(), &proto.InterceptRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a plugin without interceptors: %v", err)
	}
}
