//go:build !windows

package placed

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/shared"
	"github.com/toolgate/toolgate/upstream/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peers are two gateways: a, which is this one, and b, which runs nothing for others. The server
// belongs to one of them.
type peers struct {
	mu      sync.Mutex
	at      string
	starts  bool          // b would run servers, and cannot start them
	unknown chan struct{} // until it is closed the others are not known; nil if they are
}

func (*peers) Self() string          { return "a" }
func (*peers) Suspected(string) bool { return false }
func (*peers) Draining() bool        { return false }

// known is closed.
var known = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Known implements Peers.
func (p *peers) Known() <-chan struct{} {
	if p.unknown != nil {
		return p.unknown
	}
	return known
}

// Place implements Peers.
func (p *peers) Place(_ string, _ int, out func(string) bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out != nil && out(p.at) {
		return "a"
	}
	return p.at
}

// Open implements Peers.
func (p *peers) Open(_ context.Context, _, _ string, query url.Values) (*cluster.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.starts && query.Get(look) != "":
		return nil, &cluster.RefusedError{Status: http.StatusAccepted, Text: "would run the server"}
	case p.starts:
		return nil, &cluster.RefusedError{Status: http.StatusBadGateway, Text: "no such program"}
	}
	return nil, &cluster.RefusedError{Status: http.StatusNotFound, Text: "has no such server"}
}

// free has all claims.
type free struct{}

func (free) Claim(context.Context, string) error   { return nil }
func (free) Release(context.Context, string) error { return nil }

func newPlaces() (*Places, *peers, *transport.Options) {
	log, at := slog.New(slog.DiscardHandler), &peers{at: "b"}
	p := New(log, free{}, func() {})
	p.Among(at)
	return p, at, &transport.Options{Command: "/bin/cat", Log: log, Limits: transport.Limits{Line: 1000, Depth: 9, Result: 1000, Events: 4}}
}

