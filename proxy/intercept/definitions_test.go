package intercept_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/proxy/intercept"
)

// looking is definitions that run, with the number of changes that they told of.
func looking(t *testing.T, entries ...intercept.Entry) (*intercept.Definitions, *atomic.Int64) {
	t.Helper()
	changes := &atomic.Int64{}
	d := intercept.NewDefinitions(slog.New(slog.DiscardHandler), func(intercept.Event) {}, func() { changes.Add(1) })
	d.Use(intercept.New(entries))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d, changes
}

func lists(s *intercept.Settings) { s.Phase = []intercept.Phase{intercept.List} }

func definition(name, raw string) *intercept.Definition {
	return &intercept.Definition{Method: "tools/list", Server: "s", Name: name, Raw: []byte(raw)}
}

// TestDefinitions: each definition is asked about once, withheld until then, and again when
// it is another one.
func TestDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		d, changes := looking(t, setting("look", says(func(_ context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
			asked.Add(1)
			if strings.Contains(string(inv.Payload), "evil") {
				return intercept.Verdict{Reason: "evil"}, nil
			}
			return intercept.Verdict{Effect: intercept.Pass, Note: "looked at " + inv.Name}, nil
		}), lists))
		good, evil := definition("s__a", `{"name":"a"}`), definition("s__b", `{"name":"b","description":"evil"}`)
		for range 3 {
			if !d.Look(good).Withheld || !d.Look(evil).Withheld {
				t.Error("a definition is listed before anybody has looked at it")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := d.Look(good); got.Withheld || len(got.Notes) != 1 || got.Notes[0] != (intercept.Note{By: "look", Text: "looked at s__a"}) {
			t.Errorf("%+v", got)
		}
		if !d.Look(evil).Withheld || asked.Load() != 2 || changes.Load() != 1 {
			t.Errorf("asked %d times, %d changes", asked.Load(), changes.Load())
		}
		if !d.Look(definition("s__a", `{"name":"a","title":"other"}`)).Withheld {
			t.Error("another definition counts as the same")
		}
		d.Use(nil)
		if d.Look(evil).Withheld {
			t.Error("withheld by nobody")
		}
	})
}

// TestDefinitionsOfFailures: a failure withholds, unless the operator has said skip, and the
// interceptor is asked again later.
func TestDefinitionsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skip := range []bool{false, true} {
			var fails atomic.Bool
			fails.Store(true)
			d, changes := looking(t, setting("look", says(func(context.Context, *intercept.Invocation) (intercept.Verdict, error) {
				if fails.Load() {
					return intercept.Verdict{}, errors.New("down")
				}
				return intercept.Verdict{Effect: intercept.Pass}, nil
			}), func(s *intercept.Settings) {
				if lists(s); skip {
					s.OnError = "skip"
				}
			}))
			of := definition("s__a", `{"name":"a"}`)
			for range 2 {
				if d.Look(of).Withheld == skip {
					t.Errorf("skip %v: withheld %v", skip, !skip)
				}
				time.Sleep(time.Second)
			}
			fails.Store(false)
			before := changes.Load()
			time.Sleep(time.Minute)
			if changes.Load() == before {
				t.Error("nobody is told that it is worth while to look again")
			}
			d.Look(of)
			time.Sleep(time.Second)
			if d.Look(of).Withheld {
				t.Errorf("skip %v: withheld after it works", skip)
			}
		}
	})
}

// TestListAnswers: an interceptor of a list may not change the definition, nor ask.
func TestListAnswers(t *testing.T) {
	for _, v := range []intercept.Verdict{{Effect: intercept.Pass, Payload: []byte(`{"name":"b"}`)}, {Effect: intercept.Ask}} {
		c := intercept.New([]intercept.Entry{setting("x", always(v), func(s *intercept.Settings) { lists(s); mutates(s) })})
		if r := c.Run(t.Context(), intercept.List, call, []byte(`{"name":"a"}`), nil); r.Denied == nil || r.Denied.Err == nil {
			t.Errorf("%+v: %+v", v, r)
		}
	}
	if c := intercept.New([]intercept.Entry{setting("x", always(intercept.Verdict{}), nil)}); c.Meets(intercept.List, "s__a") {
		t.Error("asked about lists without being told to")
	}
}
