package redis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/budget/redis"
	"github.com/toolgate/toolgate/budget/redis/redistest"
)

// One exchange counts a call in its row and takes from the rates: nothing for a call of a
// row that is full, and nothing but the count for one that a rate refuses.
func TestRowAndRatesTogether(t *testing.T) {
	t.Parallel()
	c := client(t, redistest.Start(t).Address())
	rates, rows := c.Rates(), c.Rows()
	m := rate.NewMeter(rate.NewLocal(0), rates, func(_ bool, err error) { t.Error("told:", err) })
	l := m.Limiter([]rate.Rule{
		{Name: "a", Rate: rate.Rate{Limit: 4, Window: time.Hour}},
		{Name: "b", Rate: rate.Rate{Limit: 4, Window: time.Hour, Kind: rate.Sliding}},
	})
	begin := func(caller string, wantCount, wantRefused int) {
		t.Helper()
		taking := l.Begin(&rate.Call{})
		tokens := len(taking.Shared())
		count, wait, err := rows.Begin(t.Context(), rate.RowCall{Caller: caller}, 2, taking)
		if err != nil || count != wantCount || tokens != 2 || count < 0 && wait <= 0 {
			t.Fatalf("counted %d with %d tokens, to wait %v, %v; want %d", count, tokens, wait, err, wantCount)
		}
		if count < 0 {
			if len(taking.Shared()) != tokens {
				t.Error("a call of a full row has taken")
			}
			taking.Cancel()
			return
		}
		if len(taking.Shared()) != 0 {
			t.Error("would take twice")
		}
		err = taking.End(t.Context())
		refusal, refused := errors.AsType[*rate.Refusal](err)
		if (wantRefused >= 0) != refused || err != nil && !refused || refused && (refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Hour) {
			t.Fatalf("ended with %v; want rule %d to refuse", err, wantRefused)
		}
		if err := rows.End(t.Context(), rate.RowCall{Caller: caller}); err != nil {
			t.Fatal(err)
		}
	}
	begin("p", 1, -1)
	begin("p", 2, -1)
	begin("p", -1, -1)
	begin("q", 1, -1)
	if err := l.Take(t.Context(), &rate.Call{}); err != nil { // the refused call took nothing here or there
		t.Fatal(err)
	}
	other := rate.NewMeter(rate.NewLocal(0), rates, nil).Limiter([]rate.Rule{{Name: "b", Rate: rate.Rate{Limit: 4, Window: time.Hour, Kind: rate.Sliding}}})
	taking := other.Begin(&rate.Call{})
	if count, _, err := rows.Begin(t.Context(), rate.RowCall{Caller: "r"}, 2, taking); err != nil || count != 1 {
		t.Fatalf("counted %d, %v", count, err)
	}
	if _, refused := errors.AsType[*rate.Refusal](taking.End(t.Context())); !refused {
		t.Error("a fifth call at another gateway was not refused")
	}
	if refused, _, err := rates.Wait(t.Context(), []rate.Token{hour("a", "", 4)}); err != nil || refused != 0 {
		t.Errorf("of four there are more than four: %d, %v", refused, err)
	}
}

// A key of another type in the place of a row or of a bucket fails its own questions alone.
func TestBrokenRow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := client(t, s.Address())
	rates, rows := c.Rates(), c.Rows()
	if _, _, err := rows.Begin(t.Context(), rate.RowCall{Caller: "p"}, 2, nil); err != nil {
		t.Fatal(err)
	}
	key := s.Keys(t)[0]
	s.Do(t, "DEL "+key)
	s.Do(t, "SET "+key+" x")
	if _, _, err := rows.Begin(t.Context(), rate.RowCall{Caller: "p"}, 2, nil); err == nil {
		t.Error("counted in what is no row")
	}
	for _, broken := range []bool{true, false} {
		if !broken {
			s.Do(t, "DEL "+key)
		}
		answers, err := redis.AskTogether(t.Context(), c, "p", hour("a", "k", 10))
		if err != nil || (answers[0] != nil) != broken || answers[1] != nil {
			t.Errorf("broken %v: %v, %v", broken, answers, err)
		}
	}
	if refused, _, err := rates.Take(t.Context(), []rate.Token{hour("a", "k", 3)}); err != nil || refused >= 0 {
		t.Errorf("the third: %d, %v", refused, err)
	}
}
