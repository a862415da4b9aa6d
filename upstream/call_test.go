package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// delicate are params that a decoder and encoder would not keep.
const delicate = `{"zeta":1,  "name" : "echo","arguments":{"b":9007199254740993,"a":-1e+2,"u":"\u00e9\/","B":18446744073709551616,"n":null},` +
	`"_meta":{"vendor.example/x":{"deep":[1.0,2]},"progressToken":"client-7","io.modelcontextprotocol/protocolVersion":"1999-01-01"},"unknown":[{}]}`

// Everything arrives byte for byte, in both directions, except the parts that belong to
// the hop.
func TestCallBytes(t *testing.T) {
	t.Parallel()
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"toolgate","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"sampling":{"x":1}},"io.modelcontextprotocol/logLevel":"debug"`
	tests := []struct {
		era  mcp.Era
		want func(id mcp.ID) string
	}{
		{mcp.Legacy, func(id mcp.ID) string {
			return `{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/call","params":{"zeta":1,  "name" : "echo","arguments":` +
				`{"b":9007199254740993,"a":-1e+2,"u":"\u00e9\/","B":18446744073709551616,"n":null},` +
				`"_meta":{"vendor.example/x":{"deep":[1.0,2]},"progressToken":` + string(id) + `},"unknown":[{}]}}`
		}},
		{mcp.Modern, func(id mcp.ID) string {
			return `{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/call","params":{"zeta":1,  "name" : "echo","arguments":` +
				`{"b":9007199254740993,"a":-1e+2,"u":"\u00e9\/","B":18446744073709551616,"n":null},` +
				`"_meta":{"vendor.example/x":{"deep":[1.0,2]},"progressToken":` + string(id) + `,` + meta + `},"unknown":[{}]}}`
		}},
	}
	results := map[string]string{
		"key order":       `{"z":1,"content":[{"type":"hologram","data":9007199254740993}],"a":{"B":1.50,"A":[]}}`,
		"huge numbers":    `{"content":[],"n":1e400,"m":-0.0000000000000000000000001,"k":` + strings.Repeat("9", 300) + `}`,
		"lone surrogates": `{"content":[{"type":"text","text":"cut \ud83d"}]}`,
		"is an error":     `{"content":[],"isError":true}`,
		"white space":     "{ \"content\" :\t[] }",
	}
	for _, tt := range tests {
		t.Run(tt.era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.era)
			r := run(t, f.spec())
			r.state(mcp.Ready)
			for name, result := range results {
				for _, stream := range []bool{false, true} {
					f.handle(mcp.MethodToolsCall, func(x *exchange) {
						if stream {
							x.open()
						}
						x.result(result)
					})
					call := &mcp.Call{
						Method: mcp.MethodToolsCall, Kind: mcp.Tool, Key: "echo", Params: []byte(delicate),
						Progress: true, LogLevel: "debug", Capabilities: []byte(`{"sampling":{"x":1}}`), Principal: "me",
					}
					if got := r.call(call); got != result {
						t.Errorf("%s: result = %s, want %s", name, got, result)
					}
				}
			}
			for _, s := range f.requests(mcp.MethodToolsCall) {
				if diff := cmp.Diff(tt.want(s.ID), s.Body); diff != "" {
					t.Fatalf("request (-want +got):\n%s", diff)
				}
			}
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				x.status(200, "application/json", `{"error":{"data":{"z":9007199254740993, "a":1},"code":-32602,"x":1,"message":"no"},"id":`+string(x.msg.ID)+`,"jsonrpc":"2.0"}`)
			})
			answer, err := r.Call(t.Context(), tool("echo", `{}`))
			if err != nil || answer.Fault == nil {
				t.Fatalf("call = %+v, %v", answer, err)
			}
			if got := string(answer.Fault.Append(nil)); got != `{"data":{"z":9007199254740993, "a":1},"code":-32602,"x":1,"message":"no"}` {
				t.Errorf("fault = %s", got)
			}
		})
	}
}

