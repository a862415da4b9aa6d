package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/budget/budgettest"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/http1"
)

// A call whose memory is used again is zero then, with its record. One that something may still
// use is not touched.
func TestRecycledCallsAreZero(t *testing.T) {
	for name, tt := range map[string]struct {
		reply func(ctx context.Context, call *mcp.Call) (mcp.Answer, error)
		mount func(*Mount)
		rules []budget.Rule
		want  bool
	}{
		"a result": {want: true},
		"a fault": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return fault(mcp.Modern, `{"code":-32602,"message":"no"}`), nil
		}, want: true},
		"a failure": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailTimeout}
		}},
		"a panic": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) { panic("no") }},
		"a question": {reply: func(context.Context, *mcp.Call) (mcp.Answer, error) {
			return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"s"}`), nil
		}},
		"a part of the gateway": {mount: func(m *Mount) { m.Native = true }},
		"a charge":              {rules: []budget.Rule{flat}, want: true},
		"a charge of time":      {rules: []budget.Rule{{Name: "time", Per: budget.PerSubject, Unit: budget.Seconds, Limit: 1000, Window: budget.Month}}},
		"a charge refused":      {rules: []budget.Rule{{Name: "none", Per: budget.PerSubject, Unit: budget.Cost, Limit: 0, Window: budget.Month}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Modern, tool("a"))
			b.reply = tt.reply
			mounts := mounted(b)
			if tt.mount != nil {
				tt.mount(&mounts[0])
			}
			r := newRig(t, mounts, func(_ *Options, c *Config) {
				if tt.rules != nil {
					c.Limiter = limited(t, &budgettest.Memory{}, tt.rules...)
				}
			})
			x := exchangeOf(t, "alice", modernBody("1", mcp.MethodToolsCall, `"name":"s__a","arguments":{"x":1}`, ""))
			c := r.newRequest(x, &planCall, mcp.Tool, "s__a")
			c.serve(t.Context())
			rec := c.rec
			if rec.entry.CallID == "" || len(rec.entry.Steps) == 0 {
				t.Fatalf("%+v", rec.entry)
			}
			recycle(c)
			if got := c.g == nil; got != tt.want {
				t.Fatalf("recycled: %v, want %v", got, tt.want)
			}
			if tt.want && !reflect.ValueOf(*rec).IsZero() {
				t.Errorf("its record is %+v", *rec)
			}
			if !tt.want && rec.entry.CallID == "" {
				t.Error("its record is zero")
			}
		})
	}
}

// exchangeOf is a modern request of a caller.
func exchangeOf(t *testing.T, who, body string) *Exchange {
	t.Helper()
	msg, err := mcp.Parse([]byte(body), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	x := &Exchange{Message: msg, Identity: person(who), Transport: "http", responder: nobody{}}
	if fault := x.modernMeta(); fault != nil {
		t.Fatal(fault)
	}
	return x
}

// Calls of several callers end in every way, some while their server still works on them, and
// keeps what it was given. No call is recorded, or answered, with anything of another one.
func TestCallsWithRecycledMemoryAreSeparate(t *testing.T) {
	const workers, each = 8, 60
	b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"), tool("c"))
	old := newScript(t, "old", mcp.Legacy, tool("a"), tool("b"), tool("c"))
	var late sync.WaitGroup
	over := make(chan struct{})
	for _, one := range []*script{b, old} {
		one.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
			text, _ := mcp.LookupString(call.Params, "arguments", "text")
			late.Go(func() { // it uses the call after it was answered
				<-over
				_ = call.StillAllowed(context.Background())
			})
			switch {
			case strings.HasSuffix(text, " 1"):
				<-ctx.Done()
				return mcp.Answer{}, context.Cause(ctx)
			case strings.HasSuffix(text, " 2"):
				return fault(one.era(), `{"code":-32602,"message":"`+text+`"}`), nil
			case strings.HasSuffix(text, " 3"):
				return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Err: errors.New(text)}
			case strings.HasSuffix(text, " 4"):
				panic(text)
			case strings.HasSuffix(text, " 5") && one.era() == mcp.Modern:
				return answered(mcp.Modern, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"s"}`), nil
			}
			return answered(one.era(), `{"content":[{"type":"text","text":"`+text+`"}]}`), nil
		}
	}
	many := flat
	many.Limit = workers * each
	r := newRig(t, mounted(b, old), func(_ *Options, c *Config) { c.Limiter = limited(t, &budgettest.Memory{}, many) })
	want := make(map[string]string) // by the hash of the arguments
	var mu sync.Mutex
	var all sync.WaitGroup
	for worker := range workers {
		who := []string{"alice", "bob"}[worker%2]
		session := r.open("Authorization", "Bearer "+who)
		all.Go(func() {
			for i := range each {
				kind := i % 7 // see the reply
				if i%3 == 0 && (kind == 1 || kind == 5) {
					kind = 0 // a legacy call outlives its request, and waits for the answer to a question
				}
				text := fmt.Sprintf("%s %d %d %d", who, worker, i, kind)
				name := []string{"s__a", "old__b", "s__c", "old__a"}[i%4]
				args := `{"text":"` + text + `"}`
				hash := mcp.Hash([]byte(args))
				mu.Lock()
				want[hex.EncodeToString(hash[:])] = who + " " + name
				mu.Unlock()
				members := `"name":"` + name + `","arguments":` + args
				req := modernRequest(modernBody("1", mcp.MethodToolsCall, members, ""), "Authorization", "Bearer "+who)
				if i%3 == 0 {
					req = httpRequest("POST", "/mcp", request("1", mcp.MethodToolsCall, "{"+members+"}"), "Mcp-Session-Id", session, "Authorization", "Bearer "+who)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if strings.HasSuffix(text, " 1") {
					cancel()
				}
				w := newRecorder()
				r.Handler().ServeHTTP(w, req.WithContext(ctx))
				cancel()
				if strings.Contains(w.text(), `"text":"`+who) && !strings.Contains(w.text(), `"text":"`+text+`"`) {
					t.Errorf("%s was answered with %s", text, w.text())
				}
			}
		})
	}
	all.Wait()
	close(over)
	late.Wait()
	r.rounds.closeAll()
	usual := []string(nil)
	for _, e := range r.ledger.all() {
		if got := e.Principal.Subject + " " + e.Name; got != want[e.ArgsHash] {
			t.Errorf("a call of %q was recorded as one of %q", want[e.ArgsHash], got)
		}
		delete(want, e.ArgsHash)
		for _, charged := range e.Budgets {
			if !strings.Contains(charged.Key, e.Principal.Subject) {
				t.Errorf("a call of %s was charged to %s", e.Principal.Subject, charged.Key)
			}
		}
		if e.Outcome != audit.OutcomeOK {
			continue
		}
		if len(e.Budgets) != 1 {
			t.Errorf("a call was charged to %+v", e.Budgets)
		}
		var phases []string
		for _, step := range e.Steps {
			phases = append(phases, step.Phase)
		}
		if usual == nil {
			usual = phases
		}
		if !slices.Equal(phases, usual) {
			t.Errorf("the steps of one call are %v, and of another %v", phases, usual)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d calls were not recorded", len(want))
	}
}

// Calls over connections whose requests lie in the memory of earlier ones reach their server with
// headers of their own, which it keeps, and are answered as their own.
func TestCallsOfReleasedRequestsAreSeparate(t *testing.T) {
	const workers, each = 8, 60
	b := newScript(t, "s", mcp.Modern, tool("a"))
	var mu sync.Mutex
	var late []func()
	b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
		text, _ := mcp.LookupString(call.Params, "arguments", "text")
		check := func() {
			if got := call.Headers["Mcp-Param-Text"]; len(got) != 1 || got[0] != text {
				t.Errorf("the call of %q has the header %q", text, got)
			}
			_ = call.StillAllowed(context.Background())
		}
		check()
		mu.Lock()
		defer mu.Unlock()
		late = append(late, check)
		if strings.HasSuffix(text, " 1") {
			return mcp.Answer{}, &mcp.Failure{Kind: mcp.FailUnavailable, Err: errors.New(text)}
		}
		return answered(mcp.Modern, `{"content":[{"type":"text","text":"`+text+`"}]}`), nil
	}
	r := newRig(t, mounted(b))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http1.New(NewServer(r.Handler()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	var all sync.WaitGroup
	for worker := range workers {
		who := []string{"alice", "bob"}[worker%2]
		all.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%s %d %d %d", who, worker, i, i%4)
				body := modernBody("1", mcp.MethodToolsCall, `"name":"s__a","arguments":{"text":"`+text+`"}`, "")
				made := modernRequest(body, "Authorization", "Bearer "+who, "Mcp-Param-Text", text)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/mcp", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = made.Header
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if failed := i%4 == 1; err != nil || failed == strings.Contains(string(got), `"text":"`+text+`"`) {
					t.Errorf("%s was answered with %s, %v", text, got, err)
				}
			}
		})
	}
	all.Wait()
	for _, check := range late {
		check()
	}
	client.CloseIdleConnections()
	if server.Close(); !errors.Is(<-served, http.ErrServerClosed) {
		t.Error("the server has failed")
	}
	for _, e := range r.ledger.all() {
		if e.Principal.Subject == "" {
			t.Errorf("%+v", e)
		}
	}
}
