package upstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/http1"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Sink receives what happens at a server outside of calls. Goroutines of the server call
// its methods, which must not block.
type Sink interface {
	// Changed tells that the listing or the status of a server has changed.
	Changed(server string)
	// Happened passes a notification that belongs to no call.
	Happened(mcp.Event)
}

// Options are what a [Server] needs besides its spec. All fields except Known, SignIn,
// Shown and Placed are required.
type Options struct {
	Sink       Sink
	Credential transport.Credential
	Logger     *slog.Logger
	// Identity is the clientInfo that the server sees, raw JSON.
	Identity []byte
	// SignIn lists one tool while somebody has to sign in and nothing else is known of the
	// server. Its call sends a person to the sign-in page.
	SignIn bool
	// Shown hides the secrets in a text that clients may read. Without it clients are not
	// told why a server fails.
	Shown func(string) string
	// Known is the last good listing. It is shown until the server confirms or replaces
	// it; nil if there is none.
	Known *mcp.Listing
	// Placed reaches the process of a stdio server that several gateways share; nil starts
	// one here. Only a server whose connection is shared may be placed.
	Placed transport.Placed
}

const (
	// retryMax bounds the wait between attempts over the network, processMax the wait
	// between starts of a process.
	retryMax   = 800 * time.Millisecond
	processMax = 30 * time.Second
	// loginRetry is the wait after a refused credential.
	loginRetry = 30 * time.Second
	// settle collects list changes that come together; settleMax is the limit for a server
	// that announces one after the other.
	settle    = 50 * time.Millisecond
	settleMax = 2 * time.Second
	// steady is how long something must work until its backoff starts again from the
	// beginning.
	steady = 5 * time.Second
	// renewMax is how many lost sessions in a row are renewed without a wait.
	renewMax = 2
	// reprobe bounds the probe whether a server that refuses its lists is still the same
	// server.
	reprobe = 5 * time.Second
	// eraMemory is how long a probed era is trusted.
	eraMemory = 24 * time.Hour
	// pollRarely is the interval at which the lists of a server that announces changes are
	// read in any case, pollOften that of other servers.
	pollRarely = time.Hour
	pollOften  = 5 * time.Minute
	// drainStep is how often a draining server checks whether it is idle.
	drainStep = 50 * time.Millisecond
	// closeTime bounds the closing of one connection.
	closeTime = 8 * time.Second
)

// Server is one configured server. The zero Server is not usable; see [New]. It is safe
// for concurrent use.
type Server struct {
	spec Spec
	hash string
	opts Options
	log  *slog.Logger
	http *http1.Pool

	kick    chan struct{} // try to connect now
	refetch chan struct{} // the lists may have changed
	relist  chan struct{} // the subscription stream has ended
	demand  demand        // for the lists

	catalog    *catalog
	pool       *connPool
	subs       subscriptions
	behaviour  behaviour
	extensions extensions
	reinits    reinitLimit
	withdraw   func() // ends the offer of a placed server; nil before
}

// New returns a server that does nothing until [Server.Run].
func New(spec Spec, opts Options) *Server {
	hash := spec.Hash()
	spec.Placed = opts.Placed != nil
	s := &Server{
		spec: spec.withDefaults(), hash: hash, opts: opts,
		log:  opts.Logger.With("server", spec.Key),
		kick: make(chan struct{}, 1), refetch: make(chan struct{}, 1), relist: make(chan struct{}, 1),
	}
	s.http = transport.NewPool(s.spec.Limits.Concurrency)
	s.catalog = newCatalog(&s.spec, s.log, opts.Sink, &s.extensions, func() { s.pool.freed.ring() })
	s.pool = newConnPool(&s.spec, s.log, s, s.catalog, &s.subs)
	switch {
	case spec.Off:
		s.catalog.status.State, s.catalog.status.Reason = mcp.Disabled, "switched off in the configuration"
	case spec.Refused != "":
		s.catalog.status.State, s.catalog.status.Reason = mcp.Failed, spec.Refused
	case opts.Known != nil:
		s.extensions.learn(mcp.SetMember(nil, "extensions", opts.Known.Declared), spec.Local == "")
		s.catalog.restore(opts.Known)
	}
	return s
}

