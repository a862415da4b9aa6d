package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/plugins/schedule"
	"github.com/toolgate/toolgate/native/toolapi"
)

// plans are calls in memory, of one caller.
type plans struct {
	calls []schedule.Call
	args  []string
	err   error
}

func (p *plans) Plan(_ context.Context, tool string, arguments []byte, at time.Time) (schedule.Call, error) {
	if tool == "hidden" {
		return schedule.Call{}, toolapi.Problemf("There is no tool %q.", tool)
	}
	c := schedule.Call{ID: fmt.Sprint("sch_", len(p.calls)), Tool: tool, State: "planned", DueAt: at}
	p.calls, p.args = append(p.calls, c), append(p.args, string(arguments))
	return c, p.err
}

func (p *plans) Calls(context.Context) ([]schedule.Call, error) { return p.calls, p.err }

func (p *plans) Cancel(_ context.Context, id string) (bool, error) { return id == "sch_0", p.err }

func group(t *testing.T, p *plans) func(tool, args string) string {
	t.Helper()
	b, err := inside.New(native.Spec{Key: schedule.Name, Shipped: true}, schedule.Plugin(p), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return func(tool, args string) string {
		t.Helper()
		got, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, args)})
		if err != nil {
			return err.Error()
		}
		if structured := mcp.Lookup(got.Result, "structuredContent"); structured != nil {
			return string(structured)
		}
		return string(got.Result)
	}
}

// The time is that of the bubble: 2000-01-01T00:00:00Z.
func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plans{}
		call := group(t, p)
		for _, step := range []struct{ tool, args, want string }{
			{"list", `{}`, `{"calls":[]}`},
			{"at", `{"tool":"fs__read","arguments":{"n":9007199254740993,"b":[1, 2]},"in":"90s"}`, `{"id":"sch_0","at":"2000-01-01T00:01:30Z"}`},
			{"at", `{"tool":"fs__read","at":"2000-01-02T01:00:00+01:00"}`, `{"id":"sch_1","at":"2000-01-02T00:00:00Z"}`},
			{"at", `{"tool":"fs__read","at":"2000-01-31T00:00:00Z","arguments":null}`, `"sch_2"`},
			{"at", `{"tool":"fs__read","at":"2000-01-31T00:00:01Z"}`, `in the next 30 days; it is now 2000-01-01T00:00:00Z`},
			{"at", `{"tool":"fs__read","at":"1999-12-31T23:59:59Z"}`, `in the next 30 days`},
			{"at", `{"tool":"fs__read","at":"tomorrow"}`, `a time with its zone`},
			{"at", `{"tool":"fs__read","at":"2000-01-02T00:00:00"}`, `a time with its zone`},
			{"at", `{"tool":"fs__read","in":"999ms"}`, `from 1s to 30 days`},
			{"at", `{"tool":"fs__read","in":"721h"}`, `from 1s to 30 days`},
			{"at", `{"tool":"fs__read","in":"-1h"}`, `from 1s to 30 days`},
			{"at", `{"tool":"fs__read","in":"soon"}`, `such as 90s`},
			{"at", `{"tool":"fs__read","in":"1h","at":"2000-01-02T00:00:00Z"}`, `one of at`},
			{"at", `{"tool":"fs__read"}`, `one of at`},
			{"at", `{"tool":"","in":"1h"}`, `which tool`},
			{"at", `{"tool":"hidden","in":"1h"}`, `There is no tool`},
			{"at", `{"tool":"x","in":"1h","arguments":[1]}`, `do not fit`},
			{"cancel", `{"id":"sch_0"}`, `{"cancelled":"sch_0"}`},
			{"cancel", `{"id":"sch_1"}`, `You have planned no call`},
			{"list", `{"id":"sch_1"}`, `{"calls":[{"id":"sch_1","tool":"fs__read","state":"planned","at":"2000-01-02T00:00:00Z"}]}`},
			{"list", `{"id":"sch_9"}`, `You have scheduled no call`},
		} {
			if got := call(step.tool, step.args); !strings.Contains(got, step.want) {
				t.Errorf("%s %s: %s, want %s", step.tool, step.args, got, step.want)
			}
		}
		if got := p.args[0]; got != `{"n":9007199254740993,"b":[1, 2]}` {
			t.Errorf("arguments %s", got)
		}
		if got := p.args[2]; got != `{}` {
			t.Errorf("no arguments are %s", got)
		}
		p.calls[1].State, p.calls[1].Result, p.calls[1].EndedAt = "made", strings.Repeat("ä", 300), time.Now()
		if got := call("list", `{}`); !strings.Contains(got, `ä..."`) || strings.Count(got, "ä") != 200 || !strings.Contains(got, `"ended_at":"2000-01-01T00:00:00Z"`) {
			t.Errorf("a list has %d of a result: %s", strings.Count(got, "ä"), got)
		}
		if got := call("list", `{"id":"sch_1"}`); strings.Count(got, "ä") != 300 {
			t.Errorf("the whole result has %d", strings.Count(got, "ä"))
		}
		p.err = errors.New("the disk is full")
		for tool, args := range map[string]string{"at": `{"tool":"a","in":"1h"}`, "list": `{}`, "cancel": `{"id":"a"}`} {
			if got := call(tool, args); !strings.Contains(got, "failed") || strings.Contains(got, "disk") {
				t.Errorf("%s: %s", tool, got)
			}
		}
	})
}
