package proxy

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// method describes how a request of a client is served.
type method struct {
	legacy, modern bool
	serve          func(*Gateway, context.Context, *Exchange) response
	untracked      bool // calls nothing, leaves no audit entry and is answered at once
}

// methods are the requests that clients may send. The bindings serve initialize.
var methods = map[string]method{
	mcp.MethodToolsList:   {true, true, listMethod(mcp.Tool), true},
	mcp.MethodPromptsList: {true, true, listMethod(mcp.Prompt), true},
	mcp.MethodResources:   {true, true, listMethod(mcp.Resource), true},
	mcp.MethodTemplates:   {true, true, listMethod(mcp.Template), true},
	mcp.MethodToolsCall:   {true, true, callTool, false},
	mcp.MethodPromptsGet:  {true, true, callMethod(mcp.Prompt, "name"), false},
	mcp.MethodRead:        {true, true, read, false},
	mcp.MethodComplete:    {true, true, complete, false},
	mcp.MethodPing:        {true, false, func(*Gateway, context.Context, *Exchange) response { return empty }, true},
	mcp.MethodSetLevel:    {true, false, setLevel, true},
	mcp.MethodSubscribe:   {true, false, resourceNamed(&planSubscribe), false},
	mcp.MethodUnsubscribe: {true, false, resourceNamed(&planUnsubscribe), false},
	mcp.MethodDiscover:    {false, true, discover, true},
	mcp.MethodListen:      {false, true, serveListen, false},
	mcp.MethodTaskGet:     {true, true, aboutTask(&planTask), false},
	mcp.MethodTaskCancel:  {true, true, aboutTask(&planTaskCancel), false},
	mcp.MethodTaskUpdate:  {false, true, aboutTask(&planTask), false},
	mcp.MethodTaskResult:  {true, false, aboutTask(&planTask), false},
	mcp.MethodTaskList:    {true, false, aboutTask(&planTaskList), false},
}

var empty = response{result: []byte("{}")}

// serveRequest answers one request. A panic becomes an error of this request only.
func (g *Gateway) serveRequest(ctx context.Context, x *Exchange) (answer response) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("panic in a request", "method", x.Message.Method, "panic", p, "stack", string(debug.Stack()))
			answer = errorResponse(mcp.Errorf(mcp.CodeInternal, "Internal error"))
		}
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), errCancelled) {
			answer = response{silent: true}
		}
	}()
	m, ok := methods[x.Message.Method]
	if !ok || x.Era == mcp.Legacy && !m.legacy || x.Era == mcp.Modern && !m.modern {
		return errorResponse(mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: %s", x.Message.Method))
	}
	if fault := checkMeta(&x.Message); fault != nil {
		return errorResponse(fault)
	}
	if !m.untracked {
		return m.serve(g, ctx, x)
	}
	began := time.Now()
	answer = m.serve(g, ctx, x)
	g.opts.Metrics.served(x.Message.Method, x.Transport, began, answer.fault != nil)
	return answer
}

func listMethod(kind mcp.Kind) func(*Gateway, context.Context, *Exchange) response {
	return func(g *Gateway, ctx context.Context, x *Exchange) response { return g.list(ctx, x, kind) }
}

