package intercept_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// says is an interceptor that answers by a function.
type says func(ctx context.Context, inv *intercept.Invocation) (intercept.Verdict, error)

func (f says) Intercept(ctx context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
	return f(ctx, inv)
}

func always(v intercept.Verdict) says {
	return func(context.Context, *intercept.Invocation) (intercept.Verdict, error) { return v, nil }
}

var call = &intercept.Call{ID: "call-1", Method: mcp.MethodToolsCall, Principal: "alice", Server: "s", Name: "s__echo"}

// setting returns an enforced interceptor with some settings.
func setting(name string, by intercept.Interceptor, change func(*intercept.Settings)) intercept.Entry {
	e := intercept.Entry{Settings: intercept.Settings{Name: name}, By: by}
	if change != nil {
		change(&e.Settings)
	}
	return e
}

func mutates(s *intercept.Settings) { s.Type = "mutation" }

// adds adds its name to the member "seen" of the payload.
func adds(name string) says {
	return func(_ context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
		seen, _ := mcp.LookupString(inv.Payload, "seen")
		return intercept.Verdict{Effect: intercept.Pass, Payload: mcp.SetMember(inv.Payload, "seen", mcp.Quote(seen+name))}, nil
	}
}

// TestOrder: mutations go by priority and name, each sees what those before have left.
// Validations see the end of it before a call, and the beginning after it (SEP-2624).
func TestOrder(t *testing.T) {
	saw := map[intercept.Phase]string{}
	looks := says(func(_ context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
		saw[inv.Phase], _ = mcp.LookupString(inv.Payload, "seen")
		return intercept.Verdict{Effect: intercept.Pass}, nil
	})
	at := func(name string, priority int32) intercept.Entry {
		return setting(name, adds(name), func(s *intercept.Settings) { mutates(s); s.Priority = units.Priority(priority) })
	}
	c := intercept.New([]intercept.Entry{at("z", 0), at("late", 100), setting("look", looks, nil), at("first", -1000), at("a", 0)})
	for phase, want := range map[intercept.Phase]string{intercept.Before: "firstazlate", intercept.After: ""} {
		var order []string
		r := c.Run(t.Context(), phase, call, []byte(`{}`), func(e intercept.Event) { order = append(order, e.Interceptor+" "+e.Verdict) })
		if string(r.Payload) != `{"seen":"firstazlate"}` || r.Denied != nil || saw[phase] != want {
			t.Errorf("%s: %s, the validation saw %q", phase, r.Payload, saw[phase])
		}
		mutations := []string{"first change", "a change", "z change", "late change"}
		whole := append(slices.Clone(mutations), "look pass")
		if phase == intercept.After {
			whole = append([]string{"look pass"}, mutations...)
		}
		if !slices.Equal(order, whole) {
			t.Errorf("%s: %q", phase, order)
		}
	}
	var met []string
	for _, e := range c.Met(intercept.Before, "s__echo") {
		met = append(met, e.Name)
	}
	if want := []string{"first", "a", "z", "late", "look"}; !slices.Equal(met, want) {
		t.Errorf("met %q, want %q", met, want)
	}
}

// TestRefusals: the first mutation that denies ends the chain, of validations every one is
// asked and the first by name is told; and a matched phase and name alone count.
func TestRefusals(t *testing.T) {
	denies := func(why string) says { return always(intercept.Verdict{Reason: why}) }
	asks := always(intercept.Verdict{Effect: intercept.Ask, Reason: "it is Friday"})
	c := intercept.New([]intercept.Entry{
		setting("other", denies("other"), func(s *intercept.Settings) { s.Match = []gate.Glob{"t__*"} }),
		setting("after", denies("after"), func(s *intercept.Settings) { s.Phase = []intercept.Phase{intercept.After} }),
		setting("asks", asks, func(s *intercept.Settings) {
			s.Phase = []intercept.Phase{intercept.Before}
			s.Match = []gate.Glob{"s__*"}
		}),
	})
	if r := c.Run(t.Context(), intercept.Before, call, []byte(`{}`), nil); r.Denied != nil || len(r.Demands) != 1 ||
		r.Demands[0].Reason != "the interceptor asks asks for an approval: it is Friday" {
		t.Errorf("%+v", r)
	}
	if r := c.Run(t.Context(), intercept.After, call, []byte(`{}`), nil); r.Denied == nil || r.Denied.By != "after" || r.Denied.Err != nil {
		t.Errorf("%+v", r)
	}
	if other := (&intercept.Call{Method: mcp.MethodToolsCall, Name: "x"}); c.Meets(intercept.Before, "x") || c.Run(t.Context(), intercept.Before, other, nil, nil).Denied != nil {
		t.Error("an interceptor is asked about a name that it does not match")
	}
	var none *intercept.Chain
	if r := none.Run(t.Context(), intercept.Before, call, []byte(`{"a":1}`), nil); r.Denied != nil || string(r.Payload) != `{"a":1}` || none.Meets(intercept.Before, "x") {
		t.Errorf("no chain: %+v", r)
	}
}

