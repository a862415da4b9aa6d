package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/upstream/transport"
)

// pausing is a logger that stops whoever logs a message first until it may go on.
type pausing struct {
	slog.Handler
	at            string
	reached, goOn chan struct{}
	once          *sync.Once
}

func (p pausing) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Message == p.at {
		p.once.Do(func() {
			close(p.reached)
			<-p.goOn
		})
	}
	return p.Handler.Handle(ctx, rec)
}

func (p pausing) WithAttrs(attrs []slog.Attr) slog.Handler {
	p.Handler = p.Handler.WithAttrs(attrs)
	return p
}

// If a reading of the lists without capabilities is due while one for a lost connection
// goes on, it is done afterwards.
func TestListsWithoutCapabilitiesOfTheNextConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	varying := f.on[mcp.MethodInitialize]
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		x.forget() // all others
		varying(x)
	})
	pause := pausing{
		at:      "the lists for clients without capabilities are not read",
		reached: make(chan struct{}), goOn: make(chan struct{}), once: new(sync.Once),
	}
	r := run(t, f.withoutSpec(), func(o *Options) {
		pause.Handler = o.Logger.Handler()
		o.Logger = slog.New(pause)
	})
	var goOn sync.Once
	goes := func() { goOn.Do(func() { close(pause.goOn) }) }
	t.Cleanup(goes)
	receives(t, "the end of the session that the lists were read in", pause.reached)
	lists := func() (n int) {
		for _, s := range f.requests(mcp.MethodToolsList) {
			if s.Header.Get(mcp.HeaderSession) == "s-3" { // the next one of the gateway's own
				n++
			}
		}
		return n
	}
	testwait.Until(t, patience, "the lists of the next session", func() bool { return lists() == 1 })
	signal(r.refetch)
	testwait.Until(t, patience, "the lists to be read again", func() bool { return lists() == 2 })
	testwait.Until(t, patience, "the look to be due", func() bool {
		r.catalog.mu.Lock()
		defer r.catalog.mu.Unlock()
		return r.catalog.without.busy && r.catalog.without.due
	})
	goes()
	testwait.Until(t, patience, "the end of the looks", func() bool { return r.log.count("ends a session when another begins") == 1 })
	r.state(mcp.Ready)
}

// A session for these lists that the server has forgotten is replaced at once.
func TestForgottenSessionWithoutCapabilities(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	r := run(t, f.withoutSpec())
	r.bothListed("echo confirm", "echo fallback")
	r.looked()
	f.mu.Lock()
	delete(f.sessions, "s-2")
	f.list = []string{"echo", "more"}
	f.mu.Unlock()
	signal(r.refetch)
	r.bothListed("echo more confirm", "echo more fallback")
}

// It counts as a lost session when the server ends one because another began, whoever
// noticed it first.
func TestWhoHasFoundOutThatASessionIsLost(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.spec()) // which looks at nothing by itself
	r.state(mcp.Ready)
	main := r.own()
	main.link.Fail(fmt.Errorf("tools/list: %w", transport.ErrSessionLost))
	closeConn(main)
	if err := r.sessionSurvives(main.life, main); !errors.Is(err, transport.ErrSessionLost) {
		t.Errorf("the session has outlived the other one: %v", err)
	}
	r.catalog.mu.Lock()
	defer r.catalog.mu.Unlock()
	if n := r.catalog.without.struck; n != 1 {
		t.Errorf("it counts %d times", n)
	}
}

// A reading that cannot begin because its connection is closed has ended.
func TestListsWithoutCapabilitiesOfAClosedConnection(t *testing.T) {
	t.Parallel()
	s := New(Spec{URL: "http://127.0.0.1:1/mcp", Local: "me", Without: WithoutAuto, Questions: everyQuestion}, Options{Logger: quietLog})
	conn, _, done := memoryConn(t, s.spec, mcp.Legacy)
	done()
	receives(t, "the end of the look", s.lookWithout(conn, &mcp.Listing{}, true))
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if w := &s.catalog.without; w.busy || w.reader != conn {
		t.Errorf("somebody looks: %t", w.busy)
	}
}
