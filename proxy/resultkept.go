package proxy

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
)

// read answers resources/read: of a kept result itself, of everything else by
// asking who has it.
func (g *Gateway) read(ctx context.Context, x *Exchange) reply {
	if uri, ok := x.Message.ParamString("uri"); ok && strings.HasPrefix(uri, result.URIPrefix) {
		return g.readKept(ctx, x, uri)
	}
	return calls(mcp.Resource, "uri")(g, ctx, x)
}

// readKept answers with a kept result. It passes what a call of its tool passes,
// less what was paid for when that was made.
func (g *Gateway) readKept(ctx context.Context, x *Exchange, uri string) (answer reply) {
	g.first.wait(ctx, "", x.Scope, true)
	snap, rec := g.snapshot.Load(), g.newRecord(x, mcp.Resource, uri)
	defer func() { rec.close(&answer, recover()) }()
	refuse := func(err error) reply { return g.refuse(x, rec.refused(err)) }

	if err := g.opts.Auditor.Healthy(); err != nil {
		return refuse(refusal.AuditDown(err))
	}
	missing := func() error { return unknown(x, mcp.Resource, uri) }
	kept := g.keptResults.Find(x.Identity.Key(), uri, time.Now())
	if kept == nil {
		return refuse(missing())
	}
	route := snap.Catalog(x).tool(kept.Server, kept.Original, x.Scope)
	if route == nil || route.to.holder(x.Identity) != kept.Holder {
		return refuse(missing())
	}
	rec.routed(route)
	if _, err := g.permitOr(ctx, x, route, route.argumentsOf(x), rec, known(missing)); err != nil {
		return refuse(err)
	}
	if _, err := snap.examineTool(ctx, x, route); err != nil {
		return refuse(err)
	}
	contents := append(append([]byte(`{"contents":`), kept.Contents...), '}')
	if x.Era == mcp.Modern {
		left := strconv.AppendInt(nil, max(time.Until(kept.Expires).Milliseconds(), 0), 10)
		return reply{result: g.modernResult(mcp.SetMember(contents, "ttlMs", left), false, true)}
	}
	return reply{result: contents}
}
