package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
)

// Everything that a model can say ends in an outcome that tells it from the others.
func TestOutcomes(t *testing.T) {
	broken := calls("fs__read")
	broken.Calls[0].Args, broken.Calls[0].Broken, broken.Calls[0].Raw = nil, "the arguments end in the middle", `{"pa`
	cut := says("half of an ans")
	cut.Stop = model.StopLength
	no := says("I will not")
	no.Stop = model.StopRefusal
	list := calls("fs__read")
	list.Calls[0].Args = json.RawMessage(`[1]`)
	half := calls("fs__read")
	half.Calls[0].Args = json.RawMessage(`{"a":`)
	same := calls(`fs__read {"a":1}`, `fs__read {"a":1}`)
	same.Calls[0].ID, same.Calls[1].ID = "", ""
	for name, tc := range map[string]struct {
		say    func(int, *model.Request) (*model.Turn, error)
		set    func(*rig)
		status agents.Status
		limit  string
		in     string // the text, or the reason
		asked  int    // how often the model was
		made   string
		told   string // in the results that the model got
	}{
		"an answer at once":         {say: turns(says("42")), status: agents.Completed, in: "42", asked: 1},
		"an answer after a call":    {say: turns(calls(`fs__read {"a":1}`), says("42")), status: agents.Completed, in: "42", asked: 2, made: `fs__read {"a":1}`, told: "did fs__read"},
		"calls without end":         {say: turns(calls("fs__read")), status: agents.Limited, limit: "max_turns", in: "5 times", asked: 5, made: "fs__read {}"},
		"fewer turns":               {say: turns(calls("fs__read")), set: func(r *rig) { r.Task.MaxTurns = 2 }, status: agents.Limited, limit: "max_turns", asked: 2, made: "fs__read {}"},
		"more turns than allowed":   {say: turns(calls("fs__read")), set: func(r *rig) { r.Task.MaxTurns = 99 }, status: agents.Limited, limit: "max_turns", asked: 5, made: "fs__read {}"},
		"nothing":                   {say: turns(says("")), status: agents.Failed, in: "said nothing that can be done, 3 times", asked: 3},
		"an unknown tool":           {say: turns(calls("rm__all"), says("sorry")), status: agents.Completed, in: "sorry", asked: 2, told: `there is no tool "rm__all". There are fs__read, fs__write.`},
		"unknown tools alone":       {say: turns(calls("rm__all")), status: agents.Failed, in: "3 times in a row", asked: 3},
		"broken arguments":          {say: turns(broken, says("sorry")), status: agents.Completed, in: "sorry", asked: 2, told: "not made: the arguments end in the middle"},
		"broken arguments alone":    {say: turns(broken), status: agents.Failed, in: "3 times in a row", asked: 3},
		"arguments that are a list": {say: turns(list, says("sorry")), status: agents.Completed, in: "sorry", asked: 2, told: "not a JSON object"},
		"arguments that are cut":    {say: turns(half, says("sorry")), status: agents.Completed, in: "sorry", asked: 2, told: "are not JSON"},
		"calls without ids":         {say: turns(same, says("both")), status: agents.Completed, in: "both", asked: 2, made: `fs__read {"a":1}`, told: "did fs__read\ndid fs__read"},
		"an answer that is cut":     {say: turns(cut), status: agents.Limited, limit: "max_tokens", in: "1000 tokens", asked: 1},
		"a refusal":                 {say: turns(no), status: agents.Failed, in: "refuses", asked: 1},
		"a call where none is": {
			say: turns(calls("fs__write"), says("well")), set: func(r *rig) { r.Task.Choice.Mode = model.ChooseNone }, status: agents.Completed,
			in: "well", asked: 2, told: "no tools may be called",
		},
		"a tool that is not allowed": {
			say: turns(calls("fs__write"), says("well")), set: func(r *rig) { r.Task.Allowed = []string{"fs__read"} }, status: agents.Completed,
			in: "well", asked: 2, told: "there is no tool",
		},
		"no tool is allowed": {
			say: turns(calls("fs__read"), says("well")), set: func(r *rig) { r.Task.Allowed = []string{} }, status: agents.Completed,
			in: "well", asked: 2, told: "There are no tools",
		},
		"a choice of a tool that is not": {say: turns(says("x")), set: func(r *rig) { r.Task.Choice = model.Choice{Mode: model.ChooseTool, Tool: "x"} }, status: agents.Failed, in: "is none of them"},
		"a run of few tokens": {
			say: turns(calls("fs__read")), set: func(r *rig) { r.Settings.RunTokens = 1400 }, status: agents.Limited, limit: "run_tokens",
			in: "1400 tokens", asked: 2, made: "fs__read {}",
		},
		"a caller who may no longer": {
			say: turns(calls("fs__read")), set: func(r *rig) {
				asked := 0
				r.Allowed = func(context.Context) error {
					if asked++; asked > 2 {
						return errors.New("revoked")
					}
					return nil
				}
			}, status: agents.Failed, in: "may not run this agent any more: revoked", asked: 2, made: "fs__read {}",
		},
		"a budget": {
			say: turns(calls("fs__read")), set: func(r *rig) { r.Budget = newPurse(1400) }, status: agents.Limited, limit: "budget",
			in: "used up", asked: 2, made: "fs__read {}",
		},
		"a task that is too long": {say: turns(says("x")), set: func(r *rig) { r.Task.Task = strings.Repeat("x", 400_000) }, status: agents.Limited, limit: "context", in: "more than the model can read"},
		"an error that is final": {say: func(int, *model.Request) (*model.Turn, error) {
			e := model.Errorf(model.Unauthorized, "no")
			e.Detail = "bad key"
			return nil, e
		}, status: agents.Failed, in: `It says: "bad key"`, asked: 1},
		"an error that goes on": {say: func(int, *model.Request) (*model.Turn, error) { return nil, model.Errorf(model.Overloaded, "busy") }, status: agents.Failed, in: "busy", asked: 4},
		"an error that ends": {say: func(n int, _ *model.Request) (*model.Turn, error) {
			if n < 2 {
				return nil, model.Errorf(model.RateLimited, "busy")
			}
			return says("42"), nil
		}, status: agents.Completed, in: "42", asked: 3},
		"a conversation that is too long": {say: func(int, *model.Request) (*model.Turn, error) { return nil, model.Errorf(model.TooLong, "no") }, status: agents.Limited, limit: "context", in: "does not fit", asked: 4},
		"a model that hangs":              {say: func(int, *model.Request) (*model.Turn, error) { return nil, nil }, status: agents.Limited, limit: "timeout", in: "10m0s", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(tc.say)
				if tc.set != nil {
					tc.set(r)
				}
				o := r.do(t)
				result, err := o.Result()
				if err != nil {
					t.Fatal(err)
				}
				if o.Status != tc.status || o.Limit != tc.limit || !strings.Contains(o.Text+" "+o.Reason, tc.in) || len(r.model.seen) != tc.asked {
					t.Errorf("%+v, asked %d times", o, len(r.model.seen))
				}
				if result.IsError != (tc.status != agents.Completed) || !strings.Contains(result.Text, tc.in) {
					t.Errorf("%+v", result)
				}
				for _, made := range r.tools.made {
					if made != tc.made {
						t.Errorf("made %q", made)
					}
				}
				if (tc.made != "") != (len(r.tools.made) > 0) {
					t.Errorf("made %q", r.tools.made)
				}
				if last := len(r.model.seen) - 1; tc.told != "" && !strings.Contains(strings.Join(results(&r.model.seen[last]), "\n"), tc.told) {
					t.Errorf("the model was told %q", results(&r.model.seen[last]))
				}
				for _, as := range r.tools.as {
					if as.Agent != "researcher" || !slices.Equal(as.Only, r.Task.Allowed) || (as.Only == nil) != (r.Task.Allowed == nil) {
						t.Errorf("as %+v", as)
					}
				}
				for i := range r.journal.steps {
					if s := &r.journal.steps[i]; s.State == agents.Begun || s.EndedAt.IsZero() {
						t.Errorf("the step %+v has no end", s)
					}
				}
			})
		})
	}
}

