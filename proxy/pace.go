package proxy

import (
	"context"
	"encoding/hex"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// pace holds a call against the rates, and against the calls before it of the
// same caller. The rounds of a call are one.
func (g *Gateway) pace(ctx context.Context, x *Exchange, r *Route, rec *record, again *retry) error {
	if again != nil {
		return nil
	}
	if x.Message.Method == mcp.MethodComplete {
		return g.requests.Take(limit.Completions, x.Identity.Key())
	}
	if err := g.repeated(x, r, rec); err != nil {
		return err
	}
	rates := g.snapshot.Load().rates
	if rates == nil {
		return nil
	}
	return rates.Take(ctx, r.rated(x.Identity))
}

// repeated holds a tool call against those before it. The hash of its arguments
// is that of its audit entry, made once.
func (g *Gateway) repeated(x *Exchange, r *Route, rec *record) error {
	most := g.loops.Most()
	if most <= 0 || x.Message.Method != mcp.MethodToolsCall {
		return nil
	}
	hash := mcp.Hash(x.Message.Param("arguments"))
	rec.entry.ArgsHash = hex.EncodeToString(hash[:])
	end, wait := g.loops.Begin(limit.Call{Principal: x.Identity.Key(), Server: r.Server, Tool: r.Original, Args: hash})
	if end == nil {
		g.opts.Metrics.limited("identical_calls")
		return refusal.Repeated(r.Exposed, most, wait)
	}
	rec.repeatEnd = end
	return nil
}

// rated is a call of somebody, as rates see it.
func (r *Route) rated(id *gate.Identity) *rate.Call {
	return &rate.Call{
		Principal: id.Key(), Tenant: id.Tenant, Persona: id.Persona,
		Server: r.Server, Kind: r.Kind.String(), Original: r.Original, Exposed: r.Exposed, Plain: r.Plain,
	}
}