// The gateway numbers its requests itself: no id is used twice on a server.
func TestCallIDs(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	r := run(t, f.spec())
	r.state(mcp.Ready)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			want := fmt.Sprintf(`{"i":%d}`, i)
			answer, err := r.Call(t.Context(), tool("echo", want))
			if err != nil || !strings.Contains(string(answer.Result), want) {
				t.Errorf("call %d = %s, %v", i, answer.Result, err)
			}
		})
	}
	all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	used := make(map[mcp.ID]bool)
	for _, s := range f.log {
		if used[s.ID] {
			t.Errorf("id %s is used twice", s.ID)
		}
		used[s.ID] = true
	}
}

// heard collects what a call hears.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) notify(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, strings.TrimPrefix(method, "notifications/")+" "+string(params))
}

func (h *heard) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// Progress arrives in order, before the result, at its own call and no other.
func TestCallProgress(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			f.handle(mcp.MethodToolsCall, func(x *exchange) {
				for n := range 50 {
					x.progress(n)
					x.notify(mcp.NotifyMessage, `{"level":"info","data":`+strconv.Itoa(n)+`}`)
				}
				x.result(`{"content":[]}`)
			})
			r := run(t, f.spec())
			r.state(mcp.Ready)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					h := &heard{}
					call := tool("echo", `{}`)
					call.Progress, call.Notify = true, h.notify
					if _, err := r.Call(t.Context(), call); err != nil {
						t.Error(err)
						return
					}
					said := h.list() // nothing comes after the result
					if len(said) != 50 {
						t.Errorf("heard %d notifications, want 50 of progress and no log that was not asked for", len(said))
						return
					}
					token := strings.TrimPrefix(said[0], `progress {"progressToken":`)
					token = token[:strings.Index(token, ",")]
					for n, s := range said {
						if want := fmt.Sprintf(`progress {"progressToken":%s,"progress":%d}`, token, n); s != want {
							t.Errorf("notification %d = %s, want %s", n, s, want)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func TestCallHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Modern)
	schema := `{"type":"object","properties":{"tenant":{"type":"string","x-mcp-header":"Tenant"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"gone":{"type":"string","x-mcp-header":"Gone"}}}`
	f.handle(mcp.MethodToolsList, func(x *exchange) {
		x.result(`{"tools":[{"name":"café ☕","inputSchema":` + schema + `}],"resultType":"complete"}`)
	})
	r := run(t, f.spec())
	r.state(mcp.Ready)
	call := tool("café ☕", `{"tenant":"zażółć","deep":{"n":42},"gone":null}`)
	call.Headers = http.Header{
		"Mcp-Param-Tenant":  {"of the client, and wrong"},
		"Mcp-Param-Gone":    {"stale"},
		"Mcp-Param-Unknown": {"kept"},
	}
	r.call(call)
	r.call(&mcp.Call{Method: mcp.MethodRead, Kind: mcp.Resource, Key: "file:///ä", Params: []byte(`{"uri":"file:///ä","name":"not this"}`)})
	r.call(&mcp.Call{Method: mcp.MethodPromptsGet, Kind: mcp.Prompt, Key: "p", Params: []byte(`{"name":"=?base64?cA==?="}`)})
	r.call(&mcp.Call{Method: mcp.MethodComplete, Params: []byte(`{"ref":{"type":"ref/prompt","name":"p"}}`)})
	tests := []struct {
		method string
		want   map[string]string
	}{
		{mcp.MethodToolsCall, map[string]string{
			"Mcp-Name": mcp.EncodeHeaderValue("café ☕"), "Mcp-Param-Tenant": mcp.EncodeHeaderValue("zażółć"),
			"Mcp-Param-N": "42", "Mcp-Param-Unknown": "kept",
		}},
		{mcp.MethodRead, map[string]string{"Mcp-Name": mcp.EncodeHeaderValue("file:///ä")}},
		{mcp.MethodPromptsGet, map[string]string{"Mcp-Name": mcp.EncodeHeaderValue("=?base64?cA==?=")}},
		{mcp.MethodComplete, map[string]string{}},
	}
	for _, tt := range tests {
		all := f.requests(tt.method)
		if len(all) != 1 {
			t.Fatalf("%d requests of %s", len(all), tt.method)
		}
		got := make(map[string]string)
		for name, values := range all[0].Header {
			if name == mcp.HeaderName || strings.HasPrefix(name, mcp.HeaderParam) {
				got[name] = strings.Join(values, "|")
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.method, diff)
		}
		if h := all[0].Header; h.Get(mcp.HeaderVersion) != "2026-07-28" || h.Get(mcp.HeaderMethod) != tt.method || h.Get(mcp.HeaderSession) != "" {
			t.Errorf("%s: headers %v", tt.method, h)
		}
	}
	if name := f.requests(mcp.MethodToolsCall)[0].Header.Get(mcp.HeaderName); !strings.HasPrefix(name, "=?base64?") {
		t.Errorf("Mcp-Name = %q, want base64", name)
	}
}

// A server that rejects outdated headers gets new ones, once. No error of the hop itself
// reaches a client.
func TestCallHopFaults(t *testing.T) {
	t.Parallel()
	t.Run("-32020 fetches the schema again and retries once", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		header := "Old"
		f.handle(mcp.MethodToolsList, func(x *exchange) {
			x.mu.Lock()
			h := header
			x.mu.Unlock()
			x.result(`{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"` + h + `"}}}}]}`)
		})
		ran := 0
		f.handle(mcp.MethodToolsCall, func(x *exchange) {
			if x.r.Header.Get("Mcp-Param-New") != "v" || x.r.Header.Get("Mcp-Param-Old") != "" {
				x.fault(400, mcp.CodeHeaderMismatch, "Header mismatch")
				return
			}
			x.mu.Lock()
			ran++
			x.mu.Unlock()
			x.echo()
		})
		r := run(t, f.spec())
		r.state(mcp.Ready)
		f.mu.Lock()
		header = "New"
		f.mu.Unlock()
		r.call(tool("echo", `{"a":"v"}`))
		f.mu.Lock()
		defer f.mu.Unlock()
		if ran != 1 {
			t.Errorf("the tool ran %d times", ran)
		}
	})
	for _, code := range []int{-32020, -32022, -32029} {
		t.Run(strconv.Itoa(code)+" is not relayed", func(t *testing.T) {
			t.Parallel()
			f := newFake(t, mcp.Modern)
			f.handle(mcp.MethodToolsCall, func(x *exchange) { x.fault(400, code, "about the hop") })
			r := run(t, f.spec())
			r.state(mcp.Ready)
			failure := r.fails(tool("echo", `{}`))
			if failure.Kind != mcp.FailProtocol || strings.Contains(failure.Reason, "about the hop") {
				t.Errorf("failure = %+v", failure)
			}
			want := 1
			if code == mcp.CodeHeaderMismatch {
				want = 2
			}
			if n := len(f.requests(mcp.MethodToolsCall)); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		})
	}
	t.Run("a missing client capability is handed over", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Modern)
		f.handle(mcp.MethodToolsCall, func(x *exchange) { x.fault(400, mcp.CodeMissingCapability, "needs sampling") })
		r := run(t, f.spec())
		r.state(mcp.Ready)
		answer, err := r.Call(t.Context(), tool("echo", `{}`))
		if err != nil || answer.Fault == nil || answer.Fault.Code != mcp.CodeMissingCapability {
			t.Errorf("call = %+v, %v", answer, err)
		}
	})
	t.Run("of a legacy server they are its own codes", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, mcp.Legacy)
		f.handle(mcp.MethodToolsCall, func(x *exchange) { x.fault(200, -32020, "mine") })
		r := run(t, f.spec())
		r.state(mcp.Ready)
		answer, err := r.Call(t.Context(), tool("echo", `{}`))
		if err != nil || answer.Fault == nil || answer.Fault.Code != -32020 {
			t.Errorf("call = %+v, %v", answer, err)
		}
		if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
			t.Errorf("%d requests: a tool may have run twice", n)
		}
	})
}

