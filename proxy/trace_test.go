package proxy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
)

// traced is a tracer that records its calls. It traces all calls except those whose
// context says 00.
type traced struct{ counted }

func (t *traced) Begin(parent, state string, began time.Time) Span {
	t.add("begin %q %q", parent, state)
	if strings.HasSuffix(parent, "-00") || began.IsZero() {
		return nil
	}
	return &tracedCall{t: t, state: state}
}

type tracedCall struct {
	t     *traced
	state string
}

func (*tracedCall) TraceID() string { return "4bf92f3577b34da6a3ce929d0e0e4736" }

func (c *tracedCall) Send(e *audit.Entry) (string, string) {
	c.t.add("send %s of %s", e.OriginalName, e.Server)
	return "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", c.state
}

func (c *tracedCall) Received(_ *audit.Entry, fault *mcp.Error, err error) {
	c.t.add("received %v %v", fault != nil, err)
}
func (c *tracedCall) Suspended()         { c.t.add("suspended") }
func (c *tracedCall) End(e *audit.Entry) { c.t.add("end %s", e.Outcome) }

const ownContext = `"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`

// The context of a call's span replaces the client's. Everything else in _meta stays,
// and a call that is not traced keeps all of it.
func TestTraceContext(t *testing.T) {
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const off = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for name, tt := range map[string]struct {
		meta, headers string // of the client
		want          string // _meta at the server
		lines         []string
		id            string
	}{
		"none": {
			want:  `{` + ownContext + `}`,
			lines: []string{`begin "" ""`, `send echo of s`, `received false <nil>`, `end ok`}, id: "4bf92f3577b34da6a3ce929d0e0e4736",
		},
		"theirs": {
			meta:  `"traceparent":"` + theirs + `","tracestate":"a=1","baggage":"k=v","x/y":1`,
			want:  `{` + ownContext + `,"tracestate":"a=1","baggage":"k=v","x/y":1}`,
			lines: []string{`begin "` + theirs + `" "a=1"`, `send echo of s`, `received false <nil>`, `end ok`}, id: "4bf92f3577b34da6a3ce929d0e0e4736",
		},
		"not sampled": {
			meta:  `"traceparent":"` + off + `","tracestate":"a=1"`,
			want:  `{"traceparent":"` + off + `","tracestate":"a=1"}`,
			lines: []string{`begin "` + off + `" "a=1"`}, id: "0af7651916cd43dd8448eb211c80319c",
		},
		"a header": {
			headers: theirs, want: `{` + ownContext + `}`,
			lines: []string{`begin "` + theirs + `" ""`, `send echo of s`, `received false <nil>`, `end ok`}, id: "4bf92f3577b34da6a3ce929d0e0e4736",
		},
		"both": {
			meta: `"traceparent":"` + off + `"`, headers: theirs, want: `{"traceparent":"` + off + `"}`,
			lines: []string{`begin "` + off + `" ""`}, id: "0af7651916cd43dd8448eb211c80319c",
		},
		"no text": {
			meta: `"traceparent":7`, want: `{` + ownContext + `}`,
			lines: []string{`begin "" ""`, `send echo of s`, `received false <nil>`, `end ok`}, id: "4bf92f3577b34da6a3ce929d0e0e4736",
		},
	} {
		b := newScript(t, "s", mcp.Modern, tool("echo"))
		tr := &traced{}
		r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Tracer = tr })
		var headers []string
		if tt.headers != "" {
			headers = []string{"Traceparent", tt.headers}
		}
		w := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__echo"`, tt.meta), headers...))
		if w.code() != 200 {
			t.Errorf("%s: %d %s", name, w.code(), w.text())
			continue
		}
		if got := string(mcp.Lookup(b.seen("tools/call")[0].Params, "_meta")); got != tt.want {
			t.Errorf("%s: the server was told %s, want %s", name, got, tt.want)
		}
		if !slices.Equal(tr.lines, tt.lines) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(tr.lines, "\n"), strings.Join(tt.lines, "\n"))
		}
		if got := r.ledger.all()[0].TraceID; got != tt.id {
			t.Errorf("%s: the audit has the trace %s, want %s", name, got, tt.id)
		}
	}
}

// However a call ends, its span ends once.
func TestEverySpanEnds(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	for name, tt := range map[string]struct {
		reply func(context.Context, *mcp.Call) (mcp.Answer, error)
		name  string
		last  string
	}{
		"refused": {name: "none", last: `end denied`},
		"fault": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return fault(mcp.Modern, `{"code":-32000,"message":"m"}`), nil
		}, last: `end error`},
		"failure": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailTimeout, Origin: mcp.OriginServer, Server: "s", Delivered: true}
		}, last: `end error`},
		"panic": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("boom") }, last: `end error`},
		"ended": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) { return mcp.Answer{}, context.Cause(ended) }, last: `end cancelled`},
		"question": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{}}`), nil
		}, last: `suspended`},
	} {
		b := newScript(t, "s", mcp.Modern, tool("echo"))
		b.reply = tt.reply
		tr := &traced{}
		r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Tracer = tr })
		called := "s__echo"
		if tt.name != "" {
			called = tt.name
		}
		r.modern("1", "tools/call", `"name":"`+called+`"`)
		ends := 0
		for _, l := range tr.lines {
			if strings.HasPrefix(l, "end") || l == "suspended" {
				ends++
			}
		}
		if ends != 1 || tr.lines[len(tr.lines)-1] != tt.last {
			t.Errorf("%s: %d ends:\n%s\nwant as the last: %s", name, ends, strings.Join(tr.lines, "\n"), tt.last)
		}
	}
}

// Disabled tracing allocates nothing.
func TestNoTracerAllocatesNothing(t *testing.T) {
	r := newRig(t, nil)
	rec := &record{g: r.Gateway, x: &Exchange{}}
	params := []byte(`{"name":"x"}`)
	if n := testing.AllocsPerRun(100, func() {
		rec.trace()
		params = rec.withTraceContext(params)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
