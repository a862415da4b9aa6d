package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/native/sdk/internal/inprocess"
)

// session is the client's end of a connection to a server, and the connection.
type session struct {
	server *mcp.ServerSession
	in     chan jsonrpc.Message // to the server
	done   chan struct{}        // closed by Close
	once   sync.Once

	mu      sync.Mutex
	waiting map[string]*request // by id
}

// request is one that the server has not answered yet.
type request struct {
	answer chan *jsonrpc.Response // with room for the answer
	notify inprocess.Notify       // nil does nothing
}

// inContext is the key of a *request in the context of its handler.
type inContext struct{}

func connect(server *mcp.Server) (inprocess.Server, error) {
	s := &session{in: make(chan jsonrpc.Message), done: make(chan struct{}), waiting: make(map[string]*request)}
	server.AddReceivingMiddleware(s.middleware)
	var err error
	if s.server, err = server.Connect(context.Background(), transport{s}, nil); err != nil {
		return nil, err
	}
	return clientEnd{s}, nil
}

// middleware remembers in the context of a call which one it is, so that what the tool
// reports belongs to the right one, and makes a panic its error.
func (s *session) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%s panicked: %v\n%s", call.Params.Name, r, debug.Stack())
			}
		}()
		token, _ := call.Params.GetProgressToken().(string)
		if made := s.find(token); made != nil {
			ctx = context.WithValue(ctx, inContext{}, made)
		}
		return next(ctx, method, req)
	}
}

func (s *session) find(id string) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[id]
}

// send hands a message to the server.
func (s *session) send(ctx context.Context, m jsonrpc.Message) error {
	select {
	case s.in <- m:
		return nil
	case <-s.done:
		return mcp.ErrConnectionClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clientEnd is a session as a client has it.
type clientEnd struct{ s *session }

// Request implements inprocess.Server.
func (c clientEnd) Request(ctx context.Context, id, method string, params json.RawMessage, notify inprocess.Notify) (json.RawMessage, error) {
	s := c.s
	rid, err := jsonrpc.MakeID(id)
	if err != nil {
		return nil, err
	}
	made := &request{make(chan *jsonrpc.Response, 1), notify}
	s.mu.Lock()
	s.waiting[id] = made
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if err := s.send(ctx, &jsonrpc.Request{ID: rid, Method: method, Params: params}); err != nil {
		return nil, err
	}
	select {
	case got := <-made.answer:
		if fault, ok := got.Error.(*jsonrpc.Error); ok { //nolint:errorlint // it is on the wire, where nothing wraps it
			return nil, &inprocess.Fault{Code: int(fault.Code), Message: fault.Message}
		}
		return got.Result, got.Error
	case <-s.done:
		return nil, mcp.ErrConnectionClosed
	case <-ctx.Done():
		params, _ := json.Marshal(map[string]string{"requestId": id}) // a text always is JSON
		_ = s.send(context.WithoutCancel(ctx), &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
		return nil, ctx.Err()
	}
}

// Initialized implements inprocess.Server.
func (c clientEnd) Initialized(ctx context.Context) error {
	return c.s.send(ctx, &jsonrpc.Request{Method: "notifications/initialized", Params: json.RawMessage("{}")})
}

// Close implements inprocess.Server.
func (c clientEnd) Close() { _ = c.s.server.Close() }

// transport is a session as the library opens and has it.
type transport struct{ s *session }

// Connect implements mcp.Transport.
func (t transport) Connect(context.Context) (mcp.Connection, error) { return t, nil }

// Read implements mcp.Connection.
func (t transport) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-t.s.in:
		return m, nil
	case <-t.s.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (t transport) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		id, _ := m.ID.Raw().(string)
		if made := t.s.find(id); made != nil {
			select {
			case made.answer <- m:
			default: // answered already
			}
		}
	case *jsonrpc.Request:
		if m.IsCall() {
			return t.s.send(ctx, &jsonrpc.Response{ID: m.ID, Error: &jsonrpc.Error{
				Code: jsonrpc.CodeMethodNotFound, Message: "a plugin cannot ask its client",
			}})
		}
		if made, ok := ctx.Value(inContext{}).(*request); ok && made.notify != nil {
			made.notify(m.Method, m.Params)
		}
	}
	return nil
}

// Close implements mcp.Connection.
func (t transport) Close() error {
	t.s.once.Do(func() { close(t.s.done) })
	return nil
}

// SessionID implements mcp.Connection.
func (transport) SessionID() string { return "" }