func callMethod(kind mcp.Kind, member string) func(*Gateway, context.Context, *Exchange) response {
	return func(g *Gateway, ctx context.Context, x *Exchange) response {
		name, ok := x.Message.ParamString(member)
		if !ok {
			return g.refuseCall(x, kind, "", mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %q must be a string", member))
		}
		if arguments := x.Message.Param("arguments"); arguments != nil && kind != mcp.Resource && !mcp.IsObject(arguments) {
			return g.refuseCall(x, kind, name, mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "arguments" must be an object`))
		}
		return g.call(ctx, x, kind, name)
	}
}

// calledKind returns the kind of item that a method calls, NoKind for methods that call
// nothing.
func calledKind(method string) mcp.Kind {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodTaskGet, mcp.MethodTaskCancel, mcp.MethodTaskUpdate, mcp.MethodTaskResult, mcp.MethodTaskList:
		return mcp.Tool
	case mcp.MethodPromptsGet:
		return mcp.Prompt
	case mcp.MethodRead, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return mcp.Resource
	}
	return mcp.NoKind
}

// refuseCall answers a call that does not reach the pipeline. It leaves an audit entry
// like every call.
func (g *Gateway) refuseCall(x *Exchange, kind mcp.Kind, name string, why error) (answer response) {
	c := g.newRequest(x, &planCall, kind, name)
	defer func() { c.end(&answer, nil) }()
	return c.refuse(why)
}

// reject answers a request that is not served at all: it is malformed, out of order, or
// one too many. A call leaves an audit entry.
func (g *Gateway) reject(x *Exchange, err error) response {
	fault := invalid(err)
	if kind := calledKind(x.Message.Method); kind != mcp.NoKind {
		return g.refuseCall(x, kind, "", fault)
	}
	return errorResponse(fault)
}

// invalid returns the JSON-RPC error of a request that is not served at all.
func invalid(err error) *mcp.Error {
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		return fault
	}
	return mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: %v", err)
}

// complete answers completion/complete for a prompt, a template or a resource.
func complete(g *Gateway, ctx context.Context, x *Exchange) response {
	ref := x.Message.Param("ref")
	switch kind, _ := mcp.LookupString(ref, "type"); kind {
	case "ref/prompt":
		if name, ok := mcp.LookupString(ref, "name"); ok {
			return g.call(ctx, x, mcp.Prompt, name)
		}
	case "ref/resource":
		if uri, ok := mcp.LookupString(ref, "uri"); ok {
			kind := mcp.Template
			if g.snapshot.Load().Catalog(x).resolve(kind, uri, x.Scope) == nil {
				kind = mcp.Resource
			}
			return g.call(ctx, x, kind, uri)
		}
	}
	return g.refuseCall(x, mcp.Prompt, "", mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "ref" must name a prompt or a resource`))
}

// setLevel sets the minimum severity of the session's log messages.
func setLevel(_ *Gateway, _ context.Context, x *Exchange) response {
	level, _ := x.Message.ParamString("level")
	if mcp.LogLevel(level) == 0 {
		return errorResponse(mcp.Errorf(mcp.CodeInvalidParams, "Invalid log level"))
	}
	x.Session.mu.Lock()
	x.Session.level = level
	x.Session.mu.Unlock()
	x.Session.saveState()
	return empty
}

// checkMeta validates the _meta of a request, which must be an object in every
// revision.
func checkMeta(msg *mcp.Message) *mcp.Error {
	if meta := msg.Param("_meta"); meta != nil && !mcp.IsObject(meta) {
		return mcp.Errorf(mcp.CodeInvalidParams, `Invalid params: "_meta" must be an object`)
	}
	return nil
}

// Exchange is one request of a client with everything that decides its response. A
// binding creates it; nobody changes it afterwards.
type Exchange struct {
	Message   mcp.Message
	Identity  *gate.Identity
	Present   func() (id *gate.Identity, ok bool) // see [Gateway.CallFor]; nil for a request of a client
	Scope     Scope
	Era       mcp.Era
	Version   mcp.Version
	Transport string   // stdio, sse or http
	Session   *Session // of a legacy client, or of a stdio connection; else nil

	Capabilities []byte      // client capabilities, raw
	ClientInfo   []byte      // raw; nil when not given
	LogLevel     string      // empty for no log messages
	Header       http.Header // of a modern HTTP request, whose headers mirror the body; else nil

	in        *nestedIn // the call in which it is nested; nil for a request of a client
	responder responder
	// over is set when the call of the request has ended in the most usual way, see [recycle]. It
	// is nil where nobody asks.
	over *bool
}

// responder sends messages to the client of one request. Its methods are safe for
// concurrent use. They block no longer than the queue of a slow client allows.
type responder interface {
	// notify sends a notification that belongs to the request. After the response it
	// does nothing.
	notify(raw []byte)
	// ask sends a request to the client. It returns false when the client cannot be
	// reached.
	ask(ctx context.Context, raw []byte) bool
}

// client returns a copy of the exchange without its request, in memory of its own.
func (x *Exchange) client() *Exchange {
	return &Exchange{
		Identity: x.Identity, Scope: x.Scope, Era: x.Era, Version: x.Version, Transport: x.Transport,
		Capabilities: bytes.Clone(x.Capabilities),
	}
}

// detached is client for work that goes on once the request has ended, such as a task.
func (x *Exchange) detached() *Exchange {
	own := x.client()
	own.Present, own.ClientInfo, own.in, own.responder = x.Present, bytes.Clone(x.ClientInfo), x.in, nobody{}
	params := "{}"
	if x.Message.Param("task") != nil { // rules look whether there is one
		params = `{"task":{}}`
	}
	own.Message, _ = mcp.Parse(mcp.AppendRequest(nil, mcp.NumberID(1), x.Message.Method, []byte(params)), mcp.Limits{}) // it is well formed
	return own
}

// token returns the client's progress token, nil when it gave none.
func (x *Exchange) token() []byte {
	token := x.Message.Meta(mcp.MetaProgressToken)
	if _, ok := mcp.ParseID(token); !ok {
		return nil
	}
	return token
}

// inputEnded is closed when a client on a bidirectional stream has closed its input. It
// is nil on other transports.
func (x *Exchange) inputEnded() <-chan struct{} {
	if x.Session == nil || x.Session.channel == nil {
		return nil
	}
	return x.Session.channel.ended
}

// sessionID identifies the session to backends that keep state per session.
func (x *Exchange) sessionID() string {
	if x.Session == nil {
		return ""
	}
	return x.Session.id
}

// declares reports whether the client declared that it can answer a request for method.
func (x *Exchange) declares(method string, params []byte) bool {
	switch method {
	case mcp.MethodSampling:
		sampling := mcp.Lookup(x.Capabilities, "sampling")
		if mcp.Lookup(params, "tools") != nil || mcp.Lookup(params, "toolChoice") != nil {
			return mcp.IsObject(mcp.Lookup(sampling, "tools"))
		}
		return mcp.IsObject(sampling)
	case mcp.MethodRoots:
		return mcp.IsObject(mcp.Lookup(x.Capabilities, "roots"))
	case mcp.MethodElicit:
		elicitation := mcp.Lookup(x.Capabilities, "elicitation")
		if !mcp.IsObject(elicitation) {
			return false
		}
		if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
			return mcp.IsObject(mcp.Lookup(elicitation, "url"))
		}
		// Before 2025-11-25 an empty object meant forms, and it still does.
		return mcp.Lookup(elicitation, "form") != nil || mcp.Lookup(elicitation, "url") == nil
	}
	return false
}
