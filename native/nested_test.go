//go:build !windows

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// nester makes nested calls by a function.
type nester func(ctx context.Context, call mcp.NestedCall) mcp.NestedAnswer

func (f nester) Tools(context.Context, mcp.NestedAs) ([]mcp.NestedTool, error) { return nil, nil }

func (f nester) Call(ctx context.Context, _ mcp.NestedAs, call mcp.NestedCall) mcp.NestedAnswer {
	return f(ctx, call)
}

func textResult(text string) mcp.NestedAnswer {
	return mcp.NestedAnswer{Result: append(mcp.AppendQuote([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)}
}

// TestNestedCalls: a tool in a process of its own calls others, many at once, and gets each
// answer where it asked for it.
func TestNestedCalls(t *testing.T) {
	p := run(t, specOf("plain"))
	for name, tt := range map[string]struct {
		by   nester
		args string
		want string
	}{
		"answers": {func(_ context.Context, c mcp.NestedCall) mcp.NestedAnswer {
			return textResult(c.Tool + string(mcp.Lookup(c.Args, "n")))
		}, `{"tool":"s__t","n":3}`, `"s__t0 s__t1 s__t2"`},
		"a refusal is told": {func(context.Context, mcp.NestedCall) mcp.NestedAnswer {
			return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: s__t")}
		}, `{"tool":"s__t","n":1}`, `Unknown tool: s__t`},
		"no answer": {func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return mcp.NestedAnswer{} }, `{"tool":"s__t","n":1}`, "no result"},
		"no result of MCP": {func(context.Context, mcp.NestedCall) mcp.NestedAnswer {
			return mcp.NestedAnswer{Result: []byte(`{"content":[],"isError":"yes"}`)}
		}, `{"tool":"s__t","n":1}`, "failed"},
		"none": {func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return textResult("x") }, `{"tool":"s__t","n":0}`, `""`},
	} {
		call := callOf("nest", tt.args)
		call.Nested = tt.by
		got, err := p.Call(t.Context(), call)
		text := string(got.Result)
		if got.Fault != nil {
			text = got.Fault.Message
		}
		if err != nil || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	if got, err := p.Call(t.Context(), callOf("nest", `{"tool":"s__t","n":1}`)); err != nil || !strings.Contains(string(got.Result), "nested too deeply") {
		t.Errorf("a call that may call no others: %s, %v", got.Result, err)
	}
}

// TestNestedAtOnce: 64 calls of others run at once, and one more waits for nothing.
func TestNestedAtOnce(t *testing.T) {
	p := run(t, specOf("plain"))
	var running atomic.Int64
	refused := make(chan struct{})
	call := callOf("nest", fmt.Sprintf(`{"tool":"s__t","n":%d}`, maxNested+1))
	call.Progress, call.Notify = true, func(string, []byte) { close(refused) } // the tool says so once
	call.Nested = nester(func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
		running.Add(1)
		select { // none ends before the last one was refused
		case <-refused:
		case <-ctx.Done():
		}
		return textResult("x")
	})
	got, err := p.Call(t.Context(), call)
	if err != nil || !strings.Contains(string(got.Result), "which is the most at once") || running.Load() != maxNested {
		t.Errorf("%d were made: %s, %v", running.Load(), got.Result, err)
	}
}

// TestNestedEnds: a nested call ends with its outer one, and a tool that waits for another is
// not idle.
func TestNestedEnds(t *testing.T) {
	t.Parallel()
	spec := specOf("plain")
	spec.Timeouts.Call = time.Second
	p := run(t, spec)
	call := callOf("nest", `{"tool":"s__t","n":1}`)
	call.Nested = nester(func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
		select {
		case <-time.After(2500 * time.Millisecond):
			return textResult("late")
		case <-ctx.Done():
			return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInternal, "cancelled")}
		}
	})
	if got, err := p.Call(t.Context(), call); err != nil || !strings.Contains(string(got.Result), "late") {
		t.Errorf("%s, %v", got.Result, err)
	}
	errStop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	call.Nested = nester(func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
		cancel(errStop)
		<-ctx.Done()
		close(ended)
		return mcp.NestedAnswer{}
	})
	if _, err := p.Call(ctx, call); !errors.Is(err, errStop) {
		t.Errorf("cancelled: %v", err)
	}
	<-ended
	p.await(t, mcp.Ready)
	mark := filepath.Join(t.TempDir(), "mark")
	call.Nested = nester(func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer { // the process ends meanwhile
		if _, err := p.Call(context.Background(), callOf("exit", "{}")); err == nil {
			t.Error("the process lives on")
		}
		<-ctx.Done()
		_ = os.WriteFile(mark, nil, 0o600)
		return mcp.NestedAnswer{}
	})
	var failure *mcp.Failure
	if _, err := p.Call(t.Context(), call); !errors.As(err, &failure) || failure.Kind != mcp.FailUnavailable {
		t.Errorf("after the end of the process: %v", err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the nested call goes on without its outer one")
	}
}
