package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/cancel"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

const (
	// answerQueue is how many answers to unattributed requests of the server may wait to
	// be sent.
	answerQueue = 64
	// asksPerCall is how many questions a server may have open on one call.
	asksPerCall = 8
	// cancelTime bounds the time to send a cancellation.
	cancelTime = 5 * time.Second
	// lastCancelTime bounds it when the connection is closed.
	lastCancelTime = time.Second
)

// Conn is an open connection to one server after the handshake. It is safe for concurrent
// use.
type Conn struct {
	link     transport.Link
	kind     transport.Kind
	shared   bool // one channel for all requests, as on stdio and HTTP+SSE
	spec     *Spec
	log      *slog.Logger
	identity []byte // clientInfo, raw
	declared []byte // capabilities declared to a legacy server, raw
	name     string // see [mcp.Answer]
	key      connKey
	own      atomic.Bool              // it is the own connection of the gateway, whatever its key
	usage    atomic.Int32             // of the own connection, see use
	inbox    func(*Conn, mcp.Message) // notifications that belong to no call

	era          mcp.Era
	version      mcp.Version
	info         []byte
	capabilities []byte
	instructions string

	// settled is set when the fields above are final.
	settled atomic.Bool

	ids   atomic.Int64
	calls atomic.Int64 // in flight
	used  atomic.Int64 // unix nanoseconds of the last use
	queue *serialQueue // of calls on a shared channel
	// standalone are the calls that a message on the standalone stream of a session may be
	// about.
	standalone  standalone
	answers     chan []byte
	notReading  atomic.Bool // the server does not read the answers
	streamEnded atomic.Bool // its stream of subscriptions has ended
	gone        func()      // called when the link is lost; nil, or must not block
	suspended   suspensions
	freed       func() // called when a call has ended or is no longer suspended; nil, or must not block

	// life ends when the connection is closed; it ends everything on it.
	life *cancel.Context

	spawning    sync.Mutex
	closing     bool           // no goroutine is started any more
	withdrawals sync.WaitGroup // cancellations that are being sent
	wg          sync.WaitGroup

	levelMu sync.Mutex
	level   int // the most verbose log level asked for; 0 is none

	// slow are the kinds whose last list request timed out.
	slow [mcp.Template + 1]atomic.Bool

	watch watch
}

// errCallTimeout ends a call at its deadline.
var errCallTimeout = errors.New("no answer within the deadline")

// newConn returns a connection without a link. shared tells that one channel carries all
// requests; a question on it cannot be attributed while several calls run.
func newConn(spec *Spec, log *slog.Logger, identity []byte, shared bool) *Conn {
	c := &Conn{
		spec: spec, log: log, identity: identity, shared: shared,
		queue: newSerialQueue(&behaviour{}), answers: make(chan []byte, answerQueue), name: rand.Text(),
	}
	c.life = cancel.New(context.Background())
	c.used.Store(time.Now().UnixNano())
	return c
}

// begin counts a call that runs or is about to, until finish. Meanwhile the connection is
// not idle.
func (c *Conn) begin() { c.calls.Add(1) }

// The usage of the own connection of the gateway.
const (
	unused    int32 = iota
	inUse           // a call of a client was on it
	discarded       // no call of a client will be; another connection replaces it
)

// use notes that a call of a client is made on the connection. It returns false for a
// discarded one.
func (c *Conn) use() bool {
	return c.usage.CompareAndSwap(unused, inUse) || c.usage.Load() == inUse
}

// discard keeps clients off a connection. It returns false for one that is in use.
func (c *Conn) discard() bool { return c.usage.CompareAndSwap(unused, discarded) }

// owner returns the key of the owner of the connection.
func (c *Conn) owner() connKey {
	if c.own.Load() {
		return connKey{}
	}
	return c.key
}

func (c *Conn) finish() {
	c.used.Store(time.Now().UnixNano())
	c.calls.Add(-1)
	c.free()
}

// free wakes calls that wait for a connection.
func (c *Conn) free() {
	if c.freed != nil {
		c.freed()
	}
}

// spawn starts a goroutine that close waits for. If the connection is closing, it starts
// nothing and returns false.
func (c *Conn) spawn(f func()) bool {
	c.spawning.Lock()
	defer c.spawning.Unlock()
	if !c.closing {
		c.wg.Go(f)
	}
	return !c.closing
}

// Call sends one request to the server. annotations are the arguments that are mirrored
// into headers.
func (c *Conn) Call(ctx context.Context, call *mcp.Call, annotations []mcp.ParamHeader) (mcp.Answer, error) {
	c.begin()
	defer c.finish()
	return c.call(ctx, call, annotations, true)
}

