package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
)

// serverRequests relays the notifications and requests that a server sends during one
// call to the client of the call. It is safe for concurrent use.
type serverRequests struct {
	g         *Gateway
	x         *Exchange
	to        *backendEntry
	on        *Route       // what is called; nil where unknown
	memory    *arena.Arena // for the result of the call; nil for memory of its own
	suspended *suspended   // set when the call can outlive a request of its client

	// decideAgain decides again on the call as it is now. It may be called at any time.
	decideAgain func(context.Context) error

	// Members of _meta that tie questions to a task of 2025-11-25 for the client, and
	// their answers for the server; nil elsewhere.
	related, relatedUp []byte

	// delivered is set once a request of the call was answered. The call then counts as
	// delivered, however later requests end.
	delivered atomic.Bool
	// refused is set once the call has waited at its backend and is no longer allowed.
	refused atomic.Bool

	heard    atomic.Int64 // notifications and requests of the server
	partial  partialOutput
	asked    atomic.Int32
	answered atomic.Int32

	mu           sync.Mutex
	waiting      int       // questions that a legacy client has not answered yet
	notifySecond time.Time // the second in which notifications are counted
	notifyCount  int       // notifications in that second
}

// currentRequest returns the request that notifications belong to, nil when there is
// none at the moment.
func (d *serverRequests) currentRequest() *Exchange {
	if d.suspended != nil {
		return d.suspended.currentRequest()
	}
	return d.x
}

// client returns the client of the call.
func (d *serverRequests) client() *Exchange {
	if d.suspended != nil {
		return d.suspended.currentClient()
	}
	return d.x
}

// redaction removes secrets from notifications and questions. They are not counted in
// the audit entry, which another goroutine may close.
func (d *serverRequests) redaction() redaction {
	if d.on != nil {
		return d.g.redaction(d.on, nil)
	}
	return d.to.redaction(d.g)
}

// notify relays a notification under the client's own progress token, and with the
// namespace before the logger.
func (d *serverRequests) notify(method string, params []byte) {
	d.heard.Add(1)
	x := d.currentRequest()
	if x == nil || !d.allowNotification(time.Now()) {
		return
	}
	switch method {
	case mcp.NotifyProgress:
		token := x.token()
		if token == nil {
			return
		}
		params = mcp.SetMember(d.redaction().members(params, "message"), "progressToken", token)
	case mcp.NotifyMessage:
		if !wanted(params, x.LogLevel) {
			return
		}
		params = namespacedLogger(d.to.mount.Namespace, d.redaction().members(params, "data", "logger"))
	default:
		return
	}
	d.partial.note(method, params)
	x.responder.notify(mcp.AppendNotification(make([]byte, 0, len(params)+64), method, mcp.RewriteMeta(params, nil)))
}

// allowNotification reports whether one more notification may pass in this second.
// Those beyond the limit are dropped.
func (d *serverRequests) allowNotification(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.notifySecond) >= time.Second {
		d.notifySecond, d.notifyCount = now, 0
	}
	most := d.g.opts.Limits.NotificationsPerSecond
	if d.notifyCount++; d.notifyCount == most+1 {
		d.g.log.Warn("a server sends too many notifications; the rest of this second is dropped",
			"server", d.to.backend.Name(), "limit", most)
	}
	return d.notifyCount <= most
}

// ask relays a request of a legacy server to the client of the call, in the form of the
// client's revision. The server gets an error for a question that the client did not
// declare, that the operator does not allow, or that exceeds the limit. Nobody was
// asked then, so nobody has declined. It implements [mcp.Call.Ask].
func (d *serverRequests) ask(ctx context.Context, method string, params []byte, reply func([]byte, *mcp.Error)) {
	d.heard.Add(1)
	client := d.client()
	if d.to.samples(method) {
		d.g.wg.Go(func() { reply(d.sample(ctx, client, params)) }) // ends with the sampler's own time
		return
	}
	if !d.allowQuestion(client, method, params) || d.suspended == nil && client.Era == mcp.Modern {
		reply(nil, notAsked(client, method, params))
		return
	}
	related := d.related
	if f := mcp.Lookup(params, "_meta", mcp.MetaFunction); f != nil && d.to.mount.Native && related == nil {
		if clean, err := d.redaction().text(string(f)); err == nil && mcp.Validate([]byte(clean), mcp.Limits{}) == nil {
			related = append(append(mcp.Quote(mcp.MetaFunction), ':'), clean...)
		}
	}
	params = d.redaction().question(method, params)
	params = mcp.RewriteMeta(questionFor(client, d.to.mount.Namespace, method, params), related)
	if d.suspended == nil {
		d.g.wg.Go(func() { reply(d.askNow(ctx, client, method, params)) }) // ends with the question's context
		return
	}
	d.suspended.ask(ctx, method, params, func(answer []byte) {
		if answer == nil {
			reply(noAnswer(method))
			return
		}
		d.answered.Add(1)
		reply(mcp.RewriteMeta(answer, d.relatedUp), nil)
	})
}

