package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/placeholder"
)

// recorder is a caller that notes what is called and how much at once.
type recorder struct {
	answer func(ctx context.Context, call mcp.NestedCall) mcp.NestedAnswer

	mu           sync.Mutex
	calls        []string // in the order in which they began
	running, top int
}

func (r *recorder) Tools(context.Context, mcp.NestedAs) ([]mcp.NestedTool, error) { return nil, nil }

func (r *recorder) Call(ctx context.Context, _ mcp.NestedAs, call mcp.NestedCall) mcp.NestedAnswer {
	r.mu.Lock()
	r.calls = append(r.calls, call.Tool+" "+string(call.Args))
	r.running++
	r.top = max(r.top, r.running)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()
	return r.answer(ctx, call)
}

func structured(value string) mcp.NestedAnswer {
	return mcp.NestedAnswer{Delivered: true, Result: []byte(`{"content":[],"structuredContent":` + value + `}`)}
}

func textual(text string, failed bool) mcp.NestedAnswer {
	return mcp.NestedAnswer{Delivered: true, Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"isError":%v}`, mcp.Quote(text), failed)}
}

func planOf(t *testing.T, d Declaration) *Plan {
	t.Helper()
	p, problems := Compile(&d)
	if len(problems) > 0 {
		t.Fatal(Join(problems))
	}
	return p
}

func runOf(c mcp.NestedCaller, args string) *Run {
	values := make(placeholder.Values)
	for m := range mcp.Members([]byte(args)) {
		name, _ := mcp.Unquote(m.Key([]byte(args)))
		values[name] = m.Value.Of([]byte(args))
	}
	return &Run{Caller: c, Arguments: []byte(args), Values: values}
}

var anyInput = []byte(`{"type":"object","properties":{"repo":{"type":"string"},"state":{},"loud":{"type":"boolean"},"n":{}}}`)

// What is wired from arguments and answers reaches the calls as it is, and the answer.
func TestWiring(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps  []Settings
		answer string
		args   string
		calls  []string
		want   string
	}{
		"a value stays what it is": {
			steps: []Settings{{ID: "a", Call: "echo", With: []byte(`{"n":"{n}","text":"n is {n}, {{n}}","list":[1,"{state}"],"all":"{*}"}`)}},
			args:  `{"n":9007199254740993}`,
			calls: []string{`echo {"n":9007199254740993,"text":"n is 9007199254740993, {n}","list":[1],"all":{"n":9007199254740993}}`},
			want:  `{"n":9007199254740993,"text":"n is 9007199254740993, {n}","list":[1],"all":{"n":9007199254740993}}`,
		},
		"a part of an answer": {
			steps: []Settings{
				{ID: "a", Call: "echo", With: []byte(`{"items":[{"a/b":1},{"a/b":2}]}`)},
				{ID: "b", Call: "echo", With: []byte(`{"x":"{a/items/1/a~1b}","none":"{a/items/2}","not":"{a/items/01}"}`)},
			},
			calls: []string{`echo {"items":[{"a/b":1},{"a/b":2}]}`, `echo {"x":2}`},
			want:  `{"x":2}`,
		},
		"text that is JSON": {
			steps:  []Settings{{ID: "a", Call: "text"}, {ID: "b", Call: "echo", With: []byte(`{"x":"{a/total}"}`)}},
			answer: `"There are {b/x}."`, calls: []string{`text {}`, `echo {"x":3}`}, want: `"There are 3."`,
		},
		"an answer of parts": {
			steps:  []Settings{{ID: "a", Call: "text"}, {ID: "b", Call: "plain"}},
			answer: `{"total":"{a/total}","said":"{b}","none":"{a/none}"}`, calls: []string{`text {}`, `plain {}`}, want: `{"total":3,"said":"it is so"}`,
		},
		"a condition that does not hold": {
			steps: []Settings{
				{ID: "a", Call: "echo", If: []byte(`{"/loud":true}`)},
				{ID: "b", Call: "echo", With: []byte(`{"a":"{a}"}`)},
				{ID: "c", Call: "echo", ForEach: "/a/items", Max: 2},
			},
			answer: `{"b":"{b}","c":"{c}"}`, args: `{"loud":false}`, calls: []string{`echo {}`}, want: `{"b":{},"c":[]}`,
		},
		"elements that meet conditions": {
			steps: []Settings{
				{ID: "a", Call: "echo", With: []byte(`{"items":[{"n":1},{"n":2},{"n":3},{"m":4}]}`)},
				{ID: "b", Call: "echo", ForEach: "/a/items", Max: 4, Width: 1, With: []byte(`{"n":"{item/n}"}`), If: []byte(`{"/item/n":{"exclusiveMinimum":1},"/repo":"x"}`)},
			},
			args: `{"repo":"x"}`, calls: []string{`echo {"items":[{"n":1},{"n":2},{"n":3},{"m":4}]}`, `echo {"n":2}`, `echo {"n":3}`}, want: `[{"n":2},{"n":3}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Declaration{Steps: tc.steps, Input: anyInput}
			if tc.answer != "" {
				d.Answer = []byte(tc.answer)
			}
			r := &recorder{answer: func(_ context.Context, call mcp.NestedCall) mcp.NestedAnswer {
				switch call.Tool {
				case "text":
					return textual(` {"total":3} `, false)
				case "plain":
					return textual("it is so", false)
				}
				return structured(string(call.Args))
			}}
			args := tc.args
			if args == "" {
				args = "{}"
			}
			got, err := planOf(t, d).Run(t.Context(), runOf(r, args))
			if err != nil || string(got) != tc.want || !slices.Equal(r.calls, tc.calls) {
				t.Errorf("%s, %v, calls %q; want %s, %q", got, err, r.calls, tc.want, tc.calls)
			}
		})
	}
}