// call is Call for a call that begin has counted already. On a shared channel it waits for
// its turn. If it is not patient, it does not wait for a client that is being asked there.
func (c *Conn) call(ctx context.Context, call *mcp.Call, annotations []mcp.ParamHeader, patient bool) (mcp.Answer, error) {
	if c.life.Err() != nil {
		return mcp.Answer{}, transport.Undelivered(transport.ErrClosed)
	}

	f := newInFlight(ctx, c, call)
	defer f.end()
	if err := f.begin(patient); err != nil {
		return mcp.Answer{}, err
	}
	req := c.outgoing(c.era, mcp.NumberID(c.ids.Add(1)), call, annotations)
	req.Arrived, req.Suspended = f.arrived, &f.suspended
	return f.answer(req)
}

// answer is the answer in a message, which may lie in memory that was lent for it, if any was.
func (c *Conn) answer(msg *mcp.Message, memory *arena.Arena) mcp.Answer {
	a := mcp.Answer{Result: msg.Result(), Era: c.era}
	if c.era == mcp.Legacy {
		a.Conn = c.name
	}
	if memory.Extend(msg.Raw, 0, 0) != nil {
		a.Result = msg.LentResult()
	}
	a.Known = msg.KnownResult(a.Result)
	if fault := msg.Fault(); fault != nil {
		a.Fault = mcp.ParseError(fault)
	}
	return a
}

// outgoing builds the request of a call with the parts that belong to this hop: the id,
// the progress token, and for a modern server _meta and headers.
func (c *Conn) outgoing(era mcp.Era, id mcp.ID, call *mcp.Call, annotations []mcp.ParamHeader) *transport.Request {
	room := metas.Get().(*[]byte)
	defer metas.Put(room)
	meta := (*room)[:0]
	if call.Progress {
		meta = append(append(meta, `"progressToken":`...), id...)
	}
	req := &transport.Request{ID: id, Askable: call.Kind != mcp.NoKind, Memory: call.Memory}
	if era == mcp.Modern {
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = c.appendMeta(meta, call.Capabilities, call.LogLevel)
		req.Fields = fieldsOf(call, annotations)
	}
	size := len(call.Params) + len(meta) + len(call.Method) + 80 // for what surrounds them
	req.Raw = mcp.AppendRequestWithMeta(make([]byte, 0, size), id, call.Method, call.Params, meta)
	if cap(meta) <= maxMeta {
		*room = meta
	}
	return req
}

// metas are for the members of _meta until they are in their request.
var metas = sync.Pool{New: func() any { return new([]byte) }}

// maxMeta is the size of the largest that is kept.
const maxMeta = 4 << 10

// appendMeta appends the members of _meta that the protocol defines (2026-07-28 basic,
// Per-request protocol fields).
func (c *Conn) appendMeta(dst, capabilities []byte, level string) []byte {
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	dst = slices.Grow(dst, 192+len(c.identity)+len(capabilities))
	dst = append(dst, `"`+mcp.MetaVersion+`":"`...)
	dst = append(dst, mcp.LatestModern...)
	dst = append(dst, `","`+mcp.MetaClientInfo+`":`...)
	dst = append(dst, c.identity...)
	dst = append(dst, `,"`+mcp.MetaCapabilities+`":`...)
	dst = append(dst, capabilities...)
	if level != "" {
		dst = append(dst, `,"`+mcp.MetaLogLevel+`":`...)
		dst = mcp.AppendQuote(dst, level)
	}
	return dst
}

// fieldsOf mirrors the body into headers (2026-07-28 streamable HTTP, Request Metadata).
// They are made from what is sent. Only headers that belong to no listed argument are
// taken from the client.
func fieldsOf(call *mcp.Call, annotations []mcp.ParamHeader) []transport.Field {
	all := make([]transport.Field, 0, 3+len(call.Headers)+len(annotations))
	add := func(name, value string) {
		all = append(all, transport.Field{Name: name, Value: mcp.EncodeHeaderValue(value)})
	}
	all = append(all, transport.Field{Name: mcp.HeaderVersion, Value: string(mcp.LatestModern)})
	add(mcp.HeaderMethod, call.Method)
	switch call.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodRead,
		mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel:
		member := "name"
		switch call.Method {
		case mcp.MethodRead:
			member = "uri"
		case mcp.MethodTaskGet, mcp.MethodTaskUpdate, mcp.MethodTaskCancel: // SEP-2663, Routing Headers
			member = "taskId"
		}
		if name, ok := mcp.LookupString(call.Params, member); ok {
			add(mcp.HeaderName, name)
		}
	}
	listed := func(annotations []mcp.ParamHeader, name string) bool {
		return slices.ContainsFunc(annotations, func(a mcp.ParamHeader) bool { return http.CanonicalHeaderKey(mcp.HeaderParam+a.Name) == name })
	}
	if len(annotations) > 0 {
		arguments := mcp.Lookup(call.Params, "arguments")
		for i, a := range annotations {
			name := http.CanonicalHeaderKey(mcp.HeaderParam + a.Name)
			if value, ok := a.Value(arguments); ok && !listed(annotations[i+1:], name) { // the last of a name counts
				add(name, value)
			}
		}
	}
	own := all
	for name, values := range call.Headers {
		if listed(annotations, name) || slices.ContainsFunc(own, func(f transport.Field) bool { return f.Name == name }) {
			continue
		}
		for _, value := range values {
			all = append(all, transport.Field{Name: name, Value: value})
		}
	}
	return all
}

