package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/toolgate/toolgate/cmd/toolgate/relay"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
)

// lineClient is a small MCP client of 2026-07-28 on a line stream. Commands use it to
// talk to a gateway, a running one or their own.
type lineClient struct {
	stream   io.ReadWriteCloser
	in       *bufio.Reader
	next     int64
	progress func(message string)
}

func newLineClient(stream io.ReadWriteCloser) *lineClient {
	return &lineClient{stream: stream, in: bufio.NewReaderSize(stream, 64<<10)}
}

// request sends a request and returns its result or the gateway's error.
func (c *lineClient) request(ctx context.Context, method string, params []byte) ([]byte, error) {
	c.next++
	id := mcp.NumberID(c.next)
	meta := fmt.Appendf(nil, `"%s":"%s","%s":%s,"%s":{},"progressToken":%s`, mcp.MetaVersion, mcp.LatestModern,
		mcp.MetaClientInfo, proxy.Implementation(version.Version), mcp.MetaCapabilities, id)
	line := append(mcp.AppendRequest(nil, id, method, mcp.RewriteMeta(params, meta)), '\n')
	stop := context.AfterFunc(ctx, func() { c.stream.Close() })
	defer stop()
	if _, err := c.stream.Write(line); err != nil {
		return nil, failure.Newf(failure.Unreachable, "the gateway went away: %w; try again, and see `toolgate ls`", err)
	}
	for {
		raw, err := c.in.ReadBytes('\n')
		if ctx.Err() != nil {
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
		case msg.Method == mcp.NotifyProgress && c.progress != nil:
			if text, ok := msg.ParamString("message"); ok {
				c.progress(text)
			} else {
				c.progress(string(msg.Param("progress")))
			}
		case msg.Kind == mcp.KindResponse && msg.ID == id && msg.Fault() != nil:
			return nil, mcp.ParseError(msg.Fault())
		case msg.Kind == mcp.KindResponse && msg.ID == id:
			return msg.Result(), nil
		}
	}
}

// all returns every item of a list.
func (c *lineClient) all(ctx context.Context, kind mcp.Kind) ([][]byte, error) {
	var items [][]byte
	var params []byte
	for {
		result, err := c.request(ctx, kind.ListMethod(), params)
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

// settleTime is how long a command waits for the servers of a gateway that it started for
// itself.
const settleTime = 60 * time.Second

// waitSettled waits until every server has answered or failed, and says on stderr which
// ones are slow.
func (o *options) waitSettled(ctx context.Context, in *daemon.Daemon) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.settleWithin, settleTime))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began, next := time.Now(), 2*time.Second // then after twice the time, and so on
	for !in.Settled() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(began) > next && !o.quiet {
			next *= 2
			for _, s := range in.Control().Servers() {
				if s.State == mcp.Starting.String() {
					note("waiting for %s, %.0f s", s.Name, time.Since(began).Seconds())
				}
			}
		}
	}
	in.Settle(ctx)
}

// stream opens a line stream to a gateway, with the caller's identity.
func (o *options) stream(ctx context.Context, control *admin.Client, own *daemon.Daemon) (io.ReadWriteCloser, error) {
	key := apiKey()
	if control != nil {
		stream, err := control.Stdio(ctx, key)
		return stream, controlError(err)
	}
	here, there := relay.NewPipe()
	if err := own.ServeStream(ctx, key, there); err != nil {
		return nil, err
	}
	return here, nil
}
