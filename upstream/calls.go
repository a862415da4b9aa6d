package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// connKey identifies the owner of a connection. The zero connKey is the own connection of
// the gateway.
type connKey struct {
	principal, session string
	// withheld are the questions that this connection does not declare although the server
	// may ask them elsewhere, because the clients that use it did not declare them.
	withheld Questions
	// era is the era of the connection if it differs from that of the own connection.
	era mcp.Era
	// spare numbers further connections of the same owner. They serve calls that would
	// otherwise wait for a client that is being asked.
	spare int
}

// keyFor returns who shares the connection of a call (ADR 0003).
func (s *Spec) keyFor(call *mcp.Call, era mcp.Era) connKey {
	switch s.Isolation {
	case IsolateShared:
		return connKey{}
	case IsolateSession:
		return connKey{principal: call.Principal, session: call.Session}
	case IsolateAuto:
		if era == mcp.Modern {
			return connKey{}
		}
	case IsolatePrincipal:
	}
	if call.Principal == s.Local {
		return connKey{}
	}
	return connKey{principal: call.Principal}
}

// several tells whether several principals share a connection.
func (s *Spec) several(key connKey) bool { return key.principal == "" && s.Local == "" }

// route returns the key of the connection for a call. A legacy server learns the
// capabilities of its client once, when a connection begins; a modern server learns them
// with each request. A session over streamable HTTP is cheap, so a call uses a session
// that declares exactly what its client declares. A process gets the full declaration,
// unless the server is known to ask or no second process is allowed.
func (s *Server) route(call *mcp.Call, main *Conn) connKey {
	era := s.catalog.eraOf(call, main)
	key := s.spec.keyFor(call, era)
	if era != main.era {
		key.era = era
	}
	if call.WithoutCapabilities && era == mcp.Legacy {
		key.withheld = s.spec.Questions
		return key
	}
	if era == mcp.Modern || !call.Exact || call.Kind == mcp.NoKind || s.spec.several(key) || s.spec.maxPooled() == 0 ||
		main.shared && !s.behaviour.asked() || s.catalog.fullOnly(call) {
		return key
	}
	key.withheld = s.spec.Questions.without(call.Capabilities)
	return key
}

// Call sends one request to the server, over the connection that it belongs to, and at
// most once. The caller decides about retries. If a new session or connection would help,
// the failure says so ([mcp.Failure.Renewed]). Every error is a [mcp.Failure], except the
// cause of a context that ended.
func (s *Server) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	if call.Kind != mcp.NoKind {
		s.Asked()
	}
	if s.opts.SignIn && call.Kind == mcp.Tool && call.Key == SignInTool {
		if answer, own, err := s.signIn(ctx, call); own {
			return answer, err
		}
	}
	if call.Capabilities != nil {
		s.Connected(call.Principal, call.Capabilities)
	}
	var wait poolWait
	for {
		conn, patient, err := s.conn(ctx, call, &wait)
		if err != nil {
			return mcp.Answer{}, s.failure(ctx, err)
		}
		answer, err := s.callOn(ctx, conn, call, patient)
		renewed := false
		switch {
		case errors.Is(err, errClientAsked):
			continue // nothing was tried
		case err == nil && answer.Era == mcp.Modern && answer.Fault != nil && mcp.ReservedCode(answer.Fault.Code) && answer.Fault.Code != mcp.CodeMissingCapability:
			return mcp.Answer{}, s.refusedRequest(ctx, conn, answer.Fault)
		case err == nil:
			return answer, nil
		case transport.Delivered(err):
		case renewable(err):
			s.pool.lose(conn, err)
			renewed = true
		case !conn.own.Load() && (errors.Is(err, transport.ErrClosed) || conn.link.Cause() != nil):
			renewed = true // it ended before the call began; another is opened
		}
		_, aside := errors.AsType[*transport.ForbiddenError](err)
		if login := (*transport.LoginError)(nil); errors.As(err, &login) && conn.own.Load() && !aside {
			signal(s.refetch) // the lists tell whether it is the credential or this call
		}
		err = s.failure(ctx, err)
		if f, ok := errors.AsType[*mcp.Failure](err); ok && f.Kind == mcp.FailUnavailable {
			f.Renewed = renewed
		}
		return mcp.Answer{}, err
	}
}