// withdraw tells the server that nobody waits for an answer any more. Over modern HTTP the
// closed request says so; elsewhere a notification does.
func (c *Conn) withdraw(id mcp.ID, why error) {
	if !c.shared && c.era == mcp.Modern {
		return
	}
	if !transport.Delivered(why) || errors.Is(why, transport.ErrClosed) {
		return
	}
	params := append([]byte(`{"requestId":`), id...)
	if errors.Is(why, errCallTimeout) {
		params = append(params, `,"reason":"timeout"`...)
	}
	params = append(params, '}')
	c.spawning.Lock()
	defer c.spawning.Unlock()
	if c.closing {
		return
	}
	c.withdrawals.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, cancelTime)
		defer cancel()
		if err := c.link.Send(ctx, mcp.AppendNotification(nil, mcp.NotifyCancelled, params), nil); err != nil {
			c.log.Debug("cancellation not sent", "err", err)
		}
	})
}

// raiseLevel asks a legacy server for log messages of a level, unless it already sends as
// much.
func (c *Conn) raiseLevel(ctx context.Context, level string) {
	if v := mcp.Lookup(c.capabilities, "logging"); v == nil {
		return
	}
	c.levelMu.Lock()
	defer c.levelMu.Unlock()
	if mcp.LogLevel(level) <= c.level {
		return
	}
	params := append(append([]byte(`{"level":`), mcp.Quote(level)...), '}')
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	if msg, err := c.request(ctx, c.era, mcp.MethodSetLevel, params); err == nil && msg.Fault() == nil {
		c.level = mcp.LogLevel(level)
	}
}

// request sends a request of the gateway itself.
func (c *Conn) request(ctx context.Context, era mcp.Era, method string, params []byte) (mcp.Message, error) {
	call := &mcp.Call{Method: method, Params: params, Capabilities: c.declared}
	req := c.outgoing(era, mcp.NumberID(c.ids.Add(1)), call, nil)
	req.Handshake = method == mcp.MethodInitialize
	if req.Handshake && c.key.era == mcp.Legacy { // the server is modern too and may require it
		req.Fields = []transport.Field{{Name: mcp.HeaderMethod, Value: method}}
	}
	req.Arrived = func(msg mcp.Message) {
		if msg.Kind == mcp.KindRequest || msg.Method != mcp.NotifyProgress {
			c.receive(msg)
		}
	}
	return c.link.RoundTrip(ctx, req)
}

// probe asks whether the server is alive. It runs nothing at the server.
func (c *Conn) probe(ctx context.Context) error {
	method := mcp.MethodPing
	if c.era == mcp.Modern {
		method = mcp.MethodDiscover
	}
	msg, err := c.request(ctx, c.era, method, nil)
	if err != nil {
		return err
	}
	if fault := msg.Fault(); fault != nil && c.era == mcp.Modern {
		return fmt.Errorf("the server answers the check whether it is alive with an error: %w", mcp.ParseError(fault))
	}
	return nil // a legacy server without ping has answered all the same
}

// stillSpeaks asks whether the server still speaks the era of the connection, and returns
// why not.
func (c *Conn) stillSpeaks(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reprobe, errCallTimeout)
	defer cancel()
	if c.era == mcp.Modern {
		_, err := c.discover(ctx)
		return err
	}
	msg, err := c.request(ctx, c.era, mcp.MethodPing, nil)
	if err == nil && msg.Fault() != nil {
		err = mcp.ParseError(msg.Fault())
	}
	return err
}

// close ends the connection and everything that it has started.
func (c *Conn) close(ctx context.Context) {
	c.spawning.Lock()
	c.closing = true
	c.spawning.Unlock()
	late := time.AfterFunc(lastCancelTime, func() { c.life.Cancel(transport.ErrClosed) })
	c.withdrawals.Wait()
	late.Stop()
	c.life.Cancel(transport.ErrClosed)
	c.link.Close(ctx)
	c.wg.Wait()
}
