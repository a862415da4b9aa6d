package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// A call that times out is answered with the server's messages so far, marked as
// partial, and closed like any other.
func TestPartial(t *testing.T) {
	progress := []string{`{"progressToken":1,"progress":1,"total":10}`, `{"progressToken":1,"progress":3,"total":10,"message":"copying"}`}
	tests := []struct {
		name   string
		say    func(*mcp.Call)
		method string
		want   string // in the answer
	}{
		{"nothing was said", func(*mcp.Call) {}, mcp.MethodToolsCall, `[{"type":"text","text":"it is silent"}],"isError":true,"_meta":{"dev.toolgate/refusal":{"kind":"upstream_timeout","code":1001,"phase":"upstream","decision_id":"call-1"}}`},
		{
			"progress", func(c *mcp.Call) {
				for _, p := range progress {
					c.Notify(mcp.NotifyProgress, []byte(p))
				}
			}, mcp.MethodToolsCall,
			`[{"type":"text","text":"it is silent What it had reported until then is below."},` +
				`{"type":"text","text":"Partial result: {\"progress\":3,\"total\":10,\"message\":\"copying\"}"}],"isError":true,` +
				`"_meta":{"dev.toolgate/refusal":{"kind":"upstream_timeout","code":1001,"phase":"upstream","partial":{"progress":3,"total":10,"message":"copying"},"decision_id":"call-1"}}`,
		},
		{
			"a method without isError", func(c *mcp.Call) { c.Notify(mcp.NotifyProgress, []byte(progress[0])) }, mcp.MethodPromptsGet,
			`"error":{"code":1001,"message":"it is silent What it had reported until then is below.","data":{"kind":"upstream_timeout","code":1001,"phase":"upstream","partial":{"progress":1,"total":10},"decision_id":"call-1"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Legacy, tool("t"), `prompt {"name":"t"}`)
			b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
				tt.say(call)
				return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: "s", Reason: "it is silent", Delivered: true}
			}
			r := newRig(t, mounted(b))
			w := r.legacy(r.open(), "1", tt.method, `{"name":"s__t","_meta":{"progressToken":"p"}}`)
			if w.code() != http.StatusOK || !strings.Contains(w.text(), tt.want) {
				t.Errorf("%d %s\nwant %s", w.code(), w.text(), tt.want)
			}
			entries := r.ledger.all()
			if e := entries[len(entries)-1]; len(entries) != 1 || e.Code != "upstream_timeout" || strings.Contains(e.Reason, "copying") {
				t.Errorf("entries %+v", entries)
			}
		})
	}
}

// The stored messages of a call are bounded, and used only for timeouts.
func TestPartialOutput(t *testing.T) {
	var h partialOutput
	timeout := &mcp.Failure{Kind: mcp.FailTimeout, Reason: "silent"}
	unchanged := func(err error) {
		t.Helper()
		if got := h.wrapTimeout(err); fmt.Sprintf("%T %p", got, got) != fmt.Sprintf("%T %p", err, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	unchanged(timeout) // there were no messages
	for n := range 1000 {
		h.note(mcp.NotifyMessage, fmt.Appendf(nil, `{"level":"info","data":"line %d"}`, n))
	}
	h.note(mcp.NotifyMessage, []byte(`{"level":"info","data":"`+strings.Repeat("x", maxPartialBytes)+`"}`))
	h.note(mcp.NotifyMessage, []byte(`{"level":"info"}`))
	h.note(mcp.NotifyProgress, []byte(`{"progress":9007199254740993,"message":"`+strings.Repeat("x", maxPartialBytes)+`"}`))
	var want []string
	for n := 1000 - maxPartialLogs; n < 1000; n++ {
		want = append(want, fmt.Sprintf(`"line %d"`, n))
	}
	whole := `{"progress":9007199254740993,"log":[` + strings.Join(want, ",") + `]}`
	refused, ok := errors.AsType[*refusal.Error](h.wrapTimeout(timeout))
	if !ok || !errors.Is(refused, timeout) {
		t.Fatal("not a refusal of the timeout")
	}
	if diff := cmp.Diff(whole, string(refused.Partial)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	unchanged(refused) // it is there already
	for _, err := range []error{nil, errBoom, errCancelled, &mcp.Failure{Kind: mcp.FailUnavailable}} {
		unchanged(err)
	}
}
