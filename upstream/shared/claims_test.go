package shared

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// claims are those of one server, or of many, which are always free.
type claims struct {
	many bool

	mu         sync.Mutex
	held, down bool
	log        []string
	hanging    <-chan struct{} // nothing is answered before its end, or that of the context
}

// hang has the database answer nothing any more.
func (c *claims) hang(t *testing.T) {
	t.Helper()
	c.hanging = make(chan struct{})
}

func (c *claims) await(ctx context.Context) error {
	if c.hanging == nil {
		return nil
	}
	select {
	case <-c.hanging:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Claim implements Claims.
func (c *claims) Claim(ctx context.Context, _ string) error {
	if err := c.await(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held && !c.many {
		return errors.New("held")
	}
	c.held = true
	c.log = append(c.log, "claimed")
	return nil
}

// Release implements Claims.
func (c *claims) Release(ctx context.Context, _ string) error {
	if err := c.await(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errors.New("the database is down")
	}
	c.held = false
	c.log = append(c.log, "released")
	return nil
}

// What must not run twice is claimed before it starts and released after it has ended.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claims{held: true}
		p, _ := hosting(t, c, true)
		if _, err := p.Join(t.Context(), "s", true, func(mcp.Message) {}); err == nil || len(p.all) != 0 {
			t.Errorf("it runs although it is held elsewhere: %v", err)
		}
		c.held = false
		a := p.join(t)
		a.Close(t.Context())
		<-p.all[0].closed
		if want := []string{"claimed", "released"}; !slices.Equal(c.log, want) {
			t.Errorf("%v, want %v", c.log, want)
		}
	})
}

// A claim that could not be released is released later, unless the server runs here again.
func TestReleasedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claims{}
		p, _ := hosting(t, c, true)
		a := p.join(t)
		c.down = true
		a.Close(t.Context())
		if err := p.Settle(t.Context()); err == nil || !c.held {
			t.Errorf("released without a database: %v", err)
		}
		c.down = false
		if err := p.Settle(t.Context()); err != nil || c.held {
			t.Errorf("the claim is held still: %v", err)
		}
		p.join(t)
		if err := p.Settle(t.Context()); err != nil || !c.held {
			t.Errorf("what runs is released: %v", err)
		}
	})
}

// A gateway that is about to count as gone ends what must not run twice at once, although the
// database does not answer, and what is being started does not start.
func TestEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claims{many: true}
		p, _ := hosting(t, c, true)
		a := p.join(t)
		for _, server := range []string{"b", "c", "d", "e"} {
			defer p.Offer(server, &transport.Options{Limits: limits, Log: slog.New(slog.DiscardHandler)}, true)()
		}
		if _, err := p.Join(t.Context(), "b", true, func(mcp.Message) {}); err != nil {
			t.Fatal(err)
		}
		c.hang(t)
		for _, server := range []string{"c", "d", "e"} {
			go func() {
				if _, err := p.Join(t.Context(), server, true, func(mcp.Message) {}); err == nil {
					t.Errorf("%s starts", server)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		p.EndOnce()
		<-a.Done()
		for _, f := range p.all {
			<-f.closed
		}
		if d := time.Since(began); d > 0 || len(p.all) != 2 {
			t.Errorf("the %d processes ended after %v", len(p.all), d)
		}
		c.hanging = nil
		if err := p.Settle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A later offer of a server, as after a reload, starts its process when that of the one before
// has ended, and keeps the claim.
func TestOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claims{many: true}
		p, withdraw := hosting(t, c, true)
		p.join(t)
		defer p.Offer("s", &transport.Options{Limits: limits, Log: slog.New(slog.DiscardHandler)}, true)()
		joined := make(chan *Link)
		go func() {
			l, err := p.Join(t.Context(), "s", true, func(mcp.Message) {})
			if err != nil {
				t.Error(err)
			}
			joined <- l
		}()
		synctest.Wait()
		if len(p.all) != 1 {
			t.Errorf("%d processes run", len(p.all))
		}
		withdraw()
		l := <-joined
		<-p.all[0].closed
		if len(p.all) != 2 || !c.held || l.Cause() != nil {
			t.Errorf("%d processes, claimed %v, link lost because %v", len(p.all), c.held, l.Cause())
		}
		l.Close(t.Context())
		if c.held {
			t.Error("the claim is held still")
		}
	})
}

// Offers follow one another faster than a process ends, as after two reloads, or where a server
// is removed and added again. One process runs at a time, and a lost lease ends the one that does.
func TestOfferedInARow(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &claims{many: true}
			p, withdrawA := hosting(t, c, true)
			o := &transport.Options{Limits: limits, Log: slog.New(slog.DiscardHandler)}
			p.join(t)
			p.all[0].stays = make(chan struct{}) // the first process does not end yet
			a := make(chan struct{})
			if removed {
				go func() { withdrawA(); close(a) }()
				synctest.Wait()
			} else {
				p.Offer("s", o, true)() // came and went
			}
			withdrawC := p.Offer("s", o, true)
			joined := make(chan *Link)
			go func() {
				l, err := p.Join(t.Context(), "s", true, func(mcp.Message) {})
				if err != nil {
					t.Error(err)
				}
				joined <- l
			}()
			synctest.Wait()
			if len(p.all) != 1 {
				t.Fatalf("%d processes run", len(p.all))
			}
			close(p.all[0].stays)
			if removed {
				<-a
			} else {
				withdrawA()
			}
			l := <-joined
			if len(p.all) != 2 || !c.held || l.Cause() != nil {
				t.Errorf("%d processes, claimed %v, link lost because %v", len(p.all), c.held, l.Cause())
			}
			l.Close(t.Context())
			withdrawC()
			synctest.Wait()
			if len(p.offers) != 0 || c.held {
				t.Errorf("%d offers are left, claimed %v", len(p.offers), c.held)
			}
		})
	}
}

// Where a gateway leaves a process that must not run twice, it tells the others to leave, and the
// process ends, also if one of them does not.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claims{}
		p, _ := hosting(t, c, true)
		others := []*user{p.join(t), p.join(t)}
		own, err := p.Join(t.Context(), "s", false, func(mcp.Message) {})
		if err != nil {
			t.Fatal(err)
		}
		p.all[0].says(t, `{"jsonrpc":"2.0","method":"`+Leave+`"}`) // the process cannot say so
		own.Close(t.Context())
		for _, u := range others {
			is(t, "it is told", u.has(), `{"jsonrpc":"2.0","method":"`+Leave+`"}`)
		}
		others[0].Close(t.Context())
		back := p.join(t)  // it comes back meanwhile, as after a short break, and stays
		<-others[1].Done() // after leaveTime
		others[1].Close(t.Context())
		if err := back.Cause(); err != nil {
			t.Errorf("a link that was not told has ended: %v", err)
		}
		back.Close(t.Context())
		<-p.all[0].closed
		if c.held {
			t.Error("the claim is held still")
		}
	})
}