// The calls of a turn are made at the same time, at most eight of them, and the results
// are in the order of the calls.
func TestCallsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf(`fs__read {"i":%d}`, i))
		}
		r := newRig(turns(calls(names...), says("done")))
		r.tools.call = func(_ context.Context, c mcp.NestedCall) mcp.NestedAnswer {
			time.Sleep(time.Second)
			return text(string(c.Args))
		}
		start := time.Now()
		if o := r.do(t); o.Status != agents.Completed || len(o.Done) != 20 {
			t.Errorf("%+v", o)
		}
		if took := time.Since(start); took != 3*time.Second || r.tools.most != 8 {
			t.Errorf("took %s, %d at once", took, r.tools.most)
		}
		for i, got := range results(&r.model.seen[1]) {
			if got != fmt.Sprintf(`{"i":%d}`, i) {
				t.Errorf("the result %d is %s", i, got)
			}
		}
	})
}

// A run is cancelled at once, with its calls.
func TestCancelled(t *testing.T) {
	for name, tc := range map[string]struct {
		cause  error
		say    func(int, *model.Request) (*model.Turn, error)
		reason string
		steps  int
	}{
		"by its caller, in a call":    {errors.New("gone"), turns(calls("fs__write")), "Its caller", 2},
		"by somebody, in a call":      {agents.ErrCancelled, turns(calls("fs__write")), "Somebody", 2},
		"by its caller, in the model": {errors.New("gone"), func(int, *model.Request) (*model.Turn, error) { return nil, nil }, "Its caller", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(tc.say)
				cut := make(chan struct{})
				r.tools.call = func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
					<-ctx.Done()
					close(cut)
					return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInternal, "cancelled"), Delivered: true}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan *agents.Outcome)
				go func() {
					o, err := r.Do(ctx)
					if err != nil {
						t.Error(err)
					}
					ended <- o
				}()
				synctest.Wait()
				start := time.Now()
				cancel(tc.cause)
				o := <-ended
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				if o.Status != agents.Cancelled || !strings.Contains(o.Reason, tc.reason) || len(r.journal.steps) != tc.steps {
					t.Errorf("%+v, %+v", o, r.journal.steps)
				}
				if tc.steps == 2 {
					<-cut
					if s := r.journal.steps[1]; s.State != agents.Unknown {
						t.Errorf("the call is %s", s.State)
					}
				}
			})
		})
	}
}

