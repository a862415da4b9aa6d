//go:build !windows

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/plugins/text"
	"github.com/toolgate/toolgate/native/toolapi"
)

// The test program ships a plugin as well, with a tool for each thing that can go
// wrong.
func init() { embedded.Enter("stage", stage) }

func stage() *toolapi.Plugin {
	object := []byte(`{"type":"object"}`)
	tool := func(name string, run func(context.Context, *toolapi.Call) (toolapi.Result, error)) toolapi.Tool {
		return toolapi.Tool{Name: name, Input: object, Run: run}
	}
	p := toolapi.New("stage", "")
	p.Init = func(config []byte) error {
		if string(config) != "{}" {
			return fmt.Errorf("refused: %s", config)
		}
		return nil
	}
	p.Add(
		tool("say", func(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
			call.Progress(1, 2, "half")
			call.Log("warning", "careful")
			fmt.Println("this is no part of the protocol")
			return toolapi.Result{Text: string(call.Arguments)}, nil
		}),
		tool("fail", func(context.Context, *toolapi.Call) (toolapi.Result, error) {
			return toolapi.Result{}, errors.New("a secret detail with % and \x00")
		}),
		tool("problem", func(context.Context, *toolapi.Call) (toolapi.Result, error) {
			return toolapi.Result{}, toolapi.Problemf("The path is outside.")
		}),
		tool("panic", func(context.Context, *toolapi.Call) (toolapi.Result, error) { panic("oh") }),
		tool("large", func(context.Context, *toolapi.Call) (toolapi.Result, error) {
			return toolapi.Result{Text: strings.Repeat("a", 64<<20)}, nil
		}),
		tool("wait", func(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
			mark := strings.Trim(string(call.Arguments), `{}":m`)
			if err := os.WriteFile(mark, []byte("running"), 0o600); err != nil {
				return toolapi.Result{}, err
			}
			<-ctx.Done()
			return toolapi.Result{}, os.WriteFile(mark, []byte("canceled"), 0o600)
		}),
		tool("environment", func(context.Context, *toolapi.Call) (toolapi.Result, error) {
			return toolapi.Result{Text: strings.Join(os.Environ(), "\n")}, nil
		}),
	)
	return p
}

func shipped(key string) Spec {
	return Spec{Key: key, Shipped: true, Policy: sandbox.Policy{Mode: sandbox.Off}}
}

func TestShipped(t *testing.T) {
	p := run(t, shipped(text.Name))
	p.await(t, mcp.Ready)
	if diff := cmp.Diff([]string{"echo", "timestamp"}, p.Tools()); diff != "" {
		t.Error(diff)
	}
	if facts, _ := p.Facts("echo"); !facts.ReadOnly || facts.Risk != toolapi.Low || facts.Category != "text" || facts.RatePerHour == 0 {
		t.Errorf("%+v", facts)
	}
	got, err := p.Call(t.Context(), callOf("echo", `{"text":"a\u00e9\n"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"content":[{"type":"text","text":"aé\n"}],"structuredContent":{"text":"a\u00e9\n"}}`, string(got.Result)); diff != "" {
		t.Error(diff)
	}
	if got, err = p.Call(t.Context(), callOf("timestamp", `{"zone":"Nowhere/None"}`)); err != nil || !strings.Contains(string(got.Result), `"isError":true`) {
		t.Error(string(got.Result), err)
	}
}

func TestShippedCalls(t *testing.T) {
	t.Setenv("CANARY_SECRET", "canary-of-the-host")
	s := shipped("stage")
	s.Result = 80 << 20
	p := run(t, s)
	p.await(t, mcp.Ready)
	pid := p.PID()
	call := callOf("say", `{"n": 12345678901234567890}`)
	var said []string
	call.Progress, call.LogLevel = true, "info"
	call.Notify = func(method string, params []byte) { said = append(said, method+" "+string(params)) }
	got, err := p.Call(t.Context(), call)
	if err != nil || string(got.Result) != `{"content":[{"type":"text","text":"{\"n\": 12345678901234567890}"}]}` {
		t.Fatal(string(got.Result), err)
	}
	want := []string{
		`notifications/progress {"progress":1,"total":2,"message":"half"}`,
		`notifications/message {"level":"warning","logger":"say","data":"careful"}`,
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for _, tool := range []string{"fail", "panic"} {
		got, err := p.Call(t.Context(), callOf(tool, "{}"))
		if err != nil || got.Fault == nil || got.Fault.Code != mcp.CodeInternal || strings.Contains(got.Fault.Message, "secret") {
			t.Errorf("%s: %v, %v", tool, got, err)
		}
	}
	if got, err := p.Call(t.Context(), callOf("problem", "{}")); err != nil || !strings.Contains(string(got.Result), `"isError":true`) {
		t.Error(string(got.Result), err)
	}
	if got, err := p.Call(t.Context(), callOf("large", "{}")); err != nil || len(got.Result) < 64<<20 {
		t.Error("64 MB where they are allowed:", len(got.Result), err)
	}
	big := strings.Repeat("b", 20<<20)
	if got, err := p.Call(t.Context(), callOf("say", `{"b":"`+big+`"}`)); err != nil || len(got.Result) < len(big) {
		t.Error("20 MB of arguments:", len(got.Result), err)
	}
	env, err := p.Call(t.Context(), callOf("environment", "{}"))
	if err != nil || strings.Contains(string(env.Result), "canary") || strings.Contains(string(env.Result), "HOME=") {
		t.Error("the environment of the gateway is in ", string(env.Result), err)
	}
	mark := t.TempDir() + "/mark"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testwait.Until(t, patience, "the call runs", func() bool { return holds(mark, "running") })
		cancel()
	}()
	if _, err := p.Call(ctx, callOf("wait", `{"m":"`+mark+`"}`)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testwait.Until(t, patience, "the tool hears of it", func() bool { return holds(mark, "canceled") })
	if p.PID() != pid {
		t.Error("the process is another")
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShippedLargeIsRefused(t *testing.T) {
	s := shipped("stage")
	s.Result = 1 << 20
	p := run(t, s)
	_, err := p.Call(t.Context(), callOf("large", "{}"))
	if f, ok := errors.AsType[*mcp.Failure](err); !ok || f.Kind != mcp.FailTooLarge {
		t.Error(err)
	}
	if _, err := p.Call(t.Context(), callOf("say", "{}")); err != nil {
		t.Error("the next call:", err)
	}
}

func TestShippedDiesAndHangs(t *testing.T) {
	t.Parallel()
	p := run(t, shipped("stage"), looksOften)
	p.await(t, mcp.Ready)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		pid := p.PID()
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, patience, "another process serves", func() bool { return p.PID() != 0 && p.PID() != pid })
		testwait.Until(t, patience, "the one before is gone", func() bool { return !alive(pid) })
	}
}

func TestShippedRefuses(t *testing.T) {
	s := shipped("stage")
	s.Config = []byte(`{"x":1}`)
	p := run(t, s)
	if status := p.await(t, mcp.Reconnecting); !strings.Contains(status.Reason, `refused: {"x":1}`) {
		t.Error(status.Reason)
	}
	// Where it must be confined it is, or it does not run.
	confined := shipped("stage")
	confined.Policy = sandbox.Policy{}
	p = run(t, confined)
	testwait.Until(t, patience, "it runs, or does not", func() bool { return p.state() != mcp.Starting })
	_, status := p.Listing()
	if refused := strings.Contains(status.Reason, "required"); refused == (status.State == mcp.Ready && len(p.Layers()) > 0) {
		t.Error(status, p.Layers())
	}
}
