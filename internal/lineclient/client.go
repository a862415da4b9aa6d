// Package lineclient is a small MCP client for a gateway on a stream of lines. Commands and
// tests use it.
package lineclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
)

// Client is an MCP client of 2026-07-28, for one request at a time. It says that a person
// can be asked, so that it sees what the clients of people see.
type Client struct {
	stream   io.ReadWriteCloser
	in       *bufio.Reader
	next     int64
	Progress func(params []byte) // is given that of progress notifications; nil for nobody
	Mute     bool                // says that nobody can be asked
}

// New returns the client on a stream, which it closes when it gives up a request.
func New(stream io.ReadWriteCloser) *Client {
	return &Client{stream: stream, in: bufio.NewReaderSize(stream, 64<<10)}
}

// cancelTime is how long the gateway has to take the message that a request is cancelled.
const cancelTime = 2 * time.Second

// line returns the next request with its id.
func (c *Client) line(method string, params []byte) ([]byte, mcp.ID) {
	c.next++
	id := mcp.NumberID(c.next)
	capabilities := `{"elicitation":{"form":{},"url":{}}}`
	if c.Mute {
		capabilities = `{}`
	}
	meta := fmt.Appendf(nil, `"%s":"%s","%s":%s,"%s":%s,"progressToken":%s`, mcp.MetaVersion, mcp.LatestModern,
		mcp.MetaClientInfo, proxy.Implementation(version.Version), mcp.MetaCapabilities, capabilities, id)
	return append(mcp.AppendRequest(nil, id, method, mcp.RewriteMeta(params, meta)), '\n'), id
}

// leave tells the gateway that nobody waits for a request any more, and waits until the
// gateway has ended the stream, because it then has told the server.
func (c *Client) leave(id mcp.ID) {
	late := time.AfterFunc(cancelTime, func() { c.stream.Close() })
	params := fmt.Appendf(nil, `{"requestId":%s,"reason":"interrupted"}`, id)
	_, err := c.stream.Write(append(mcp.AppendNotification(nil, mcp.NotifyCancelled, params), '\n'))
	half, ok := c.stream.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		late.Stop()
		c.stream.Close()
	}
}

// Abandon sends the last answers of a call that is given up, and waits a moment for its
// end. Then the call is cancelled: before, the gateway would not look at its answers.
func (c *Client) Abandon(ctx context.Context, method string, params []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, _ = c.Request(ctx, method, params) // nobody waits for the result any more
}

// Request sends a request and returns its result or the gateway's error. If ctx ends
// first, the request is cancelled, and the client cannot be used any more.
func (c *Client) Request(ctx context.Context, method string, params []byte) ([]byte, error) {
	line, id := c.line(method, params)
	if _, err := c.stream.Write(line); err != nil {
		return nil, failure.Newf(failure.Unreachable, "the gateway went away: %w; try again, and see `toolgate ls`", err)
	}
	stop := context.AfterFunc(ctx, func() { c.leave(id) })
	defer stop()
	for {
		raw, err := c.in.ReadBytes('\n')
		if ctx.Err() != nil {
			_, _ = io.Copy(io.Discard, c.in) // ends with the stream
			return nil, failure.Newf(failure.Unreachable, "stopped waiting for the answer: %w", context.Cause(ctx))
		}
		if err != nil {
			return nil, failure.Newf(failure.Unreachable, "the gateway went away before it answered: %w; a call may have run, so check that before you try again", err)
		}
		msg, err := mcp.Parse(raw[:len(raw)-1], mcp.Limits{LoneSurrogates: true})
		if err != nil {
			return nil, failure.Newf(failure.Unreachable, "the gateway sent an invalid answer: %w", err)
		}
		switch {
		case msg.Method == mcp.NotifyProgress && c.Progress != nil:
			c.Progress(msg.Params())
		case msg.Kind == mcp.KindResponse && msg.ID == id && msg.Fault() != nil:
			return nil, mcp.ParseError(msg.Fault())
		case msg.Kind == mcp.KindResponse && msg.ID == id:
			return msg.Result(), nil
		}
	}
}

// All returns every item of a list.
func (c *Client) All(ctx context.Context, kind mcp.Kind) ([][]byte, error) {
	var items [][]byte
	var params []byte
	for {
		result, err := c.Request(ctx, kind.ListMethod(), params)
		if err != nil {
			return nil, err
		}
		list := mcp.Lookup(result, kind.ListKey())
		for e := range mcp.Elements(list) {
			items = append(items, e.Of(list))
		}
		cursor := mcp.Lookup(result, "nextCursor")
		if cursor == nil {
			return items, nil
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}