// A journal that says that somebody has cancelled the run ends it.
func TestCancelledInTheJournal(t *testing.T) {
	r := newRig(turns(calls("fs__write")))
	r.journal.at = func(saves int, _ []agents.Step) error {
		if saves == 3 { // the call begins
			return agents.ErrCancelled
		}
		return nil
	}
	if o := r.do(t); o.Status != agents.Cancelled || len(r.tools.made) != 0 {
		t.Errorf("%+v, made %q", o, r.tools.made)
	}
}

// Nothing has an effect that is not in the journal before.
func TestJournalFails(t *testing.T) {
	for fails := 1; fails <= 4; fails++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(turns(calls("fs__write"), says("done")))
			r.journal.at = func(saves int, _ []agents.Step) error {
				if saves >= fails {
					return errors.New("no store")
				}
				return nil
			}
			if o, err := r.Do(t.Context()); err == nil {
				t.Errorf("%+v", o)
			}
			if asked, made := len(r.model.seen), len(r.tools.made); asked != min(1, fails-1) || made != max(0, fails-3) {
				t.Errorf("from save %d: asked %d, made %d", fails, asked, made)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a store that comes back
		r := newRig(turns(calls("fs__write"), says("done")))
		r.journal.at = func(saves int, _ []agents.Step) error {
			if saves > 3 && saves < 8 {
				return errors.New("no store")
			}
			return nil
		}
		if o := r.do(t); o.Status != agents.Completed || len(r.tools.made) != 1 {
			t.Errorf("%+v, made %q", o, r.tools.made)
		}
	})
	r := newRig(turns(says("done")))
	r.journal.at = func(int, []agents.Step) error { return agents.ErrFull }
	if o := r.do(t); o.Limit != agents.LimitSize {
		t.Errorf("%+v", o)
	}
}

// A demand for calls is met by the first one.
func TestChoice(t *testing.T) {
	r := newRig(turns(calls("fs__read"), says("done")))
	r.Task.Choice = model.Choice{Mode: model.ChooseTool, Tool: "fs__read"}
	if o := r.do(t); o.Status != agents.Completed {
		t.Errorf("%+v", o)
	}
	if a, b := r.model.seen[0].Choice, r.model.seen[1].Choice; a.Tool != "fs__read" || b != (model.Choice{}) {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// What the model reads stays within its window: one result is cut, and the oldest ones
// are left out.
func TestWindow(t *testing.T) {
	r := newRig(turns(calls("fs__read"), calls("fs__read"), calls("fs__read"), calls("fs__read"), says("done")))
	r.Settings.Context, r.Settings.MaxTokens = 5000, 500
	r.Settings.MaxTurns = 20
	r.tools.call = func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return text(strings.Repeat("ä", 5000)) }
	if o := r.do(t); o.Status != agents.Completed {
		t.Errorf("%+v", o)
	}
	if got := results(&r.model.seen[1])[0]; len(got) > 2100 || !strings.Contains(got, "bytes are here") {
		t.Errorf("a result of %d bytes", len(got))
	}
	r = newRig(func(n int, _ *model.Request) (*model.Turn, error) {
		if n < 15 {
			return calls("fs__read"), nil
		}
		return says("done"), nil
	})
	r.Settings.Context, r.Settings.MaxTokens, r.Settings.MaxTurns = 5000, 500, 20
	r.tools.call = func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return text(strings.Repeat("x", 5000)) }
	if o := r.do(t); o.Status != agents.Completed {
		t.Errorf("%+v", o)
	}
	last := results(&r.model.seen[15])
	if !strings.Contains(last[0], "left out") || strings.Contains(last[14], "left out") {
		t.Errorf("%q ... %q", last[0], last[14][:20])
	}
}