// refusedRequest is the failure of a request that a modern server refuses before it runs
// it, for example because of its headers or revision. The client is not to blame.
func (s *Server) refusedRequest(ctx context.Context, conn *Conn, fault *mcp.Error) *mcp.Failure {
	f := &mcp.Failure{
		Kind: mcp.FailProtocol, Origin: mcp.OriginHop, Server: s.spec.Key, Err: fault,
		Reason: fmt.Sprintf("The server %s turned the gateway's request down (%d).", s.spec.Key, fault.Code),
	}
	if !conn.shared && fault.Code == mcp.CodeHeaderMismatch {
		s.refreshNow(ctx, conn) // the schema that the headers were made of is old
		f.Renewed = true
	}
	return f
}

// callOn makes a call on the connection that conn returned for it, and ends its count
// there.
func (s *Server) callOn(ctx context.Context, conn *Conn, call *mcp.Call, patient bool) (mcp.Answer, error) {
	defer conn.finish()
	switch call.Method {
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		uri, _ := mcp.LookupString(call.Params, "uri")
		return s.subscribe(ctx, conn, uri, call.Method == mcp.MethodSubscribe)
	}
	var annotations []mcp.ParamHeader
	if call.Kind == mcp.Tool && conn.era == mcp.Modern {
		if item := s.catalog.item(conn, call); item != nil {
			annotations = item.Params
		}
	}
	return conn.call(ctx, call, annotations, patient)
}

// Probe asks whether the server is alive. A server that has forgotten the session is
// alive; it gets a new session at once.
func (s *Server) Probe(ctx context.Context) error {
	conn, _, _ := s.pool.current()
	if conn == nil {
		signal(s.kick)
		return s.failure(ctx, transport.ErrClosed)
	}
	err := conn.probe(ctx)
	if errors.Is(err, transport.ErrSessionLost) {
		s.pool.lose(conn, err)
	}
	return err
}

// conn returns the connection for a call. While the server starts it waits, at most for
// the start timeout. The connection counts a call from then on, so that it is not idle;
// the caller ends that with finish. patient tells that no other connection can serve the
// call.
func (s *Server) conn(ctx context.Context, call *mcp.Call, wait *poolWait) (_ *Conn, patient bool, _ error) {
	if call.Conn != "" {
		conn, err := s.pool.named(call)
		return conn, true, err
	}
	var deadline <-chan time.Time
	for {
		main, _, stopped := s.pool.current()
		switch {
		case stopped || s.spec.Off || s.spec.Refused != "":
			return nil, false, transport.Undelivered(transport.ErrClosed)
		case main != nil && main.link.Cause() == nil:
			conn, err := s.unoccupied(ctx, call, main, wait)
			if errors.Is(err, errReplaced) {
				deadline = nil
				continue
			}
			return conn, false, err
		}
		signal(s.kick)
		_, state, expecting, moved := s.catalog.waiting()
		main, renewing, stopped := s.pool.current() // it may have been opened since
		switch {
		case stopped || main != nil && main.link.Cause() == nil:
			continue
		case main == nil && state != mcp.Starting && !renewing && !expecting:
			return nil, false, transport.Undelivered(transport.ErrClosed)
		}
		if deadline == nil {
			deadline = time.After(s.spec.Timeouts.Start)
		}
		select {
		case <-moved:
		case <-deadline:
			return nil, false, transport.Undelivered(fmt.Errorf("not ready within the start timeout of %v", s.spec.Timeouts.Start))
		case <-ctx.Done():
			return nil, false, transport.Undelivered(context.Cause(ctx))
		}
	}
}

// errGone tells that the server kept something for the client on a connection that no
// longer exists.
var errGone = errors.New("the connection that the call belongs to is no more")

// unoccupied returns a connection of the owner of the call on which no client is being
// asked. If there is none and no room for another, it waits for a change, see
// [connPool.awaitFree], and returns errReplaced: meanwhile the gateway may have another
// own connection.
func (s *Server) unoccupied(ctx context.Context, call *mcp.Call, main *Conn, wait *poolWait) (*Conn, error) {
	key := s.route(call, main)
	for {
		changed := s.pool.freed.next()
		conn, err := s.vacant(ctx, call, key, main)
		switch {
		case errors.Is(err, errOneEra):
			if key = s.route(call, main); key.era != mcp.EraUnknown {
				return nil, err
			}
			continue
		case errors.Is(err, errPoolFull) && key.era != mcp.EraUnknown && !s.catalog.speaksBoth():
			key = s.spec.keyFor(call, main.era) // the other era is tried later
			continue
		case !errors.Is(err, errPoolFull):
			return conn, err
		}
		if err := s.pool.awaitFree(ctx, wait, key, main, cmp.Or(call.Timeout, s.spec.Timeouts.Call), changed); err != nil {
			return nil, err
		}
		return nil, errReplaced
	}
}

