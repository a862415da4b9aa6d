package proxy

import (
	"encoding/hex"

	"github.com/toolgate/toolgate/budget/rate"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// pace holds a call against the rates, and against the calls before it of the
// same caller. The rounds of a call are one.
func (c *call) pace() error {
	if err := c.tooOften(); err != nil {
		return err
	}
	c.rec.passed("rates")
	return nil
}

func (c *call) tooOften() error {
	switch {
	case c.retry != nil:
		return nil
	case c.x.Message.Method == mcp.MethodComplete:
		return c.g.requests.Take(limit.Completions, c.x.Identity.Key())
	}
	if err := c.looped(); err != nil {
		return err
	}
	if c.snap.rates == nil {
		return nil
	}
	return c.snap.rates.Take(c.ctx, c.route.rated(c.x.Identity))
}

// looped holds a tool call against those before it. The hash of its arguments
// is that of its audit entry, made once.
func (c *call) looped() error {
	most := c.g.loops.Most()
	if most <= 0 || c.x.Message.Method != mcp.MethodToolsCall {
		return nil
	}
	hash := mcp.Hash(c.x.Message.Param("arguments"))
	c.rec.entry.ArgsHash = hex.EncodeToString(hash[:])
	end, wait := c.g.loops.Begin(limit.Call{Principal: c.x.Identity.Key(), Server: c.route.Server, Tool: c.route.Original, Args: hash})
	if end == nil {
		c.g.opts.Metrics.limited("identical_calls")
		return refusal.Repeated(c.route.Exposed, most, wait)
	}
	c.loopEnd = end
	return nil
}

// rated is a call of somebody, as rates see it.
func (r *Route) rated(id *gate.Identity) *rate.Call {
	return &rate.Call{
		Principal: id.Key(), Tenant: id.Tenant, Persona: id.Persona,
		Server: r.Server, Kind: r.Kind.String(), Original: r.Original, Exposed: r.Exposed, Plain: r.Plain,
	}
}
