package vectors_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/vectors"
)

// TestSlowQuery holds a search up for the deadline at most, and after some that took too
// long not at all. The words decide meanwhile.
func TestSlowQuery(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x := tools(20)
	view := x.View(everything)
	r.complete(t, x)
	stop := make(chan struct{})
	e.answers(func(http.ResponseWriter, []string) { <-stop })
	defer close(stop)
	for i := range vectors.MaxFailures {
		began := time.Now()
		if got := r.first(t, view, fmt.Sprintf("mail %d", i)); got != "s__t2" {
			t.Errorf("mail finds %q", got)
		}
		if took := time.Since(began); took < vectors.QueryTime/2 || took > 20*vectors.QueryTime {
			t.Errorf("the search took %v", took)
		}
	}
	testwait.Until(t, patience, "the problem", func() bool { return strings.Contains(r.Problem(), "longer than 300ms") })
	n, _ := e.asked()
	for i := range 100 {
		r.first(t, view, fmt.Sprintf("other %d", i))
	}
	if m, _ := e.asked(); m != n {
		t.Errorf("%d searches asked an endpoint that does not answer", m-n)
	}
}

// TestQueriesAreKept asks for a query once, and for another tenant again.
func TestQueriesAreKept(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x := tools(20)
	view := x.View(everything)
	r.complete(t, x)
	n, _ := e.asked()
	for range 10 {
		for _, tenant := range []string{"a", "b"} {
			if r.Advise(t.Context(), by(tenant), "photo", view) == nil {
				t.Error("no advice")
			}
		}
	}
	if m, _ := e.asked(); m != n+2 {
		t.Errorf("%d requests, want 2", m-n)
	}
	long := strings.Repeat("ä", 5000) + "\xff"
	r.Advise(t.Context(), by("a"), long, view)
	_, texts := e.asked()
	if last := texts[len(texts)-1]; len(last) > 2<<10 || strings.Contains(last, "\ufffd") {
		t.Errorf("a long query is sent with %d bytes", len(last))
	}
	none := x.View(func(int) bool { return false })
	if r.Advise(t.Context(), by("a"), "photo", none) != nil {
		t.Error("advice of nothing")
	}
}

// TestRefusedQueries has a caller ask what the endpoint does not take. Others go on.
func TestRefusedQueries(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity} {
		e := newEndpoint(t)
		r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
		x := tools(20)
		view := x.View(everything)
		r.complete(t, x)
		e.answers(func(w http.ResponseWriter, _ []string) { http.Error(w, "too long", status) })
		for i := range 2 * vectors.MaxFailures {
			if r.Advise(t.Context(), by("a"), fmt.Sprintf("long %d", i), view) != nil {
				t.Errorf("%d: advice without a vector", status)
			}
		}
		if p := r.Problem(); p != "" {
			t.Errorf("%d: problem: %s", status, p)
		}
		e.answers(nil)
		if r.Advise(t.Context(), by("b"), "photo", view) == nil {
			t.Errorf("%d: the queries of one caller keep another from being advised", status)
		}
	}
}

// TestQueriesOfOneCaller has a caller ask what the endpoint fails for, and nothing else
// fails. The queries of others get their vectors.
func TestQueriesOfOneCaller(t *testing.T) {
	stop := make(chan struct{})
	for name, answer := range map[string]func(w http.ResponseWriter, texts []string){
		"500":       func(w http.ResponseWriter, _ []string) { http.Error(w, "panic", http.StatusInternalServerError) },
		"403":       func(w http.ResponseWriter, _ []string) { http.Error(w, "filtered", http.StatusForbidden) },
		"malformed": func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, "{}") },
		"endless":   func(http.ResponseWriter, []string) { <-stop },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t)
			r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
			x := tools(20)
			view := x.View(everything)
			r.complete(t, x)
			e.answers(failing("poison", answer))
			if name == "endless" {
				t.Cleanup(func() { close(stop) })
			}
			var asking sync.WaitGroup
			for i := range 3 * vectors.MaxFailures {
				asking.Go(func() { r.Advise(t.Context(), by("mallory"), fmt.Sprintf("poison %d", i), view) })
			}
			if name != "endless" {
				asking.Wait()
			}
			// On a busy machine one query may take too long. An endpoint that is left alone is for longer.
			n := 0
			advised := func() bool {
				n++
				return r.Advise(t.Context(), by("alice"), fmt.Sprintf("photo %d", n), view) != nil
			}
			for range 3 {
				if !testwait.Within(vectors.RestTime/3, advised) {
					t.Error("the queries of one caller keep another from being advised")
				}
			}
			asking.Wait()
			if !testwait.Within(vectors.RestTime/3, func() bool { return advised() && r.Problem() == "" }) {
				t.Errorf("the endpoint is left alone, which works: %s", r.Problem())
			}
		})
	}
}

