//go:build !windows

package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/testwait"
)

// shared returns what one gateway has of a server that gateways share.
func shared(t *testing.T, s *redistest.Server) *Shared {
	t.Helper()
	c, err := redis.New(s.Address(), redis.Timeouts{Rates: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &Shared{Meter: rate.NewMeter(rate.NewLocal(0), c.Rates(), nil), Rows: c.Rows()}
}

// row is a table of loops, which may be that of several gateways.
type row struct{ at []*Loops }

// begin begins a call at one of the gateways.
func (r row) begin(t *testing.T, at int, c Call) (end func(), wait time.Duration) {
	t.Helper()
	l := r.at[at%len(r.at)]
	looked := l.Look(t.Context(), c)
	end, wait = l.Begin(t.Context(), c, nil)
	if (looked > 0) != (end == nil) {
		t.Errorf("Look says to wait %v, Begin %v", looked, wait)
	}
	return end, wait
}

// loops are the tables that count the same: of one gateway, and of those that share.
func loops(t *testing.T, most int) map[string]row {
	t.Helper()
	gateways := func(n int, s *redistest.Server) row {
		var all row
		for range n {
			l := new(Loops)
			l.Apply(most)
			if s != nil {
				l.Share(shared(t, s))
			}
			all.at = append(all.at, l)
		}
		return all
	}
	return map[string]row{"one gateway": gateways(1, nil), "one gateway with Redis": gateways(1, redistest.Start(t)), "two gateways": gateways(2, redistest.Start(t))}
}

func same(who string, n byte) Call {
	return Call{Principal: who, Server: "s", Tool: "a", Args: [32]byte{n}}
}

// However calls begin and end at whichever gateway, two that share say what one alone says.
func TestLoopsAreCountedTogether(t *testing.T) {
	t.Parallel()
	const most = 3
	all := loops(t, most)
	random := rand.New(rand.NewPCG(1, 2))
	type running struct {
		call Call
		ends []func()
	}
	var open []running
	refused := 0
	for step := range 2000 {
		if n := len(open); n > 0 && random.IntN(2) == 0 {
			i := random.IntN(n)
			for _, end := range open[i].ends {
				end()
			}
			open = slices.Delete(open, i, i+1)
			continue
		}
		now, at := running{call: same(fmt.Sprint("p", random.IntN(2)), byte(random.IntN(6)/5))}, random.IntN(2)
		if slices.ContainsFunc(open, func(o running) bool { return o.call.Principal == now.call.Principal && o.call != now.call }) {
			continue // which row another call ends while some run is not the same at every gateway
		}
		for name, row := range all {
			if end, wait := row.begin(t, at, now.call); end != nil {
				now.ends = append(now.ends, end)
			} else if wait <= rate.RowHold/2 || wait > rate.RowHold {
				t.Errorf("%s is refused for %v", name, wait)
			}
		}
		switch len(now.ends) {
		case 0:
			refused++
		case len(all):
			open = append(open, now)
		default:
			t.Fatalf("step %d, %+v at gateway %d: %d of three tables let it pass", step, now.call, at, len(now.ends))
		}
	}
	if refused < 50 {
		t.Errorf("%d calls were refused; the test is about nothing", refused)
	}
}

// Many at once are no loop: whether they are is known when the first of them is counted.
func TestSharedCallsAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var at []*Loops
	for range 2 {
		l := new(Loops)
		l.Apply(3)
		l.Share(shared(t, s))
		at = append(at, l)
	}
	first, _ := at[0].Begin(t.Context(), same("p", 0), nil) // which runs until all have begun
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if end, _ := at[i%2].Begin(t.Context(), same("p", 0), nil); end == nil {
				t.Error("one of many at once was refused")
			}
		})
	}
	all.Wait()
	if first == nil || at[0].streaks["p"].count != 1 || at[1].streaks["p"].count != 1 {
		t.Errorf("counted %d and %d, want one", at[0].streaks["p"].count, at[1].streaks["p"].count)
	}
}