// TestFaults: whatever is wrong with an answer refuses, or goes on as if nobody had been
// asked where the operator has said so. In audit mode nothing comes of it.
func TestFaults(t *testing.T) {
	errored := []byte(`{"content":[],"isError":true}`)
	pass := func(payload string) says {
		return always(intercept.Verdict{Effect: intercept.Pass, Payload: []byte(payload)})
	}
	for name, tt := range map[string]struct {
		by     says
		phase  intercept.Phase
		looks  bool // a validation
		change func(*intercept.Settings)
		want   string
	}{
		"an error": {by: func(context.Context, *intercept.Invocation) (intercept.Verdict, error) {
			return intercept.Verdict{Effect: intercept.Pass}, errors.New("no power")
		}, want: "no power"},
		"a panic": {by: func(context.Context, *intercept.Invocation) (intercept.Verdict, error) { panic("bang") }, want: "it panicked: bang"},
		"too slow": {by: func(ctx context.Context, _ *intercept.Invocation) (intercept.Verdict, error) {
			<-ctx.Done()
			return intercept.Verdict{Effect: intercept.Pass}, nil
		}, want: "it has not answered within 10ms"},
		"an unknown decision":    {by: always(intercept.Verdict{Effect: 7}), want: "its decision 7 is not known"},
		"no object":              {by: pass(`[1]`), want: "not a JSON object"},
		"no JSON":                {by: pass(`{"a":`), want: "not a JSON object"},
		"a name twice":           {by: pass(`{"a":1,"a":2}`), want: "not a JSON object"},
		"more than an object":    {by: pass(`{},"b":{}`), want: "not a JSON object"},
		"too large":              {by: pass(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), want: "1048576 are the most"},
		"a long reason":          {by: always(intercept.Verdict{Effect: intercept.Pass, Reason: strings.Repeat("x", 2000)}), want: "more than 1024 bytes"},
		"a validation changes":   {by: pass(`{"a":2}`), looks: true, want: "it is a validation, and has changed what it was shown"},
		"a note before":          {by: always(intercept.Verdict{Effect: intercept.Pass, Note: "x"}), want: "before there is a result"},
		"asks after":             {by: always(intercept.Verdict{Effect: intercept.Ask}), phase: intercept.After, want: "too late"},
		"an error is a success":  {by: pass(`{"content":[]}`), phase: intercept.After, want: "it makes a success of an error"},
		"another kind of result": {by: pass(`{"isError":true,"resultType":"input_required"}`), phase: intercept.After, want: "it changes resultType"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, mode := range []string{"deny", "skip", "audit"} {
					e := setting("x", tt.by, func(s *intercept.Settings) {
						s.Timeout, s.OnError = 10*time.Millisecond, mode
						if !tt.looks {
							mutates(s)
						}
						if mode == "audit" {
							s.OnError, s.Mode = "deny", "audit"
						}
					})
					phase, payload := tt.phase, []byte(`{"a":1}`)
					if phase == "" {
						phase = intercept.Before
					} else {
						payload = errored
					}
					var told []intercept.Event
					r := intercept.New([]intercept.Entry{e}).Run(t.Context(), phase, call, payload, func(e intercept.Event) { told = append(told, e) })
					if len(told) != 1 || told[0].Verdict != "error" || !strings.Contains(told[0].Reason, tt.want) {
						t.Errorf("%s: told %+v, want %q", mode, told, tt.want)
					}
					if refused := r.Denied != nil; refused != (mode == "deny") || refused && (r.Denied.Err == nil || r.Denied.By != "x") {
						t.Errorf("%s: denied by %+v", mode, r.Denied)
					}
					if string(r.Payload) != string(payload) || len(r.Demands)+len(r.Notes) > 0 {
						t.Errorf("%s: left %s, %v, %v", mode, r.Payload, r.Demands, r.Notes)
					}
				}
			})
		})
	}
}