// A caller that leaves: legacy servers are told with the upstream's id, modern
// ones see the stream closed.
func TestCallCancelHTTP(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		for _, flowing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, stream %v", era, flowing), func(t *testing.T) {
				t.Parallel()
				f := newFake(t, era)
				began, left := make(chan struct{}), make(chan struct{})
				f.handle(mcp.MethodToolsCall, func(x *exchange) {
					if flowing {
						x.progress(1)
					}
					close(began)
					x.hold()
					close(left)
				})
				r := run(t, f.spec())
				r.state(mcp.Ready)
				gone := errors.New("the client went away")
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := r.Call(ctx, tool("echo", `{}`))
					ended <- err
				}()
				receives(t, "the call", began)
				cancel(gone)
				if err := receives(t, "the end of the call", ended); !errors.Is(err, gone) {
					t.Errorf("call = %v, want the cause", err)
				}
				receives(t, "the end of the stream", left)
				id := f.requests(mcp.MethodToolsCall)[0].ID
				if era == mcp.Legacy {
					testwait.Until(t, patience, "the notification", func() bool { return len(f.requests(mcp.NotifyCancelled)) == 1 })
					want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(id) + `}}`
					if got := f.requests(mcp.NotifyCancelled)[0]; got.Body != want || got.Header.Get(mcp.HeaderSession) == "" {
						t.Errorf("cancellation = %s (%v), want %s", got.Body, got.Header, want)
					}
				}
				r.end()
				if n := len(f.requests(mcp.NotifyCancelled)); era == mcp.Modern && n != 0 {
					t.Errorf("%d cancellations of a modern request", n)
				}
			})
		}
	}
}

