package proxy

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
)

// read answers resources/read: of a kept result itself, of everything else by
// asking who has it.
func read(g *Gateway, ctx context.Context, x *Exchange) reply {
	if uri, ok := x.Message.ParamString("uri"); ok && strings.HasPrefix(uri, result.URIPrefix) {
		return readKept(g, ctx, x, uri)
	}
	return calls(mcp.Resource, "uri")(g, ctx, x)
}

// readKept answers with a kept result. It passes what a call of its tool passes,
// less what was paid for when that was made.
func readKept(g *Gateway, ctx context.Context, x *Exchange, uri string) reply {
	g.first.wait(ctx, "", x.Scope, true)
	return g.newRequest(x, &planKept, mcp.Resource, uri).serve(ctx)
}

// findKept finds a result that is kept for the caller.
func (c *call) findKept() error {
	c.kept = c.g.keptResults.Find(c.x.Identity.Key(), c.name, time.Now())
	if c.kept == nil {
		return unknown(c.x, mcp.Resource, c.name)
	}
	route := c.snap.Catalog(c.x).tool(c.kept.Server, c.kept.Original, c.x.Scope)
	if route == nil || route.to.holder(c.x.Identity) != c.kept.Holder {
		return unknown(c.x, mcp.Resource, c.name)
	}
	c.found(route)
	return nil
}

// unknownKept is the answer for a result of what the caller may not view any more.
func (c *call) unknownKept(d gate.Decision) error {
	return known(func() error { return unknown(c.x, mcp.Resource, c.name) })(d)
}

// examineKept holds the tool that made the result against the rules and the mode in
// force. People approved of its call already.
func (c *call) examineKept() error {
	_, err := c.g.snapshot.Load().examineTool(c.ctx, c.x, c.route)
	return err
}

// deliverKept answers with the result.
func (c *call) deliverKept() (reply, error) {
	contents := append(append([]byte(`{"contents":`), c.kept.Contents...), '}')
	if c.x.Era == mcp.Modern {
		ttl := strconv.AppendInt(nil, max(time.Until(c.kept.Expires).Milliseconds(), 0), 10)
		return reply{result: c.g.modernResult(mcp.SetMember(contents, "ttlMs", ttl), false, true)}, nil
	}
	return reply{result: contents}, nil
}