// TestSlotsOfOneCaller bounds how many queries of a caller are asked for at once.
func TestSlotsOfOneCaller(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x := tools(20)
	view := x.View(everything)
	r.complete(t, x)
	stop := make(chan struct{})
	var now, most atomic.Int32
	e.answers(failing("poison", func(http.ResponseWriter, []string) {
		most.Store(max(most.Load(), now.Add(1)))
		<-stop
		now.Add(-1)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for i := range 4 * vectors.MaxAsking {
		asking.Go(func() { r.Advise(ctx, by("mallory"), fmt.Sprintf("poison %d", i), view) })
	}
	testwait.Until(t, patience, "some queries", func() bool { return now.Load() == vectors.MaxAskingOf })
	if r.Advise(t.Context(), by("alice"), "photo", view) == nil {
		t.Error("one caller has all slots")
	}
	if most.Load() > vectors.MaxAskingOf {
		t.Errorf("%d queries at once", most.Load())
	}
	cancel()
	close(stop)
	asking.Wait()
}

// TestLongAnswer refuses an answer that is too long for its texts before reading it.
func TestLongAnswer(t *testing.T) {
	if _, err := vectors.Parse([]byte(`{"data":[`+strings.Repeat(`{},`, 1<<20)+`{}]}`), 1); err == nil || !strings.Contains(err.Error(), "bytes for 1 texts") {
		t.Error(err)
	}
}

// TestTwoWorlds compares catalogs that differ only in what the caller may not view: the
// boosts of what it may view are equal, bit by bit, in every order.
func TestTwoWorlds(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const dimensions = 64
	draw := func() []float32 {
		out := make([]float32, dimensions)
		for i := range out {
			out[i] = float32(r.NormFloat64()) + 0.5
		}
		return out
	}
	for round := range 10 {
		type one struct {
			name    string
			numbers []float32
			visible bool
		}
		var seen, both []one
		for i := range 5 + round*200 { // more than are compared exactly, and fewer
			seen = append(seen, one{fmt.Sprintf("s__seen%d", i), draw(), true})
		}
		both = append(both, seen...)
		for i := range r.IntN(1000) {
			both = append(both, one{fmt.Sprintf("s__hidden%d", i), draw(), false})
		}
		r.Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
		query := draw()
		said := func(world []one) map[string]float64 {
			items := make([]find.Item, len(world))
			for i, o := range world {
				items[i] = find.Item{Kind: mcp.Tool, Server: "s", Name: o.name, Hash: o.name}
			}
			x := find.Build(items, nil, nil)
			v := off(t)
			v.Put(x, func(i int) []float32 { return world[i].numbers })
			v.PutQuery("t", "query", query)
			view := x.View(func(i int) bool { return world[i].visible })
			boost, out := v.Advise(t.Context(), by("t"), "query", view), map[string]float64{}
			for i := range view.Visible() {
				out[x.Name(i)] = boost(i)
			}
			return out
		}
		if diff := cmp.Diff(said(seen), said(both)); diff != "" {
			t.Fatalf("what is hidden changes the boosts (-without +with):\n%.2000s", diff)
		}
	}
}

// TestMissingVector says of an item without a vector that nothing is known.
func TestMissingVector(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	r.complete(t, tools(20))
	e.answers(func(w http.ResponseWriter, texts []string) {
		if strings.HasPrefix(texts[0], "s\n") {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		embeds(300)(w, texts)
	})
	x := tools(20, "Polishes a bicycle")
	var boost func(int) float64
	testwait.Until(t, patience, "advice", func() bool {
		boost = r.Advise(t.Context(), by("t"), "photo", x.View(everything))
		return boost != nil
	})
	if known, unknown := boost(0), boost(3); !(known > 0) || !math.IsNaN(unknown) {
		t.Errorf("boosts %v and %v", known, unknown)
	}
}

// TestStoredForm is what comes back of a vector.
func TestStoredForm(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	worst := 0.0
	for range 200 {
		a, b := make([]float32, 1+r.IntN(1536)), []float32(nil)
		for i := range a {
			a[i] = float32(r.NormFloat64())
		}
		b = like(r, a, 0.7)
		one, err := vectors.Quantize(a)
		if err != nil {
			t.Fatal(err)
		}
		two, err := vectors.Quantize(b)
		if err != nil {
			t.Fatal(err)
		}
		back, err := vectors.Decode(one.Encode())
		if err != nil || back.Cosine(two) != one.Cosine(two) || !bytes.Equal(back.Encode(), one.Encode()) {
			t.Fatalf("another vector comes back: %v", err)
		}
		if len(a) >= 256 {
			worst = max(worst, math.Abs(one.Cosine(two)-cosine(a, b)))
		}
	}
	t.Logf("largest error of a cosine: %.4f", worst)
	if worst > 0.003 {
		t.Errorf("a cosine is wrong by %v", worst)
	}
	for _, bad := range [][]byte{nil, {1}, {1, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 63, 1}, {1, 0, 0, 192, 127, 1}, {1, 0, 0, 128, 191, 1}, make([]byte, 5000)} {
		if _, err := vectors.Decode(bad); err == nil {
			t.Errorf("% x is a vector", bad[:min(len(bad), 8)])
		}
	}
}

// TestRetryAfter reads both forms of the header.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "4000000000": 10 * time.Minute, "99999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := vectors.RetryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// FuzzParse reads any answer without a panic, and what it takes is whole.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"data":[{"embedding":[1,2]}]}`, `{"data":[{"index":0,"embedding":[1e38,-1e38]}]}`, `{"data":[{"index":-1,"embedding":[1]}]}`,
		`{"data":[{"embedding":[1e-45]}]}`, `{"data":null}`, `[]`, `{"data":[{"embedding":[null]}]}`,
	} {
		f.Add([]byte(seed), 1)
	}
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		n = 1 + (n&0xff)%vectors.MaxBatch
		got, err := vectors.Parse(body, n)
		if err != nil {
			return
		}
		if len(got) != n {
			t.Fatalf("%d vectors for %d texts", len(got), n)
		}
		for _, v := range got {
			if c := v.Cosine(v); !(c > 0.9 && c < 1.1) {
				t.Errorf("a vector has the length %v", math.Sqrt(c))
			}
			if _, err := vectors.Decode(v.Encode()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAside ranks for nobody with what is at hand. It asks for no query, and leaves the
// vectors of the index that is searched in place.
func TestAside(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x, old := tools(20), tools(20)
	view, before := x.View(everything), old.View(everything)
	r.complete(t, x)
	aside := find.Aside(t.Context())
	n, _ := e.asked()
	if r.Advise(aside, by("t"), "photo", view) != nil {
		t.Error("advice without a vector")
	}
	if m, _ := e.asked(); m != n {
		t.Error("the endpoint is asked for a ranking that nobody sees")
	}
	r.Advise(t.Context(), by("t"), "photo", view)
	if boost := r.Advise(aside, by("t"), "photo", before); boost == nil || !(boost(0) > 0) {
		t.Error("no advice of what is known")
	}
	if !r.Searches(x) {
		t.Error("the vectors of the index that is searched are replaced")
	}
}