// TestAuditMode: what would have been done is told, and nothing is.
func TestAuditMode(t *testing.T) {
	for verdict, v := range map[string]intercept.Verdict{
		"would deny": {Reason: "no"}, "would ask": {Effect: intercept.Ask}, "would change": {Effect: intercept.Pass, Payload: []byte(`{"b":1}`)}, "pass": {Effect: intercept.Pass},
	} {
		e := setting("x", always(v), func(s *intercept.Settings) { mutates(s); s.Mode = "audit" })
		var told string
		r := intercept.New([]intercept.Entry{e}).Run(t.Context(), intercept.Before, call, []byte(`{"a":1}`), func(e intercept.Event) { told = e.Outcome() })
		if told != verdict || r.Denied != nil || len(r.Demands) > 0 || string(r.Payload) != `{"a":1}` {
			t.Errorf("%s: told %q, ruled %+v", verdict, told, r)
		}
	}
}

// TestLargePayload is not shown: an interceptor that cannot see all of it has not looked.
func TestLargePayload(t *testing.T) {
	asked := false
	e := setting("x", says(func(context.Context, *intercept.Invocation) (intercept.Verdict, error) {
		asked = true
		return intercept.Verdict{Effect: intercept.Pass}, nil
	}), nil)
	large := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	c := intercept.New([]intercept.Entry{e})
	for range 10 {
		if r := c.Run(t.Context(), intercept.Before, call, large, nil); r.Denied == nil || asked {
			t.Errorf("denied %+v, asked %v", r.Denied, asked)
		}
	}
	// It says nothing of other calls.
	if r := c.Run(t.Context(), intercept.Before, call, []byte(`{}`), nil); r.Denied != nil || !asked {
		t.Errorf("denied %+v, asked %v", r.Denied, asked)
	}
}

// TestBreaker: an interceptor that keeps failing is left alone for a while. A call that
// ends by itself is no failure of it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, fails := 0, true
		e := setting("x", says(func(ctx context.Context, _ *intercept.Invocation) (intercept.Verdict, error) {
			if asked++; fails {
				return intercept.Verdict{}, errors.New("down")
			}
			return intercept.Verdict{Effect: intercept.Pass}, ctx.Err()
		}), nil)
		c := intercept.New([]intercept.Entry{e})
		run := func(ctx context.Context) *intercept.Denial {
			return c.Run(ctx, intercept.Before, call, []byte(`{}`), nil).Denied
		}
		for range 8 {
			if run(t.Context()) == nil {
				t.Error("a failure let a call pass")
			}
		}
		if asked != 5 {
			t.Errorf("asked %d times", asked)
		}
		fails = false
		time.Sleep(11 * time.Second)
		ended, end := context.WithCancel(t.Context())
		if d := run(t.Context()); d != nil {
			t.Errorf("after a while: %+v", d)
		}
		end()
		for range 8 {
			run(ended)
		}
		if d := run(t.Context()); d != nil {
			t.Errorf("calls that ended count as failures: %+v", d)
		}
	})
}

// TestValidationsRunBesideOneAnother: three that wait for each other all pass.
func TestValidationsRunBesideOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := says(func(context.Context, *intercept.Invocation) (intercept.Verdict, error) {
			time.Sleep(900 * time.Millisecond)
			return intercept.Verdict{Effect: intercept.Pass}, nil
		})
		var entries []intercept.Entry
		for i := range 3 {
			entries = append(entries, setting(fmt.Sprint(i), waits, nil))
		}
		began := time.Now()
		if r := intercept.New(entries).Run(t.Context(), intercept.Before, call, []byte(`{}`), nil); r.Denied != nil || time.Since(began) > time.Second {
			t.Errorf("%+v after %v", r.Denied, time.Since(began))
		}
	})
}