// numbers is the list of the first n numbers.
func numbers(n int) string {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	raw, _ := json.Marshal(all)
	return string(raw)
}

// Over 100 elements with a width of 10, one failing call ends the run, is left out, or
// stays in its place.
func TestFanOut(t *testing.T) {
	t.Parallel()
	for onError, want := range map[string]struct {
		kept   int
		at42   string
		failed bool
	}{
		"":         {failed: true},
		"fail":     {failed: true},
		"skip":     {kept: 99, at42: `{"n":43}`},
		"continue": {kept: 100, at42: `{"error":"no issue 42"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			plan := planOf(t, Declaration{Input: anyInput, Steps: []Settings{
				{ID: "issues", Call: "list"},
				{ID: "details", Call: "get", ForEach: "/issues", Max: 100, Width: 10, With: []byte(`{"n":"{item}"}`), OnError: onError},
			}})
			r := &recorder{answer: func(ctx context.Context, call mcp.NestedCall) mcp.NestedAnswer {
				if call.Tool == "list" {
					return textual(numbers(100), false)
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return mcp.NestedAnswer{Delivered: true, Fault: mcp.Errorf(mcp.CodeInternal, "cancelled")}
				}
				if string(call.Args) == `{"n":42}` {
					return textual("no issue 42", true)
				}
				return structured(string(call.Args))
			}}
			last := Progress{}
			run, began := runOf(r, "{}"), time.Now()
			run.Progress = func(p Progress) {
				if p.Done != last.Done+1 {
					t.Errorf("%q: progress %d after %d", onError, p.Done, last.Done)
				}
				last = p
			}
			got, err := plan.Run(t.Context(), run)
			if r.top != 10 {
				t.Errorf("%q: %d at once", onError, r.top)
			}
			if want.failed {
				failed, ok := errors.AsType[*Failed](err)
				if !ok || failed.Step != "details" || failed.Item == nil || *failed.Item != 42 {
					t.Fatalf("%q: %s, %v", onError, got, err)
				}
				d := failed.Done[1]
				if len(failed.Done) != 2 || d.Errors != 1 || d.Calls+d.Unknown+1 != len(r.calls)-1 || d.Calls < 40 || len(r.calls) > 60 {
					t.Errorf("%q: %s after %d calls", onError, failed.JSON(), len(r.calls))
				}
				if !strings.HasPrefix(string(failed.JSON()), `{"failed":"details","item":42,"error":"no issue 42","done":[{"step":"issues","call":"list","calls":1},`) {
					t.Errorf("%q: %s", onError, failed.JSON())
				}
				return
			}
			var all []json.RawMessage
			if err != nil || json.Unmarshal(got, &all) != nil || len(all) != want.kept || string(all[42]) != want.at42 {
				t.Errorf("%q: %d answers, %v: %s", onError, len(all), err, got)
			}
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("%q: it took %s", onError, took)
			}
			if last.Done != 101 || last.Calls != 100 || last.Of != 100 || last.Step != "details" {
				t.Errorf("%q: the last progress is %+v", onError, last)
			}
		})
	}
}

// A run ends with its context at once, and says what was done and what is unknown.
func TestEndOfTime(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2500*time.Millisecond, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2500*time.Millisecond)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			plan := planOf(t, Declaration{Input: anyInput, Steps: []Settings{
				{ID: "a", Call: "get", ForEach: "/n", Max: 100, Width: 3, OnError: "continue"}, {ID: "b", Call: "get"},
			}})
			r := &recorder{answer: func(ctx context.Context, _ mcp.NestedCall) mcp.NestedAnswer {
				select {
				case <-time.After(time.Second):
					return structured("{}")
				case <-ctx.Done():
					return mcp.NestedAnswer{Delivered: true, Fault: mcp.Errorf(mcp.CodeInternal, "cancelled")}
				}
			}}
			ctx, cancel := end(t.Context())
			defer cancel()
			began := time.Now()
			_, err := plan.Run(ctx, runOf(r, `{"n":`+numbers(100)+`}`))
			failed, ok := errors.AsType[*Failed](err)
			if !ok || !errors.Is(err, ctx.Err()) || failed.Step != "a" || failed.Item != nil || failed.Done[0] != (Done{Step: "a", Call: "get", Calls: 6, Unknown: 3}) {
				t.Errorf("%s: %v, %s", name, err, failed.JSON())
			}
			if took := time.Since(began); took != 2500*time.Millisecond || len(r.calls) != 9 {
				t.Errorf("%s: %s, %d calls", name, took, len(r.calls))
			}
		})
	}
}

// Whatever the calls take, no more than width run at once, no element is called for twice,
// and the answers are in the order of the elements.
func TestWidthAndOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test is repeated by its seed
			n, width := rnd.IntN(60), 1+rnd.IntN(MaxWidth)
			onError := []string{"skip", "continue"}[rnd.IntN(2)]
			takes, fails := make([]time.Duration, n), make([]bool, n)
			for i := range takes {
				takes[i], fails[i] = time.Duration(rnd.IntN(5))*time.Second, rnd.IntN(4) == 0
			}
			plan := planOf(t, Declaration{Input: anyInput, Steps: []Settings{
				{ID: "a", Call: "get", ForEach: "/n", Max: 60, Width: width, OnError: onError, With: []byte(`{"n":"{item}"}`)},
			}})
			r := &recorder{answer: func(_ context.Context, call mcp.NestedCall) mcp.NestedAnswer {
				var in struct{ N int }
				if err := json.Unmarshal(call.Args, &in); err != nil {
					t.Error(err)
				}
				time.Sleep(takes[in.N])
				if fails[in.N] {
					return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInternal, "%d", in.N)}
				}
				return structured(fmt.Sprint(in.N))
			}}
			got, err := plan.Run(t.Context(), runOf(r, `{"n":`+numbers(n)+`}`))
			want := []string{}
			for i := range n {
				switch {
				case !fails[i]:
					want = append(want, fmt.Sprint(i))
				case onError == "continue":
					want = append(want, fmt.Sprintf(`{"error":"%d"}`, i))
				}
			}
			if err != nil || string(got) != "["+strings.Join(want, ",")+"]" {
				t.Errorf("seed %d: %s, %v; want %s", seed, got, err, want)
			}
			if r.top > width || len(r.calls) != n {
				t.Errorf("seed %d: %d of %d at once, %d calls for %d elements", seed, r.top, width, len(r.calls), n)
			}
		})
	}
}

// What a run cannot go on with ends it where it is, in words.
func TestFailures(t *testing.T) {
	t.Parallel()
	list := Settings{ID: "a", Call: "list"}
	for name, tc := range map[string]struct {
		steps  []Settings
		answer string
		max    int64
		want   string
		calls  int
	}{
		"no list":            {steps: []Settings{list, {ID: "b", Call: "get", ForEach: "/a/itmes", Max: 5}}, want: "The step b failed: for_each: there is no list at its place", calls: 1},
		"too many":           {steps: []Settings{list, {ID: "b", Call: "get", ForEach: "/a/items", Max: 2}}, want: "The step b failed: for_each: the list has more than 2 elements, which is its max", calls: 1},
		"no list, skipped":   {steps: []Settings{list, {ID: "b", Call: "get", ForEach: "/a/itmes", Max: 5, OnError: "skip"}}, calls: 1},
		"no text":            {steps: []Settings{list, {ID: "b", Call: "get", With: []byte(`{"x":"all of {a/items}"}`)}}, want: "The step b failed: The argument a/items must be a text, a number or true or false.", calls: 1},
		"refused":            {steps: []Settings{{ID: "b", Call: "refused"}}, want: "The step b failed: Not yours.", calls: 1},
		"nothing said":       {steps: []Settings{{ID: "b", Call: "silent"}}, want: "The step b failed: the tool failed and said nothing", calls: 1},
		"a task":             {steps: []Settings{{ID: "b", Call: "task"}}, want: "The step b failed: the call has no result yet", calls: 1},
		"too large together": {steps: []Settings{list, list2("b"), list2("c")}, max: 60, want: "The step c failed: the answers have more than 60 bytes together", calls: 3},
		"a result too large": {steps: []Settings{list}, answer: `["{a}","{a}","{a}"]`, max: 60, want: "The step answer failed: the result has more than 60 bytes", calls: 1},
		"an answer nowhere":  {steps: []Settings{list}, answer: `"/a/none"`, want: "The step answer failed: there is nothing at its place", calls: 1},
	} {
		r := &recorder{answer: func(_ context.Context, call mcp.NestedCall) mcp.NestedAnswer {
			switch call.Tool {
			case "list":
				return structured(`{"items":[1,2,3,4,5]}`)
			case "refused":
				return mcp.NestedAnswer{Fault: mcp.Errorf(mcp.CodeInvalidParams, "Not yours.")}
			case "silent":
				return mcp.NestedAnswer{Result: []byte(`{"content":[],"isError":true}`)}
			case "task":
				return mcp.NestedAnswer{Result: []byte(`{"task":{"taskId":"x"}}`)}
			}
			return structured(`{}`)
		}}
		d := Declaration{Steps: tc.steps, Input: anyInput, MaxBytes: tc.max}
		if tc.answer != "" {
			d.Answer = []byte(tc.answer)
		}
		got, err := planOf(t, d).Run(t.Context(), runOf(r, "{}"))
		if said := fmt.Sprint(err); tc.want != "" && said != tc.want || tc.want == "" && err != nil || len(r.calls) != tc.calls {
			t.Errorf("%s: %s, %v, %d calls", name, got, err, len(r.calls))
		}
	}
}

func list2(id string) Settings { return Settings{ID: id, Call: "list"} }

// A condition that would always hold is a mistake, wherever the keyword stands.
func TestConditionsThatAlwaysHold(t *testing.T) {
	t.Parallel()
	for raw, path := range map[string]string{
		`{"/n":{"login":"bob"}}`:                                "if /n login",
		`{"/n":{"minmum":100}}`:                                 "if /n minmum",
		`{"/n":{"format":"email"}}`:                             "if /n format",
		`{"/n":{}}`:                                             "if /n",
		`{"/n":{"$defs":{}}}`:                                   "if /n",
		`{"/n":{"then":{"const":1}}}`:                           "if /n then",
		`{"/n":{"not":{"requird":["a"]}}}`:                      "if /n not requird",
		`{"/n":{"allOf":[{"const":1},{"title":"b"}]}}`:          "if /n allOf 1 title",
		`{"/n":{"properties":{"a":{"format":"uri"}}}}`:          "if /n properties a format",
		`{"/n":{"properties":{"format":{"const":1}}}}`:          "",
		`{"/n":{"const":{"login":"bob"}}}`:                      "",
		`{"/n":{"contains":{},"minContains":2}}`:                "",
		`{"/n":{"if":{"minimum":1},"then":{"multipleOf":2}}}`:   "",
		`{"/n":{"$ref":"#/$defs/a","$defs":{"a":{"const":1}}}}`: "",
	} {
		_, problems := Compile(&Declaration{Steps: []Settings{{ID: "a", Call: "echo", If: []byte(raw)}}, Input: anyInput})
		got := ""
		for _, p := range problems {
			got += strings.Join(p.Path, " ")
		}
		if got != path {
			t.Errorf("%s: %q: %v", raw, got, Join(problems))
		}
	}
}

// A step whose condition does not hold looks at no list, and has no answer.
func TestConditionBeforeList(t *testing.T) {
	t.Parallel()
	p := planOf(t, Declaration{
		Steps: []Settings{
			{ID: "a", Call: "echo"},
			{ID: "b", Call: "echo", ForEach: "/a/items", Max: 1, If: []byte(`{"/loud":true}`)},
		},
		Answer: []byte(`{"b":"{b}"}`), Input: anyInput,
	})
	for _, answer := range []string{`{}`, `{"items":7}`, `{"items":[1,2]}`} {
		c := &recorder{answer: func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return structured(answer) }}
		got, err := p.Run(t.Context(), runOf(c, `{"loud":false}`))
		if err != nil || string(got) != `{}` || len(c.calls) != 1 {
			t.Errorf("%s: %s, %v, %v", answer, got, err, c.calls)
		}
	}
}

// What is kept of an answer does not keep the rest of the result.
func TestValueIsItsOwn(t *testing.T) {
	t.Parallel()
	a := structured(`{"a":1}`)
	value, _ := valueOf(&a)
	clear(a.Result)
	if string(value) != `{"a":1}` || cap(value) > 64 {
		t.Errorf("%s, %d bytes", value, cap(value))
	}
}