// A row ends in a pause and is refused for a minute by the clock of the server, and a
// gateway that is lost in a call stands for one that runs no longer than that.
func TestSharedRowsEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rows, other := shared(t, s).Rows, shared(t, s).Rows
	c := same("p", 0)
	begin := func(r rate.Rows, want int) {
		t.Helper()
		if count, wait, err := r.Begin(t.Context(), c.row(), 2, nil); err != nil || count != want {
			t.Fatalf("counted %d, to wait %v, %v; want %d", count, wait, err, want)
		}
	}
	end := func(r rate.Rows) {
		t.Helper()
		if err := r.End(t.Context(), c.row()); err != nil {
			t.Fatal(err)
		}
	}
	later := func(d time.Duration) { // everything in the row was so much earlier
		t.Helper()
		key := s.Keys(t)[0]
		s.Do(t, fmt.Sprintf(`EVAL "for i,f in ipairs(redis.call('HKEYS',KEYS[1])) do if f=='ended' or f:sub(1,1)=='@' then redis.call('HINCRBY',KEYS[1],f,-%d) end end" 1 %s`, d.Microseconds(), key))
	}
	begin(rows, 1)
	end(rows)
	later(rate.RowPause - 2*time.Second)
	begin(other, 2)
	end(other)
	begin(rows, -1)
	later(rate.RowHold - 20*time.Second)
	begin(rows, -1)
	later(20 * time.Second)
	begin(rows, 1)
	end(rows)
	later(rate.RowPause)
	begin(rows, 1) // of a new row
	begin(other, 1)
	later(rate.RowLease)
	begin(other, 1) // the first one has not said that it has ended
	if keys := s.Keys(t); len(keys) != 1 || s.Do(t, "PTTL "+keys[0]) == ":-1" {
		t.Errorf("%q, of which one lasts for ever", keys)
	}
}

// While the server is away each gateway goes on with what both have counted, and counts
// with the other again when it is back.
func TestLoopsOutliveTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	both := row{}
	for range 2 {
		l := new(Loops)
		l.Apply(10)
		l.Share(shared(t, s))
		both.at = append(both.at, l)
	}
	passed := func(at, n int) (passed int) {
		for range n {
			l := both.at[at]
			if end, _ := l.Begin(t.Context(), same("p", 0), nil); end != nil {
				passed++
				end()
			}
		}
		return passed
	}
	if got := passed(0, 3) + passed(1, 3); got != 6 {
		t.Fatalf("%d of 6 passed", got)
	}
	s.Kill(t)
	if got := passed(1, 20); got != 4 {
		t.Errorf("%d passed at the gateway that knew of 6, want 4", got)
	}
	if got := passed(0, 20); got != 7 {
		t.Errorf("%d passed at the gateway that knew of 3, want 7", got)
	}
	s.Restart(t)
	tries := 0
	testwait.Until(t, time.Minute, "the server is asked again", func() bool {
		tries++
		if end, _ := both.at[0].Begin(t.Context(), same(fmt.Sprint("q", tries), 0), nil); end != nil {
			end()
		}
		return !both.at[0].shared.Meter.Down()
	})
}

// Failed authentications at one gateway count at the other, and those at the other that
// nobody has counted yet are refused. Who is known is not refused, and asks nobody.
func TestFailuresAreCountedTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var at []*Failures
	var of []*Requests
	for range 2 {
		l := NewRequests(slog.New(slog.DiscardHandler), func(string) {})
		l.Share(shared(t, s))
		l.Apply(Rates{AuthFailures: 20})
		of, at = append(of, l), append(at, NewFailures(l))
	}
	with := func(credential string) *http.Request {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", credential)
		t.Cleanup(cancel)
		return r
	}
	if r := with("good"); at[1].Refused(r, "a") == nil {
		at[1].Note(r, "a", nil)
	}
	tried := func() (verified int) {
		for i := range 60 {
			r := with(fmt.Sprint("bad", i))
			if at[i%2].Refused(r, "a") != nil {
				continue
			}
			verified++
			ctx, leave := context.WithCancel(r.Context())
			leave() // as who does not wait for the answer
			at[i%2].Note(r.WithContext(ctx), "a", gate.ErrBadCredential)
		}
		return verified
	}
	if got := tried(); got < 20 || got > 21 { // one flows back in three seconds
		t.Errorf("%d were verified, want 20", got)
	}
	if over, _ := of[1].local.Wait(rate.Token{Bucket: string(AuthFailures), Key: "a", Rate: rate.Rate{Limit: 20, Window: time.Minute}}); over >= 0 {
		t.Error("the other gateway alone has seen too many: the test is about nothing")
	}
	if err := at[1].Refused(with("good"), "a"); err != nil {
		t.Errorf("who is known: %v", err)
	}
	if err := at[1].Refused(with("bad"), "b"); err != nil {
		t.Errorf("another address: %v", err)
	}
	s.Kill(t)
	at[0].Note(with("bad"), "c", gate.ErrBadCredential) // finds out
	if got := tried(); got == 0 || got > 22 {
		t.Errorf("%d were verified while the server is away, want what the gateways have left of their own", got)
	}
	if err := at[0].Refused(with("bad"), "a"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("too many for one gateway alone: %v", err)
	}
}