// vacant is unoccupied without the wait. It returns errPoolFull instead.
func (s *Server) vacant(ctx context.Context, call *mcp.Call, key connKey, main *Conn) (*Conn, error) {
	for ; ; key.spare++ {
		if asks(s.pool.opened(key, main), call) {
			continue
		}
		conn, err := s.pool.owned(ctx, key, main)
		if err != nil || !asks(conn, call) {
			return conn, err
		}
		conn.finish()
	}
}

// asks tells whether a call would have to wait on a connection for a client that is being
// asked.
func asks(conn *Conn, call *mcp.Call) bool {
	return conn != nil && call.Kind != mcp.NoKind && conn.ambiguous() && conn.queue.elsewhere(call)
}

// resubscribe repeats the subscriptions of the predecessor of a connection. Changes in
// between are unknown, so each resource counts as updated.
func (s *Server) resubscribe(ctx context.Context, conn *Conn) {
	uris := s.subs.uris(conn.owner())
	conn.watch.add(uris) // so that all are on one stream
	for _, uri := range uris {
		if err := conn.follow(ctx, uri); err != nil {
			s.log.Debug("subscription not renewed", "err", err)
			if conn.era == mcp.Modern && conn.watch.broken != nil {
				conn.watch.broken() // the others are on the same stream
				return
			}
			continue
		}
		s.updated(conn, uri)
	}
}

// updated tells the sink that a resource may have changed.
func (s *Server) updated(conn *Conn, uri string) {
	params := append(append([]byte(`{"uri":`), mcp.Quote(uri)...), '}')
	s.event(conn, mcp.NotifyResourceUpdated, params)
}

// EndSession closes the connections of a session that has ended.
func (s *Server) EndSession(principal, session string) {
	its := func(key connKey) bool { return key.principal == principal && key.session == session }
	s.subs.drop(its)
	s.pool.endSession(its)
}

// refreshNow reads the lists again before a call is retried.
func (s *Server) refreshNow(ctx context.Context, conn *Conn) {
	if conn.key.era != mcp.EraUnknown && !conn.own.Load() {
		s.readOther(ctx, conn)
		return
	}
	listing, cut, err := conn.fetch(ctx)
	if err != nil {
		return
	}
	s.catalog.inherit(listing)
	s.catalog.replace(listing, cut)
}

// because continues a sentence with the reason for a failure, where clients may read it.
func (s *Server) because(reason string) string {
	if s.opts.Shown == nil || s.spec.Local == "" || reason == "" {
		return "; its operator sees why with `toolgate ls`."
	}
	text := ": " + strings.TrimSuffix(s.opts.Shown(reason), ".") + "."
	if s.spec.Command != "" {
		text += " `toolgate logs " + s.spec.Key + "` shows more."
	}
	return text
}

