package rate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
)

func token(bucket, key string, limit int64, window time.Duration) rate.Token {
	return rate.Token{Bucket: bucket, Key: key, Rate: rate.Rate{Limit: limit, Window: window}}
}

// A bucket gives its tokens at once, and then one whenever one has flowed back.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLocal(0)
		a := token("b", "k", 3, time.Minute)
		for i := range 3 {
			if refused, _ := l.Take(a); refused >= 0 {
				t.Fatalf("token %d was refused", i)
			}
		}
		refused, wait := l.Take(a)
		if refused != 0 || wait != 20*time.Second {
			t.Fatalf("refused %d for %v, want 0 for 20s", refused, wait)
		}
		time.Sleep(wait - time.Microsecond)
		if refused, wait := l.Take(a); refused != 0 || wait != time.Microsecond {
			t.Errorf("a moment before: refused %d for %v", refused, wait)
		}
		time.Sleep(time.Microsecond)
		if refused, _ := l.Take(a); refused >= 0 {
			t.Error("refused when it was time")
		}
		time.Sleep(time.Hour)
		for i := range 3 {
			if refused, _ := l.Take(a); refused >= 0 {
				t.Errorf("token %d of a full bucket was refused", i)
			}
		}
		if refused, _ := l.Take(a); refused < 0 {
			t.Error("a bucket holds more than its limit")
		}
	})
}

// Nobody takes more in any time than a full bucket and what flows back meanwhile.
func TestNeverMoreThanTheRate(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		r := rate.Rate{Limit: 1 + random.Int64N(40), Window: time.Second + time.Duration(random.Int64N(int64(time.Minute)))}
		synctest.Test(t, func(t *testing.T) {
			l := rate.NewLocal(1 + random.IntN(4)) // few, so that buckets are shared and forgotten
			start := time.Now()
			taken := make(map[string][]time.Time)
			for range 600 {
				key := fmt.Sprint(random.IntN(8))
				if refused, _ := l.Take(rate.Token{Bucket: "b", Key: key, Rate: r}); refused < 0 {
					taken[key] = append(taken[key], time.Now())
				}
				time.Sleep(time.Duration(random.Int64N(int64(r.Window)/50 + 1)))
			}
			for key, times := range taken {
				for from := range times {
					for to := from; to < len(times); to++ {
						within := times[to].Sub(times[from])
						if n := int64(to - from + 1); n > r.Limit+int64(within/(r.Window/time.Duration(r.Limit)))+1 {
							t.Fatalf("seed %d, key %s: %d in %v with %+v, from %v", seed, key, n, within, r, times[from].Sub(start))
						}
					}
				}
			}
		})
	}
}

// All tokens of a call are taken or none, and the longest wait is returned.
func TestAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLocal(0)
		small, large, long := token("small", "k", 1, time.Minute), token("large", "k", 2, time.Minute), token("long", "k", 1, time.Hour)
		l.Take(small, large, long)
		if refused, wait := l.Take(large, small, long); refused != 2 || wait != time.Hour {
			t.Errorf("refused %d for %v, want the one of the hour", refused, wait)
		}
		if refused, _ := l.Take(large); refused >= 0 {
			t.Error("what was refused took something")
		}
		if refused, _ := l.Take(large); refused < 0 {
			t.Error("more was taken than there is")
		}
		l.Return(large)
		if refused, _ := l.Wait(large); refused >= 0 {
			t.Error("what was returned is not there")
		}
	})
}

// However many keys there are, the number of buckets is bounded, and a key that returns
// finds its usage.
func TestBoundedKeysNeverASecondBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLocal(100)
		for i := range 100 {
			l.Take(token("b", fmt.Sprint("old", i), 2, time.Minute))
		}
		victim := token("b", "victim", 2, time.Minute)
		l.Take(victim)
		l.Take(victim)
		for i := range 5000 {
			l.Take(token("b", fmt.Sprint("flood", i), 2, time.Minute))
			if refused, _ := l.Wait(victim); refused < 0 {
				t.Fatalf("after %d others there is a second burst", i)
			}
		}
		if n := l.Len(); n > 100 {
			t.Errorf("%d buckets are kept, want at most 100", n)
		}
		time.Sleep(time.Minute + time.Second)
		for range 3 { // full buckets make room for it
			l.Take(token("b", "another", 2, time.Minute))
		}
		if refused, _ := l.Take(victim); refused >= 0 {
			t.Error("refused after the flood has ended")
		}
	})
}