// samples reports whether the gateway answers a question of the server itself.
func (s *backendEntry) samples(method string) bool {
	return method == mcp.MethodSampling && s.mount.Sampler != nil && s.mount.Questions.Sampling
}

// sample answers a request for sampling in place of the client. It counts as one of the
// server's questions to the caller.
func (d *serverRequests) sample(ctx context.Context, client *Exchange, params []byte) (result []byte, fault *mcp.Error) {
	defer func() {
		if p := recover(); p != nil {
			_ = d.g.panicked(p)
			result, fault = nil, mcp.Errorf(mcp.CodeInternal, "the request was not answered")
		}
	}()
	if int(d.asked.Add(1)) > d.g.opts.Limits.Questions || !d.g.asked.count(hourKey{d.to.backend.Name(), client.Identity.Key()}, d.to.mount.QuestionsPerHour) {
		return nil, mcp.Errorf(mcp.CodeInternal, "the server asks too often")
	}
	if !mcp.IsObject(params) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params")
	}
	return d.to.mount.Sampler(ctx, client.Identity, d.redaction().question(mcp.MethodSampling, params))
}

// askNow asks a legacy client and returns its answer.
func (d *serverRequests) askNow(ctx context.Context, client *Exchange, method string, params []byte) ([]byte, *mcp.Error) {
	msg, err := d.waitFor(ctx, client, method, params)
	if err != nil {
		return noAnswer(method)
	}
	d.answered.Add(1)
	if fault := msg.Fault(); fault != nil {
		return nil, mcp.ParseError(fault)
	}
	return mcp.RewriteMeta(msg.Result(), d.relatedUp), nil
}

// waitFor asks a legacy client by a request on the stream of its call. Meanwhile the
// call holds no permit for the server.
func (d *serverRequests) waitFor(ctx context.Context, client *Exchange, method string, params []byte) (mcp.Message, error) {
	d.releaseWhileAsking(+1)
	defer d.releaseWhileAsking(-1)
	ctx, cancel := context.WithTimeout(ctx, d.g.opts.Limits.RoundTime)
	defer cancel()
	return client.Session.question(ctx, client.Identity, client.responder, method, params)
}

// releaseWhileAsking gives up the call's permit for the server while questions are
// open.
func (d *serverRequests) releaseWhileAsking(open int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting += open
	switch {
	case open > 0 && d.waiting == 1:
		d.to.permits.Release(d.x.Identity.Key())
	case d.waiting == 0:
		d.to.permits.Resume(d.x.Identity.Key())
	}
}

// lend gives up the call's permit for the server while it makes calls of others, which need
// permits of their own.
func (d *serverRequests) lend() (back func()) {
	if d.suspended != nil {
		return d.suspended.lend(d.to.permits)
	}
	d.releaseWhileAsking(+1)
	return func() { d.releaseWhileAsking(-1) }
}

// allowQuestion reports whether a client may be asked one more question.
func (d *serverRequests) allowQuestion(client *Exchange, method string, params []byte) bool {
	return int(d.asked.Add(1)) <= d.g.opts.Limits.Questions && d.g.mayAsk(client, d.to, method, params)
}

// questionFor returns the params of a question in the form of the client's revision.
// The message of an elicitation names the server.
func questionFor(client *Exchange, namespace, method string, params []byte) []byte {
	if !mcp.IsObject(params) {
		params = nil // null stands for none
	}
	params = mcp.RewriteMeta(names.ExposeURIs(namespace, method, params), nil)
	params = revision.Message(client.Version, method, params)
	if client.Era == mcp.Modern { // 2026-07-28 changelog: both were removed
		params = mcp.RemoveMember(mcp.RemoveMember(params, "elicitationId"), "task")
	}
	if method == mcp.MethodElicit {
		if client.Version < mcp.V20251125 {
			params = mcp.RemoveMember(params, "mode") // only forms are left
		}
		params = names.ExposeAsker(namespace, params)
	}
	if len(params) == 0 {
		return nil
	}
	return params
}

// noAnswer is what the server gets for a question without an answer.
func noAnswer(method string) ([]byte, *mcp.Error) {
	if method == mcp.MethodElicit {
		return []byte(`{"action":"cancel"}`), nil
	}
	return nil, mcp.Errorf(mcp.CodeInternal, "the client did not answer")
}

// notAsked is the error for a question that nobody was asked. It is the error of a
// client without this feature (2025-11-25 client/elicitation, Error Handling), or tells
// of the operator or the limit.
func notAsked(client *Exchange, method string, params []byte) *mcp.Error {
	asked := map[string]string{mcp.MethodElicit: "elicitation", mcp.MethodSampling: "sampling", mcp.MethodRoots: "roots"}[method]
	switch {
	case client.declares(method, params):
		return mcp.Errorf(mcp.CodeInternal, "%s is not put to the client: the operator does not allow it, or these are too many", method)
	case asked != "" && mcp.IsObject(mcp.Lookup(client.Capabilities, asked)):
		return mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the client does not offer %s in this form", method)
	}
	return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: the client does not offer %s", method)
}