// Name returns the key of the server in the configuration.
func (s *Server) Name() string { return s.spec.Key }

// Spec returns the configuration of the server.
func (s *Server) Spec() Spec { return s.spec }

// Listing returns what the server lists, nil while nothing is known, and its status.
func (s *Server) Listing() (*mcp.Listing, mcp.Status) {
	l, status := s.catalog.current()
	if l == nil && s.opts.SignIn && status.State == mcp.NeedsLogin {
		return signInListing, status
	}
	return l, status
}

// Stderr returns the last lines that the process wrote to its stderr.
func (s *Server) Stderr() []string {
	last, _ := s.Tails()
	return last.Lines
}

// Tails returns the last lines on stderr of the current or the last process, and of the
// process before it. They are safe to print. The zero Tail stands for none.
func (s *Server) Tails() (last, previous transport.Tail) { return s.pool.tails() }

// Offer lets other gateways use the process of a placed server until [Server.Run] ends. Run
// offers it where that was not called before.
func (s *Server) Offer() {
	if s.withdraw == nil && s.spec.Placed && !s.spec.Off && s.spec.Refused == "" {
		s.withdraw = s.opts.Placed.Offer(s.spec.Key, s.linkOptions(connKey{}))
	}
}

// Run connects to the server and keeps the connection and the listing up to date until the
// context ends. Then it returns nil, after every process and goroutine of the server has
// ended.
func (s *Server) Run(ctx context.Context) error {
	s.pool.life = ctx
	if s.Offer(); s.withdraw != nil {
		defer s.withdraw()
	}
	defer s.shutdown()
	if s.spec.Off || s.spec.Refused != "" {
		<-ctx.Done()
		return nil
	}
	wait := s.spec.retries()
	renewals := 0
	for ctx.Err() == nil {
		s.pool.reapIdle() // while there is a connection, serve does it
		conn, err := s.open(ctx, connKey{})
		if err != nil {
			s.pool.dropOwn(nil, err)
			s.catalog.unreachable(err)
			pause := wait.Next()
			if _, ok := errors.AsType[*transport.LoginError](err); ok {
				pause = loginRetry
			}
			s.await(ctx, pause)
			continue
		}
		began := time.Now()
		err = s.serve(ctx, conn)
		for next := s.pool.successor(conn); next != nil; next = s.pool.successor(conn) {
			s.pool.retireReplaced(conn) // it may still answer calls
			conn = next
			err = s.serve(ctx, conn)
		}
		s.dropMain(conn, err)
		if time.Since(began) > steady {
			wait.Reset()
			renewals = 0
		}
		var login *transport.LoginError
		switch {
		case errors.As(err, &login):
			s.await(ctx, loginRetry)
		case renewable(err) && renewals < renewMax:
			renewals++ // a new session replaces it at once
		default:
			s.await(ctx, wait.Next())
		}
	}
	return nil
}