// A changed limit keeps the usage; a removed one is dropped.
func TestChangedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rate.NewMeter(rate.NewLocal(0), nil, nil)
		limiter := func(limit int64, name string) *rate.Limiter {
			return m.Limiter([]rate.Rule{{Name: name, Rate: rate.Rate{Limit: limit, Window: time.Hour}}})
		}
		l := limiter(4, "r")
		for range 4 {
			if err := l.Take(t.Context(), &rate.Call{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := limiter(100, "r").Take(t.Context(), &rate.Call{}); err == nil {
			t.Error("a changed limit began anew")
		}
		if err := limiter(1, "r").Take(t.Context(), &rate.Call{}); err == nil {
			t.Error("a smaller limit began anew")
		}
		time.Sleep(time.Hour + time.Second)
		if err := limiter(1, "r").Take(t.Context(), &rate.Call{}); err != nil {
			t.Errorf("what was owed to the old limit is owed for longer than the new window: %v", err)
		}
		short := m.Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 1, Window: time.Second}}}) // who owed an hour owes a second
		if short.Take(t.Context(), &rate.Call{}) == nil {
			t.Error("a shorter window began anew")
		}
		time.Sleep(time.Second)
		if err := short.Take(t.Context(), &rate.Call{}); err != nil {
			t.Errorf("more is owed than a full bucket: %v", err)
		}
		limiter(4, "other")
		if err := limiter(4, "r").Take(t.Context(), &rate.Call{}); err != nil {
			t.Errorf("a limit that was gone was remembered: %v", err)
		}
	})
}

func TestZeroRefuses(t *testing.T) {
	t.Parallel()
	var local rate.Local
	if refused, _ := local.Take(token("b", "k", 1, time.Minute)); refused < 0 {
		t.Error("the zero Local allows")
	}
	var limiter rate.Limiter
	if err := limiter.Take(t.Context(), &rate.Call{}); err == nil {
		t.Error("the zero Limiter allows")
	}
	if err := (*rate.Limiter)(nil).Take(t.Context(), &rate.Call{}); err == nil {
		t.Error("a nil Limiter allows")
	}
	if refused, _ := rate.NewLocal(0).Take(rate.Token{Bucket: "b"}); refused < 0 {
		t.Error("the zero Rate allows")
	}
	for _, r := range []rate.Rate{
		{Window: time.Minute},
		{Limit: -1, Window: time.Minute},
		{Limit: 1},
		{Limit: 1, Window: time.Millisecond},
		{Limit: rate.MaxLimit + 1, Window: time.Minute},
		{Limit: 1, Window: rate.MaxWindow + 1},
		{Limit: 1, Window: time.Minute, Kind: "other"},
		{Window: time.Minute, Kind: rate.Sliding},
		{Limit: -1, Window: time.Minute, Kind: rate.Sliding},
		{Limit: 1, Kind: rate.Sliding},
	} {
		if refused, _ := rate.NewLocal(0).Take(rate.Token{Bucket: "b", Rate: r}); refused < 0 || r.Valid() {
			t.Errorf("%+v allows", r)
		}
	}
}