const (
	// maxPartialLogs is how many log messages of a call are kept in case it times out.
	// maxPartialBytes bounds each of them, and the progress message.
	maxPartialLogs, maxPartialBytes = 16, 1 << 10
)

// partialOutput holds the notifications of a call that its client asked for, in case
// the call times out. It is bounded and safe for concurrent use.
type partialOutput struct {
	mu       sync.Mutex
	progress []byte   // params of the latest progress notification
	log      [][]byte // data of the latest log messages, raw, oldest first
}

// note keeps a notification that was relayed to the client.
func (h *partialOutput) note(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case mcp.NotifyProgress:
		if message := mcp.Lookup(params, "message"); len(message) > maxPartialBytes {
			params = mcp.RemoveMember(params, "message")
		}
		h.progress = bytes.Clone(params)
	case mcp.NotifyMessage:
		data := mcp.Lookup(params, "data")
		if data == nil || len(data) > maxPartialBytes {
			return
		}
		if len(h.log) == maxPartialLogs {
			copy(h.log, h.log[1:])
			h.log = h.log[:maxPartialLogs-1]
		}
		h.log = append(h.log, bytes.Clone(data))
	}
}

// object returns everything as one JSON object, nil when there is nothing.
func (h *partialOutput) object() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []byte
	if len(h.log) > 0 {
		list := append([]byte("["), bytes.Join(h.log, []byte(","))...)
		out = mcp.SetMember(out, "log", append(list, ']'))
	}
	for _, name := range [...]string{"message", "total", "progress"} { // SetMember prepends
		if value := mcp.Lookup(h.progress, name); value != nil {
			out = mcp.SetMember(out, name, value)
		}
	}
	return out
}

// wrapTimeout adds the partial output to the error of a call that timed out. Other
// errors are returned unchanged. 2025-11-25 basic/lifecycle (Timeouts) leaves it to the
// requester what to do with such a call.
func (h *partialOutput) wrapTimeout(err error) error {
	var failure *mcp.Failure
	var refused *refusal.Error
	if !errors.As(err, &failure) || failure.Kind != mcp.FailTimeout || errors.As(err, &refused) {
		return err
	}
	said := h.object()
	if said == nil {
		return err
	}
	return refusal.FailedWithPartial(failure, err, said)
}

// mayAsk reports whether a server may ask a client: the operator allows it, the client
// declared it, a URL in it is safe, and the hourly limit is not reached.
func (g *Gateway) mayAsk(client *Exchange, from *backendEntry, method string, params []byte) bool {
	return from.mount.Questions.allow(method) && client.declares(method, params) && from.mount.allowsURL(params) &&
		g.asked.count(hourKey{from.backend.Name(), client.Identity.Key()}, from.mount.QuestionsPerHour)
}

// allow reports whether the operator lets the server send a request for method.
func (q Questions) allow(method string) bool {
	switch method {
	case mcp.MethodSampling:
		return q.Sampling
	case mcp.MethodElicit:
		return q.Elicitation
	case mcp.MethodRoots:
		return q.Roots
	}
	return false
}

// allowsURL reports whether a question may send the user to its URL. The URL must use
// TLS or lead to this machine, and its host must be one of URLHosts if there are any. A
// question without a URL is allowed.
func (m *Mount) allowsURL(params []byte) bool {
	if mode, _ := mcp.LookupString(params, "mode"); mode != "url" {
		return true
	}
	text, _ := mcp.LookupString(params, "url")
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if !strings.EqualFold(u.Scheme, "https") && !(strings.EqualFold(u.Scheme, "http") && loopback.Host(host)) {
		return false
	}
	if len(m.URLHosts) == 0 {
		return true
	}
	for _, allowed := range m.URLHosts {
		allowed = strings.ToLower(allowed)
		if below, any := strings.CutPrefix(allowed, "*"); host == allowed || any && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

// defaultPerHour is the default for [Mount.QuestionsPerHour].
const defaultPerHour = 600

// hourKey is the server that asks and the principal that is asked.
type hourKey struct{ server, principal string }

// hourlyCounter counts questions per hour. The zero value is ready for use.
type hourlyCounter struct {
	mu   sync.Mutex
	open map[hourKey]hourWindow
}

// hourWindow is one hour, starting with its first question.
type hourWindow struct {
	since time.Time
	count int
}

// count adds one question and reports whether it is within most; 0 stands for the
// default.
func (h *hourlyCounter) count(key hourKey, most int) bool {
	if most <= 0 {
		most = defaultPerHour
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.open[key]
	if now.Sub(w.since) >= time.Hour {
		w = hourWindow{since: now}
	}
	if w.count >= most {
		return false
	}
	w.count++
	if h.open == nil {
		h.open = make(map[hourKey]hourWindow)
	}
	h.open[key] = w
	return true
}

// sweep removes windows that are over.
func (h *hourlyCounter) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, w := range h.open {
		if now.Sub(w.since) >= time.Hour {
			delete(h.open, key)
		}
	}
}
