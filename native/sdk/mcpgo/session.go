package mcpgo

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/toolgate/toolgate/native/sdk/internal/inprocess"
)

const (
	// sessionID is that of the one session of a plugin.
	sessionID = "toolgate"
	// room is how many notifications of a call may wait to be passed on. The library
	// drops what has no room.
	room = 256
)

// client is the client's end of the session with a server.
type client struct {
	server *server.MCPServer
	state  *state
	closed chan struct{}
	once   sync.Once
}

// state is what the session of a server is, whichever call sees it.
type state struct {
	initialized atomic.Bool
	level       atomic.Value // mcp.LoggingLevel
}

// session is the session as one request has it: what is reported in its context goes to
// its own channel, and so belongs to it.
type session struct {
	*state

	notifications chan mcp.JSONRPCNotification
}

func connect(s *server.MCPServer) (inprocess.Server, error) {
	c := &client{server: s, state: &state{}, closed: make(chan struct{})}
	all := c.session()
	if err := s.RegisterSession(context.Background(), all); err != nil {
		return nil, err
	}
	go all.pass(c.closed, nil) // what is told to all sessions, such as other lists, is told to no call
	return c, nil
}

func (c *client) session() *session {
	return &session{c.state, make(chan mcp.JSONRPCNotification, room)}
}

// Request implements inprocess.Server.
func (c *client) Request(ctx context.Context, id, method string, params json.RawMessage, notify inprocess.Notify) (json.RawMessage, error) {
	message, err := json.Marshal(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	s := c.session()
	var passing sync.WaitGroup
	answered := make(chan struct{})
	passing.Go(func() { s.pass(answered, notify) })
	answer := func() mcp.JSONRPCMessage {
		defer passing.Wait()
		defer close(answered)
		return c.server.HandleMessage(c.server.WithContext(ctx, s), message)
	}()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	var got struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, err
	}
	if got.Error != nil {
		return nil, &inprocess.Fault{Code: got.Error.Code, Message: got.Error.Message}
	}
	return got.Result, nil
}

// pass passes on what a request reports, until it is answered and nothing waits.
func (s *session) pass(answered <-chan struct{}, notify inprocess.Notify) {
	for {
		select {
		case n := <-s.notifications:
			passOn(n, notify)
		case <-answered:
			for {
				select {
				case n := <-s.notifications:
					passOn(n, notify)
				default:
					return
				}
			}
		}
	}
}

func passOn(n mcp.JSONRPCNotification, notify inprocess.Notify) {
	if notify == nil {
		return
	}
	if params, err := json.Marshal(n.Params); err == nil {
		notify(n.Method, params)
	}
}

// Initialized implements inprocess.Server.
func (c *client) Initialized(ctx context.Context) error {
	c.server.HandleMessage(c.server.WithContext(ctx, c.session()), json.RawMessage(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return nil
}

// Close implements inprocess.Server.
func (c *client) Close() {
	c.once.Do(func() {
		c.server.UnregisterSession(context.Background(), sessionID)
		close(c.closed)
	})
}

// Initialize implements server.ClientSession.
func (s *session) Initialize() { s.initialized.Store(true) }

// Initialized implements server.ClientSession.
func (s *session) Initialized() bool { return s.initialized.Load() }

// NotificationChannel implements server.ClientSession.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notifications }

// SessionID implements server.ClientSession.
func (s *session) SessionID() string { return sessionID }

// SetLogLevel implements server.SessionWithLogging.
func (s *session) SetLogLevel(level mcp.LoggingLevel) { s.level.Store(level) }

// GetLogLevel implements server.SessionWithLogging.
func (s *session) GetLogLevel() mcp.LoggingLevel {
	level, _ := s.level.Load().(mcp.LoggingLevel)
	if level == "" {
		return mcp.LoggingLevelError
	}
	return level
}