func TestRulesCountApart(t *testing.T) {
	t.Parallel()
	alice := rate.Call{Principal: "alice", Tenant: "acme", Persona: "bot", Server: "gh", Kind: "tool", Original: "search", Exposed: "gh__search"}
	for _, tc := range []struct {
		name  string
		per   []rate.Dimension
		other func(*rate.Call)
		apart bool
	}{
		{"another principal", []rate.Dimension{rate.PerPrincipal}, func(c *rate.Call) { c.Principal = "bob" }, true},
		{"another tool, per principal", []rate.Dimension{rate.PerPrincipal}, func(c *rate.Call) { c.Original = "get" }, false},
		{"another tenant", []rate.Dimension{rate.PerTenant}, func(c *rate.Call) { c.Tenant = "umbrella" }, true},
		{"another principal, per tenant", []rate.Dimension{rate.PerTenant}, func(c *rate.Call) { c.Principal = "bob" }, false},
		{"the same persona of another tenant", []rate.Dimension{rate.PerPersona}, func(c *rate.Call) { c.Tenant = "umbrella" }, true},
		{"another persona", []rate.Dimension{rate.PerPersona}, func(c *rate.Call) { c.Persona = "dev" }, true},
		{"another server", []rate.Dimension{rate.PerServer}, func(c *rate.Call) { c.Server = "web" }, true},
		{"another tool of the server", []rate.Dimension{rate.PerServer}, func(c *rate.Call) { c.Original = "get" }, false},
		{"another tool", []rate.Dimension{rate.PerTool}, func(c *rate.Call) { c.Original = "get" }, true},
		{"a prompt of the name", []rate.Dimension{rate.PerTool}, func(c *rate.Call) { c.Kind = "prompt" }, true},
		{"another name of the tool", []rate.Dimension{rate.PerTool}, func(c *rate.Call) { c.Exposed = "x" }, false},
		{"another principal, per principal and tool", []rate.Dimension{rate.PerPrincipal, rate.PerTool}, func(c *rate.Call) { c.Principal = "bob" }, true},
		{"text moved from one part to the next", []rate.Dimension{rate.PerTenant, rate.PerServer}, func(c *rate.Call) { c.Tenant, c.Server = "acmeg", "h" }, true},
		{"anybody, of no dimension", nil, func(c *rate.Call) { *c = rate.Call{} }, false},
	} {
		l := rate.NewMeter(rate.NewLocal(0), nil, nil).Limiter([]rate.Rule{{Name: "r", Per: tc.per, Rate: rate.Rate{Limit: 1, Window: time.Hour}}})
		if err := l.Take(t.Context(), &alice); err != nil {
			t.Fatal(err)
		}
		other := alice
		tc.other(&other)
		if err := l.Take(t.Context(), &other); (err == nil) != tc.apart {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestLimiterIsExactUnderLoad(t *testing.T) {
	t.Parallel()
	l := rate.NewMeter(rate.NewLocal(0), nil, nil).Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 100, Window: 24 * time.Hour}}})
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if l.Take(t.Context(), &rate.Call{}) == nil {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if taken.Load() != 100 {
		t.Errorf("%d were let pass, want 100", taken.Load())
	}
}

func TestRefusalSaysWhy(t *testing.T) {
	t.Parallel()
	r := rate.Refusal{Rule: &rate.Rule{Per: []rate.Dimension{rate.PerPrincipal, rate.PerTool}, Rate: rate.Rate{Limit: 120, Window: 90 * time.Minute}}}
	if got, want := r.Error(), "the limit of 120 calls in 1h30m per principal and tool is used up"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Microsecond: "1ms", 999 * time.Millisecond: "999ms", time.Second: "1s", 1001 * time.Millisecond: "2s",
		10 * time.Second: "10s", time.Minute: "1m", 61 * time.Second: "1m1s", time.Hour: "1h", time.Hour + time.Second: "1h0m1s",
		150 * time.Minute: "2h30m", 48 * time.Hour: "2d", 10 * time.Hour: "10h", 20 * time.Minute: "20m",
	} {
		if got := rate.Words(d); got != want {
			t.Errorf("%v in words: %q, want %q", d, got, want)
		}
	}
}

// FuzzRate checks the arithmetic of all rates in range: the burst is exactly the limit,
// and rounding never exceeds the rate.
func FuzzRate(f *testing.F) {
	f.Add(int64(1), int64(time.Second))
	f.Add(int64(rate.MaxLimit), int64(time.Second))
	f.Add(int64(7), int64(rate.MaxWindow))
	f.Fuzz(func(t *testing.T, limit, window int64) {
		r := rate.Rate{Limit: limit, Window: time.Duration(window)}
		if !r.Valid() {
			return
		}
		if r.Interval() < 1 || r.Interval()*limit < r.Window.Microseconds() || r.Burst() != r.Interval()*limit {
			t.Errorf("%+v: interval %d, burst %d", r, r.Interval(), r.Burst())
		}
		if now := float64(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + r.Burst()); now+1 == now {
			t.Errorf("%+v is beyond what doubles hold exactly", r)
		}
	})
}

// remote is a shared store that fails on request.
type remote struct {
	err   error
	hang  bool
	asked int
	mine  *rate.Local
}