// A server whose place does not take it stays where it is until the gateways change.
func TestStays(t *testing.T) {
	p, at, o := newPlaces()
	pl := p.Server(0, true)
	defer pl.Offer("s", o)()
	l, err := pl.Dial(t.Context(), "s", o, func(mcp.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	told := func() bool {
		p.Told()
		select {
		case <-l.(transport.Moving).Moved():
			return true
		default:
			return false
		}
	}
	told() // it does not run where it belongs
	for range 3 {
		if told() {
			t.Error("it is told to move again at once, and nothing has changed")
		}
	}
	set := func(to string) {
		at.mu.Lock()
		at.at = to
		at.mu.Unlock()
	}
	if set("a"); told() {
		t.Error("it is told to move to where it is")
	}
	if set("b"); !told() {
		t.Error("it is not told to move")
	}
	link := l.(transport.Moving)
	if link.Takes(t.Context()) {
		t.Error("a gateway takes a server that it refuses")
	}
	if !link.Leaving() {
		t.Error("it is told to move, and is not about to")
	}
	if link.Stays(); link.Leaving() || told() {
		t.Error("it stays, and is about to move")
	}
	if p.Offered(); !link.Leaving() || len(link.Moved()) != 1 {
		t.Error("another gateway runs more than before, and it is not told to move there")
	}
	if link.Stays(); !link.Leaving() {
		t.Error("it was told while it found out that it stays, and is not about to move")
	}
}

// set has the server belong to a gateway.
func (p *peers) set(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = to
}

// told tells whether a link was told to move.
func told(l transport.Link) bool {
	select {
	case <-l.(transport.Moving).Moved():
		return true
	default:
		return false
	}
}

// Where a server that must not run twice cannot start, its process at another gateway ends in
// vain for a move. That happens ever more rarely, whatever the others announce, until it belongs
// elsewhere.
func TestEndsInVain(t *testing.T) {
	p, at, o := newPlaces()
	at.starts = true
	pl := p.Server(0, true)
	defer pl.Offer("s", o)()
	dial := func() transport.Link { return dialed(t, pl, o) }
	l := dial()
	ends := 0
	for range 30 * 60 { // seconds
		age(p, pl, time.Second)
		p.Told()
		p.Offered()
		if !told(l) {
			if l.(transport.Moving).Leaving() {
				t.Fatal("it is about to move where it cannot start")
			}
			continue
		}
		if !l.(transport.Moving).Takes(t.Context()) {
			t.Fatal("b does not take it")
		}
		l.Close(t.Context())
		l = dial()
		ends++
	}
	if ends < 5 || ends > 10 { // 2, 8, 32 and 128 seconds, then 5 minutes
		t.Errorf("it ended %d times in half an hour", ends)
	}
	at.set("a")
	p.Told()
	at.set("b")
	if p.Told(); !told(l) {
		t.Error("it belongs there anew, and is not told to move")
	}
	l.Close(t.Context())
}

// age lets time go by for a server: a process is not of the time of a bubble.
func age(p *Places, pl transport.Placed, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := &pl.(*placement).moves; !m.again.IsZero() {
		m.again = m.again.Add(-by)
	}
}

// dialed is a link to a server at the place that it belongs to.
func dialed(t *testing.T, pl transport.Placed, o *transport.Options) transport.Link {
	t.Helper()
	l, err := pl.Dial(t.Context(), "s", o, func(mcp.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// far is a link to another gateway.
type far struct{ transport.Link }

func (far) Close(context.Context) {}

// A link that has moved stays open until its last call has ended. However long that takes, it does
// not delay the next move.
func TestLongCallDelaysNoMove(t *testing.T) {
	p, _, o := newPlaces()
	pl := p.Server(0, false)
	defer pl.Offer("s", o)()
	dial := func() transport.Link { return dialed(t, pl, o) }
	retired := dial() // at a
	if p.Told(); !told(retired) {
		t.Fatal("it is not told to move")
	}
	var own transport.Link = p.keep(&link{by: pl.(*placement), server: "s", at: "b", Link: far{}, moved: make(chan struct{}, 1)})
	for range 30 * 60 {
		age(p, pl, time.Second)
		if p.Told(); told(own) || own.(transport.Moving).Leaving() {
			t.Fatal("it is where it belongs, and is told to move")
		}
	}
	own.Close(t.Context())
	own = dial() // at a, because b is passed over
	age(p, pl, firstWait)
	if p.Told(); !told(own) {
		t.Errorf("it is told to move in %v", time.Until(pl.(*placement).moves.again))
	}
	own.Close(t.Context())
	retired.Close(t.Context())
}

// A server that belonged elsewhere for a moment is not started anew where it is.
func TestTakesWhereItIs(t *testing.T) {
	p, at, o := newPlaces()
	at.set("a")
	pl := p.Server(0, true)
	defer pl.Offer("s", o)()
	l, err := pl.Dial(t.Context(), "s", o, func(mcp.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	at.set("b")
	p.Told()
	at.set("a")
	if !told(l) || l.(transport.Moving).Takes(t.Context()) {
		t.Error("it ends to move to where it is")
	}
}

// A link that was opened while its place was passed over is about to move until that was tried.
func TestPassedOverIsLeaving(t *testing.T) {
	for _, once := range []bool{false, true} {
		p, _, o := newPlaces()
		pl := p.Server(0, once)
		withdraw := pl.Offer("s", o)
		l, err := pl.Dial(t.Context(), "s", o, func(mcp.Message) {})
		if err != nil {
			t.Fatal(err)
		}
		link := l.(transport.Moving)
		if !link.Leaving() {
			t.Error("it belongs elsewhere, and is not about to move")
		}
		if p.Told(); !told(l) || !link.Leaving() {
			t.Error("it is not told to move")
		}
		if link.Stays(); link.Leaving() {
			t.Error("it stays, and is about to move")
		}
		l.Close(t.Context())
		withdraw()
	}
}

// A gateway that does not know the others yet runs nothing: it may belong to them.
func TestDialAwaitsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, at, o := newPlaces()
		at.at = "a"
		at.unknown = make(chan struct{})
		pl := p.Server(0, false)
		defer pl.Offer("s", o)()
		opened := make(chan transport.Link)
		dial := func(ctx context.Context) {
			l, err := pl.Dial(ctx, "s", o, func(mcp.Message) {})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			opened <- l
		}
		ctx, end := context.WithCancel(t.Context())
		go dial(ctx)
		if end(); <-opened != nil {
			t.Error("it is opened")
		}
		go dial(t.Context())
		synctest.Wait()
		select {
		case <-opened:
			t.Fatal("it is opened before the others are known")
		default:
		}
		close(at.unknown)
		(<-opened).Close(t.Context())
	})
}

// What a gateway offers is announced, once for all that is offered in a row.
func TestOffersAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := New(slog.New(slog.DiscardHandler), free{}, func() { n++ })
		_, _, o := newPlaces()
		pl := p.Server(0, false)
		for _, name := range []string{"s", "t", "u"} {
			defer pl.Offer(name, o)()
		}
		ctx, end := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { p.Run(ctx); close(over) }()
		synctest.Wait()
		end()
		<-over
		if n != 1 {
			t.Errorf("announced %d times", n)
		}
	})
}

// debts are claims that cannot be released as long as the store is away.
type debts struct {
	free
	away  atomic.Bool
	asked atomic.Int64
}

func (d *debts) Release(context.Context, string) error {
	d.asked.Add(1)
	if d.away.Load() {
		return errors.New("the store is away")
	}
	return nil
}

// What could not be released is released by Run when the gateways are read, and nothing is asked
// of the store while nothing is owed.
func TestReleasedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &debts{}
		p, at, o := newPlaces()
		p.host = shared.NewHost(d)
		ctx, end := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { p.Run(ctx); close(over) }()
		told := func() int64 {
			before := d.asked.Load()
			p.Told()
			synctest.Wait()
			return d.asked.Load() - before
		}
		if n := told(); n != 0 {
			t.Errorf("nothing is owed, and the store is asked %d times", n)
		}
		at.at = "a"
		pl := p.Server(0, true)
		o.Command = filepath.Join(t.TempDir(), "missing") // it is claimed, cannot start, and is released
		defer pl.Offer("s", o)()
		d.away.Store(true)
		if _, err := pl.Dial(t.Context(), "s", o, func(mcp.Message) {}); err == nil {
			t.Fatal("a missing program runs")
		}
		if n := told(); n != 1 || !p.host.Owes() {
			t.Errorf("it is asked %d times, owes %t", n, p.host.Owes())
		}
		d.away.Store(false)
		if n := told(); n != 1 || p.host.Owes() {
			t.Errorf("it is asked %d times, owes %t", n, p.host.Owes())
		}
		if n := told(); n != 0 {
			t.Errorf("it was released, and is asked %d times", n)
		}
		end()
		<-over
	})
}

// A server that is offered again, as after a reload, is there for others once the first offer is
// withdrawn. One with another command is not.
func TestOfferedAgain(t *testing.T) {
	p, _, o := newPlaces()
	pl := p.Server(0, false)
	old := pl.Offer("s", o)
	defer pl.Offer("s", o)()
	old()
	var refused *cluster.RefusedError
	serve := func(fingerprint string) error {
		return p.Serve(t.Context(), "b", "s", url.Values{asked: {fingerprint}}, http.NoBody, func() *cluster.Far { return &cluster.Far{ResponseWriter: nowhere{}} })
	}
	if err := serve(fingerprint(o)); errors.As(err, &refused) {
		t.Errorf("offered and yet: %v", err)
	}
	other := *o
	other.Args = []string{"x"}
	if err := serve(fingerprint(&other)); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("another command: %v", err)
	}
}

// nowhere takes an answer.
type nowhere struct{ io.Writer }

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