// Deadlines of a call: patience, extended by progress, up to the hard cap.
func TestCallDeadlines(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		switch name, _ := mcp.LookupString(x.msg.Params(), "name"); name {
		case "silent":
			x.hold()
		case "slow body":
			x.w.Header().Set("Content-Type", "application/json")
			x.w.WriteHeader(200)
			_, _ = x.w.Write([]byte(`{"jsonrpc":"2.0",`))
			x.flush()
			x.hold()
		case "busy":
			for n := 0; ; n++ {
				x.progress(n)
				select {
				case <-x.r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		case "long":
			for n := range 8 {
				x.progress(n)
				<-time.After(150 * time.Millisecond)
			}
			x.result(`{"content":[]}`)
		}
	})
	spec := f.spec()
	spec.Timeouts = Timeouts{Call: 600 * time.Millisecond, Hard: 2 * time.Second}
	r := run(t, spec)
	r.state(mcp.Ready)
	for _, name := range []string{"silent", "slow body", "busy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			call := tool(name, `{}`)
			call.Progress, call.Notify = true, h.notify
			began := time.Now()
			_, err := r.Call(t.Context(), call)
			var failure *mcp.Failure
			if !errors.As(err, &failure) || failure.Kind != mcp.FailTimeout || !failure.Delivered {
				t.Fatalf("call = %v", err)
			}
			if took := time.Since(began); name == "busy" && took < spec.Timeouts.Hard {
				t.Errorf("the hard cap struck after %v", took)
			}
			if name == "busy" && len(h.list()) < 2 {
				t.Errorf("heard %q", h.list())
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		call := tool("long", `{}`)
		call.Progress = true
		if _, err := r.Call(t.Context(), call); err != nil {
			t.Errorf("progress does not extend: %v", err)
		}
	})
}