func (r *remote) Take(ctx context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	r.asked++
	if r.hang {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	if r.err != nil {
		return 0, 0, r.err
	}
	refused, wait = r.mine.Take(tokens...)
	return refused, wait, nil
}

func (r *remote) Wait(_ context.Context, tokens []rate.Token) (refused int, wait time.Duration, err error) {
	if r.err != nil {
		return 0, 0, r.err
	}
	refused, wait = r.mine.Wait(tokens...)
	return refused, wait, nil
}

// Look returns what Take would, without taking local or shared tokens.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, shared := range map[string]*remote{"shared": {mine: rate.NewLocal(0)}, "a store that fails": {err: errors.New("down")}} {
			m := rate.NewMeter(rate.NewLocal(0), shared, nil)
			l := m.Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 3, Window: time.Hour}}})
			for i := range 6 {
				for range 2 {
					if err := l.Look(t.Context(), &rate.Call{}); (err == nil) != (i < 3) {
						t.Errorf("%s: looked before call %d: %v", name, i, err)
					}
				}
				if err := l.Take(t.Context(), &rate.Call{}); (err == nil) != (i < 3) {
					t.Errorf("%s: call %d: %v", name, i, err)
				}
			}
		}
		// Tokens taken by another gateway count.
		shared := &remote{mine: rate.NewLocal(0)}
		rules := []rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 1, Window: time.Hour}}}
		if err := rate.NewMeter(rate.NewLocal(0), shared, nil).Limiter(rules).Take(t.Context(), &rate.Call{}); err != nil {
			t.Fatal(err)
		}
		if err := rate.NewMeter(rate.NewLocal(0), shared, nil).Limiter(rules).Look(t.Context(), &rate.Call{}); err == nil {
			t.Error("what is shared is not looked at")
		}
		var none *rate.Limiter
		if err := none.Look(t.Context(), &rate.Call{}); !errors.Is(err, rate.ErrNoLimiter) {
			t.Error(err)
		}
	})
}

// While the shared store fails, a gateway's own buckets count, which know earlier
// calls; the store is asked again once a second.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &remote{mine: rate.NewLocal(0)}
		var told []bool
		m := rate.NewMeter(rate.NewLocal(0), shared, func(up bool, _ error) { told = append(told, up) })
		l := m.Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 10, Window: 24 * time.Hour}}})
		taken := 0
		take := func(n int) {
			for range n {
				if l.Take(t.Context(), &rate.Call{}) == nil {
					taken++
				}
			}
		}
		take(4)
		shared.err = errors.New("gone")
		take(3)
		if shared.asked != 5 || !m.Down() {
			t.Errorf("asked %d times, want once after it failed", shared.asked)
		}
		time.Sleep(time.Second)
		take(1)
		if shared.asked != 6 {
			t.Errorf("asked %d times, want once more after a second", shared.asked)
		}
		shared.err = nil
		time.Sleep(time.Second)
		take(10)
		if taken != 10 || m.Down() || !slices.Equal(told, []bool{false, true}) {
			t.Errorf("%d let pass, want 10; down %v, told %v", taken, m.Down(), told)
		}
	})
}

// A refusal by the shared store costs no local tokens.
func TestSharedRefusalIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &remote{mine: rate.NewLocal(0)}
		l := rate.NewMeter(rate.NewLocal(0), shared, nil).Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 2, Window: time.Hour}}})
		all := rate.Token{Bucket: "r", Rate: rate.Rate{Limit: 2, Window: time.Hour}}
		shared.mine.Take(all) // by others
		shared.mine.Take(all)
		for range 20 {
			err := l.Take(t.Context(), &rate.Call{})
			if refusal, ok := errors.AsType[*rate.Refusal](err); !ok || refusal.RetryAfter != 30*time.Minute {
				t.Fatalf("%v, want a refusal for 30 minutes", err)
			}
		}
		shared.mine.Return(all, all)
		if err := l.Take(t.Context(), &rate.Call{}); err != nil {
			t.Error(err)
		}
	})
}

// A caller who leaves while the store is asked tells nothing about the store.
func TestLeavingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rate.NewMeter(rate.NewLocal(0), &remote{hang: true}, func(bool, error) { t.Error("told") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = m.Limiter([]rate.Rule{{Name: "r", Rate: rate.Rate{Limit: 2, Window: time.Hour}}}).Take(ctx, &rate.Call{})
		if m.Down() {
			t.Error("the store counts as down")
		}
	})
}