// The charge of each inference is what it has used, also beyond its reservation; where nobody
// knows, what was reserved.
func TestCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown, more, absurd := says("done"), calls("fs__read"), calls("fs__read")
		unknown.Usage = model.Usage{}
		more.Usage = model.Usage{Input: 90_000, Output: 10_000, Known: true}
		absurd.Usage = model.Usage{Input: 1 << 62, Output: 1 << 62, Known: true}
		r := newRig(func(n int, _ *model.Request) (*model.Turn, error) {
			switch n {
			case 0:
				return nil, model.Errorf(model.RateLimited, "busy") // nothing
			case 1:
				return calls("fs__read"), nil // 110
			case 2:
				return more, nil // 100,000
			case 3:
				return absurd, nil // everything
			}
			return unknown, nil // everything
		})
		p := newPurse(1 << 30)
		r.Budget = p
		o := r.do(t)
		all := int64(0)
		for _, s := range r.journal.steps {
			all += s.Input + s.Output
		}
		if len(p.reserved) != 0 || p.used() != all || o.Usage.Input+o.Usage.Output != all || all < 110+100_000+2*1000 || all > 110_000 || o.Usage.Cost != o.Usage.Input+2*o.Usage.Output {
			t.Errorf("%+v, %+v, steps %d", p, o, all)
		}
	})
}

// Many runs at once use a budget up to its last token, and not beyond.
func TestBudgetOfManyRuns(t *testing.T) {
	p := newPurse(60_000)
	ended := make(chan *agents.Outcome, 50)
	for i := range 50 {
		r := newRig(turns(calls("fs__read")))
		r.ID, r.Budget, r.Settings.MaxTurns = fmt.Sprint("run_", i), p, 100
		go func() {
			o, err := r.Do(t.Context())
			if err != nil {
				t.Error(err)
			}
			ended <- o
		}()
	}
	used := int64(0)
	for range 50 {
		o := <-ended
		if o.Limit != agents.LimitBudget && o.Limit != agents.LimitTurns {
			t.Errorf("%+v", o)
		}
		used += o.Usage.Input + o.Usage.Output
	}
	if used != p.used() || used > p.limit || len(p.reserved) != 0 {
		t.Errorf("%d used, %d charged of %d; %d open", used, p.used(), p.limit, len(p.reserved))
	}
}

// TestFastCalls: calls that end while others of their turn are still begun.
func TestFastCalls(t *testing.T) {
	names := make([]string, 64)
	for i := range names {
		names[i] = "fs__read"
	}
	for range 20 {
		if o := newRig(turns(calls(names...), calls(names...), says("done"))).do(t); o.Status != agents.Completed {
			t.Fatalf("%+v", o)
		}
	}
}

// TestDeadlineOfRun: what a run asks knows until when it may take.
func TestDeadlineOfRun(t *testing.T) {
	for name, tc := range map[string]struct{ caller, want time.Duration }{
		"its timeout":           {time.Hour, 10 * time.Minute},
		"that of who waits":     {time.Minute, time.Minute},
		"nobody else limits it": {0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.caller > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tc.caller)
					defer stop()
				}
				r := newRig(turns(says("42")))
				began := time.Now()
				r.Allowed = func(ctx context.Context) error {
					if by, ok := ctx.Deadline(); !ok || by.Sub(began) != tc.want {
						t.Errorf("the deadline is after %v, %v, want %v", by.Sub(began), ok, tc.want)
					}
					return nil
				}
				if o, err := r.Do(ctx); err != nil || o.Status != agents.Completed {
					t.Errorf("%+v, %v", o, err)
				}
			})
		})
	}
}
