package enable_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/enable"
)

// figures are statistics that remember since when they were asked for.
type figures struct {
	since time.Time
	err   error
}

func (f *figures) ToolStats(_ context.Context, since time.Time) ([]enable.Stat, string, error) {
	f.since = since
	at := time.Unix(0, 0).UTC()
	return []enable.Stat{
		{Tool: "fs__read", Calls: 4, SuccessRate: 0.75, MedianMS: 1.5, P95MS: 20, LastError: "tool_error", LastErrorAt: &at},
		{Tool: "fs__write", Calls: 1, SuccessRate: 1},
	}, "you", f.err
}

func TestToolStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for args, tc := range map[string]struct {
			want string
			days int
		}{
			`{}`:                             {`{"calls_of":"you","tools":[{"tool":"fs__read","calls":4,"success_rate":0.75,"median_ms":1.5,"p95_ms":20,"last_error":"tool_error","last_error_at":"1970-01-01T00:00:00Z"},{"tool":"fs__write",`, 7},
			`{"tool":"fs__write","days":30}`: {`"tools":[{"tool":"fs__write","calls":1,"success_rate":1,"median_ms":0,"p95_ms":0}]}`, 30},
			`{"tool":"other"}`:               {`"tools":[]}`, 7},
			`{"days":31}`:                    {`days is from 1 to 30`, 0},
			`{"days":-1}`:                    {`days is from 1 to 30`, 0},
			`{"principal":"bob"}`:            {`each may be left out`, 0},
			`[]`:                             {`each may be left out`, 0},
		} {
			f := &figures{}
			got, err := enable.New(nil, nil).WithStats(f).Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"tool_stats","arguments":` + args + `}`)})
			if err != nil || !strings.Contains(string(got.Result), tc.want) || mcp.Validate(got.Result, mcp.Limits{}) != nil {
				t.Errorf("%s: %s, %v", args, got.Result, err)
			}
			if back := time.Duration(tc.days) * 24 * time.Hour; tc.days > 0 && time.Since(f.since) != back {
				t.Errorf("%s: since %v ago", args, time.Since(f.since))
			}
		}
		b := enable.New(nil, nil).WithStats(&figures{err: errors.New("the disk is full")})
		if _, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(`{"name":"tool_stats"}`)}); err == nil {
			t.Error("what goes wrong in the gateway is told as an answer")
		}
	})
	with := enable.New(&memory{}, nil).WithStats(&figures{})
	l, _ := with.Listing()
	without, _ := enable.New(&memory{}, nil).Listing()
	if len(l.Items[mcp.Tool]) != 4 || len(without.Items[mcp.Tool]) != 3 {
		t.Errorf("%d tools with and %d without", len(l.Items[mcp.Tool]), len(without.Items[mcp.Tool]))
	}
	for _, item := range l.Items[mcp.Tool] {
		if parsed, err := mcp.ParseItem(mcp.Tool, item.Raw); err != nil || parsed.Key != item.Key || mcp.Validate(item.Raw, mcp.Limits{}) != nil {
			t.Errorf("%s: %v", item.Raw, err)
		}
	}
}