// await waits before the next attempt. A call that needs the server ends the wait early,
// unless the server is a process that has just ended.
func (s *Server) await(ctx context.Context, pause time.Duration) {
	var kick <-chan struct{}
	if s.spec.Command == "" && pause < loginRetry {
		kick = s.kick
		select { // at most one attempt per 20 ms
		case <-time.After(min(pause, 20*time.Millisecond)):
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-kick:
	case <-s.catalog.signed:
	case <-ctx.Done():
	}
}

// serve publishes the connection and its listing and keeps both up to date until the
// connection is lost.
func (s *Server) serve(ctx context.Context, conn *Conn) error {
	s.pool.setOwn(conn)
	s.catalog.touch()
	s.reinitialize() // clients may have declared more while it was opened
	plan := schedule{retry: backoff.Backoff{Base: 250 * time.Millisecond, Max: processMax}}
	gather := backoff.Backoff{Base: settle, Max: settleMax, Jitter: -1}
	relisten := backoff.Backoff{Base: 250 * time.Millisecond, Max: processMax}
	var changed, listened time.Time // when each was last handled
	due := time.Now()
	lists, stream, pool := time.NewTimer(0), time.NewTimer(time.Hour), time.NewTimer(0)
	stream.Stop()
	defer pool.Stop()
	defer lists.Stop()
	defer stream.Stop()
	resubscribed, pending := false, false
	if link, ok := conn.link.(transport.Moving); ok {
		conn.spawn(func() { s.follow(conn, link) }) // ends with the connection
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-conn.link.Done():
			return conn.link.Cause()
		case <-s.pool.replaced:
			if s.pool.successor(conn) != nil {
				return errReplaced
			}
		case <-s.refetch:
			if pending {
				continue // every connection announces the same change
			}
			if time.Since(changed) > steady {
				gather.Reset()
			}
			changed, pending = time.Now(), true
			if at := changed.Add(gather.Next()); at.Before(due) {
				due = at
				lists.Reset(time.Until(due))
			}
		case <-lists.C:
			next := time.Duration(0)
			if plan.fresh && !pending && s.demand.lapse() {
				next = plan.untilPoll()
			} else {
				pending = false
				drain(s.refetch)
				s.demand.begin()
				next = s.fetchInto(ctx, conn, &plan)
			}
			due = time.Now().Add(next)
			lists.Reset(next)
			if !resubscribed {
				resubscribed = true
				conn.spawn(func() { s.resubscribe(conn.life, conn) })
			}
		case <-s.catalog.signed:
			signal(s.refetch)
		case <-s.pool.tidy:
			pool.Reset(s.pool.reapIdle())
		case <-pool.C:
			pool.Reset(s.pool.reapIdle())
		case <-s.relist:
			if time.Since(listened) > steady {
				relisten.Reset()
			}
			stream.Reset(relisten.Next())
		case <-stream.C:
			listened = time.Now()
			if err := conn.listen(ctx); err != nil {
				s.log.Debug("subscriptions not renewed", "err", err)
				signal(s.relist)
			}
			signal(s.refetch) // changes in between are unknown
		}
	}
}

// fetchInto reads the lists, publishes them and returns when to look again.
func (s *Server) fetchInto(ctx context.Context, conn *Conn, plan *schedule) time.Duration {
	if conn.era == mcp.Modern {
		// Subscribe before the lists are read, so that no change in between is missed.
		if err := conn.listen(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("subscriptions not opened", "err", err)
			signal(s.relist)
		}
	}
	announced := s.catalog.announcements()
	began := time.Now()
	listing, cut, err := conn.fetch(ctx)
	if err != nil {
		if !plan.tolerates(err) {
			s.unlisted(ctx, conn, err)
		}
		plan.fresh = false
		return plan.retry.Next()
	}
	listing.Announced = announced
	s.catalog.inherit(listing)
	state := mcp.Ready
	if cut != "" {
		state = mcp.Degraded
	}
	s.publishBoth(ctx, conn, listing, state, cut)
	conn.spawn(func() {
		if other := s.otherConn(conn.life, conn); other != nil {
			s.readOther(conn.life, other)
			other.finish()
		}
	})
	if len(listing.Unread) > 0 {
		plan.fresh = false
		return plan.retry.Next()
	}
	poll := pollOften // keeps the session alive that hears of changes of the lists without capabilities
	if listing.Declares("tools", "listChanged") && !s.catalog.keepsSession() {
		poll = pollRarely
	}
	return plan.succeeded(listing, poll, began)
}

// Drain waits until no call is in flight, at most until the context ends.
func (s *Server) Drain(ctx context.Context) {
	for s.pool.inFlight() > 0 {
		if backoff.Sleep(ctx, drainStep) != nil {
			return
		}
	}
}

// shutdown ends every connection and waits for every goroutine.
func (s *Server) shutdown() {
	s.pool.stop()
	s.catalog.touch() // wakes calls that wait for it
	s.pool.close()
	s.http.CloseIdleConnections()
}
