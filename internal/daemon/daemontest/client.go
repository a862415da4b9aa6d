package daemontest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/toolgate/toolgate/internal/mcp"
)

// end is one end of a stream in memory.
type end struct {
	*io.PipeReader
	*io.PipeWriter
}

func (e end) Close() error { return errors.Join(e.PipeReader.Close(), e.PipeWriter.Close()) }

func pipe() (here, there end) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return end{r1, w2}, end{r2, w1}
}

// Client is an MCP client of 2026-07-28 on a stream of lines, for one request at a time.
type Client struct {
	stream io.ReadWriteCloser
	in     *bufio.Reader
	next   int64
}

// NewClient returns the client on a stream, which it closes when the context of a request
// ends.
func NewClient(stream io.ReadWriteCloser) *Client {
	return &Client{stream: stream, in: bufio.NewReaderSize(stream, 64<<10)}
}

// Request sends a request and returns its result or the gateway's error.
func (c *Client) Request(ctx context.Context, method string, params []byte) ([]byte, error) {
	c.next++
	id := mcp.NumberID(c.next)
	meta := fmt.Appendf(nil, `"%s":"%s","%s":{"name":"test","version":"1"},"%s":{}`, mcp.MetaVersion, mcp.LatestModern, mcp.MetaClientInfo, mcp.MetaCapabilities)
	line := append(mcp.AppendRequest(nil, id, method, mcp.RewriteMeta(params, meta)), '\n')
	stop := context.AfterFunc(ctx, func() { c.stream.Close() })
	defer stop()
	if _, err := c.stream.Write(line); err != nil {
		return nil, fmt.Errorf("send %s: %w", method, err)
	}
	for {
		raw, err := c.in.ReadBytes('\n')
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), fmt.Errorf("wait for the answer to %s: %w", method, err))
		}
		msg, err := mcp.Parse(raw[:len(raw)-1], mcp.Limits{LoneSurrogates: true})
		switch {
		case err != nil:
			return nil, fmt.Errorf("the answer to %s: %w", method, err)
		case msg.Kind != mcp.KindResponse || msg.ID != id:
		case msg.Fault() != nil:
			return nil, mcp.ParseError(msg.Fault())
		default:
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