// failure classifies the error of a call. The client sees a fixed sentence. Details of the
// server, such as the last line of its stderr, its path or its address, are for the
// operator, in `ls` and in the log. Without authentication the client is the operator's
// own, and is told why a server does not run.
func (s *Server) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, errCallTimeout) {
		return context.Cause(ctx)
	}
	f := &mcp.Failure{Origin: mcp.OriginHop, Server: s.spec.Key, Err: err, Delivered: transport.Delivered(err)}
	if f.Delivered {
		f.Origin = mcp.OriginServer
	}
	_, state, _, _ := s.catalog.waiting()
	var login *transport.LoginError
	var status *transport.StatusError
	var nonsense *transport.ProtocolError
	var busy *transport.BusyError
	var ended *child.ExitError
	name := s.spec.Key
	if errors.As(err, &status) {
		f.Status, f.Origin = status.Status, mcp.OriginHop
		if f.Status >= http.StatusInternalServerError && f.Delivered {
			f.Origin = mcp.OriginServer
		}
	}
	switch {
	case s.spec.Off:
		f.Kind, f.Origin, f.Reason = mcp.FailDisabled, mcp.OriginGateway, "The server "+name+" is switched off."
	case s.spec.Refused != "":
		f.Kind, f.Origin, f.Reason = mcp.FailDisabled, mcp.OriginGateway, "The server "+name+" is not usable as it is configured; the operator sees why with `toolgate ls`."
	case errors.Is(err, errCallTimeout):
		f.Kind, f.Origin, f.Reason = mcp.FailTimeout, mcp.OriginServer, "The server "+name+" did not answer within its deadline."
	case errors.Is(err, errGone):
		f.Kind, f.Origin, f.Reason = mcp.FailGone, mcp.OriginHop, "The connection to the server "+name+" was lost, and what it kept there for this client."
	case errors.Is(err, transport.ErrTooLarge):
		f.Kind, f.Origin, f.Reason = mcp.FailTooLarge, mcp.OriginServer, "The answer of the server "+name+" is larger than the limit of "+strconv.Itoa(int(s.spec.Limits.Result))+" bytes (limits.result), or one line of it than "+strconv.Itoa(int(s.spec.Limits.Line))+" (limits.line)."
	case errors.Is(err, errPoolFull):
		f.Kind, f.Origin, f.Reason = mcp.FailBusy, mcp.OriginGateway, "All connections to the server "+name+" are in use, by calls that run or wait for an answer of their user (servers."+name+".processes); try again in a moment."
	case errors.Is(err, errGivenUp):
		f.Kind, f.Origin, f.Reason = mcp.FailGivenUp, mcp.OriginHop, "The call was given up: the question of the server "+name+" was open for "+s.spec.Timeouts.Think.String()+" or longer, and another call needed the connection (servers."+name+".processes). What the call had done so far is done. Begin a new call if that is wanted."
	case errors.As(err, &login), errors.Is(err, transport.ErrClosed) && state == mcp.NeedsLogin:
		f.Kind, f.Reason = mcp.FailLogin, "The server "+name+" wants a credential that the gateway does not have; its operator must provide one."
		missing, why := errors.AsType[transport.MissingError](errors.Join(err, s.catalog.missing()))
		_, aside := errors.AsType[*transport.ForbiddenError](err)
		switch {
		case !why:
		case missing.NeedsLogin() && aside:
			f.Reason = "This call needs more rights at the server " + name + " than it was given; `toolgate login " + name + "` asks for them."
		case missing.NeedsLogin():
			f.Reason = "Somebody has to sign in to the server " + name + " first, with `toolgate login " + name + "`."
		default:
			f.Reason = "The server " + name + " does not take what its login gives: " + missing.Error() + "."
		}
		f.Err = errors.Join(err, s.catalog.missing())
	case errors.As(err, &busy):
		f.Kind, f.RetryAfter = mcp.FailBusy, busy.After
		f.Reason = "The server " + name + " is busy and wants to be called later; try again in " + max(busy.After, time.Second).Round(time.Second).String() + "."
	case errors.As(err, &status), errors.As(err, &nonsense):
		f.Kind, f.Reason = mcp.FailProtocol, "The server "+name+" gave an answer that is not valid."
	case errors.As(err, &ended):
		f.Kind, f.Reason = mcp.FailUnavailable, "The process of the server "+name+" has ended"+s.because(describe(ended))+" It is started again; try again in a moment."
	case state == mcp.Ready || state == mcp.Degraded:
		f.Kind, f.Reason = mcp.FailUnavailable, "The connection to the server "+name+" was lost or refused; try again in a moment."
	case state == mcp.Starting:
		f.Kind, f.Reason = mcp.FailUnavailable, "The server "+name+" is still starting; try again in a moment."
	case state == mcp.Failed || state == mcp.Stale:
		_, status := s.catalog.current()
		f.Kind, f.Reason = mcp.FailUnavailable, "The server "+name+" has failed"+s.because(status.Reason)+" It is tried again from time to time."
	default:
		f.Kind, f.Reason = mcp.FailUnavailable, "The server "+name+" is not available at the moment ("+state.String()+"); try again later."
	}
	s.log.Debug("call failed", "kind", string(f.Kind), "err", err)
	return f
}
