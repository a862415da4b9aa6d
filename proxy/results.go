package proxy

import (
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
)

// results are the rules for what the route leads to.
func (r *Route) results() *result.Rules {
	if r.shape != nil && r.shape.Results != nil {
		return r.shape.Results
	}
	return &r.to.mount.Results
}

// asTool is the tool that the route leads to, as rules for results see it.
func (r *Route) asTool() result.Tool {
	return result.Tool{Server: r.Server, Original: r.Original, Exposed: r.Exposed, Schema: mcp.Lookup(r.item, "outputSchema")}
}

// keeps tells whether results of the mount may be kept as resources.
func (m *Mount) keeps() bool {
	if m.Results.Keeps() {
		return true
	}
	for _, shape := range m.Tools {
		if shape.Results != nil && shape.Results.Keeps() {
			return true
		}
	}
	return false
}

// filterResult returns a complete result of a method as it may be passed on, with
// its URIs exposed: held against the output schema as the server sent it, without
// secrets, and not larger than it may be. What was done is noted in the entry of its
// call, and in note, the member of _meta that tells the client; nil for nothing.
func (c *call) filterResult(method string, sent []byte) (_, note []byte, _ error) {
	r, entry := c.route, &c.rec.entry
	rules := r.results()
	clean, err := c.g.redaction(r, entry).result(method, sent)
	if err != nil {
		return nil, nil, err
	}
	var notes result.Notes
	if rules.Output != result.OutputUnchecked && method == mcp.MethodToolsCall {
		if notes.Problems, err = c.checkOutput(rules, sent, clean); err != nil {
			return nil, nil, err
		}
	}
	clean = names.ExposeURIs(r.to.mount.Namespace, method, clean)
	if rules.MaxBytes > 0 && len(clean) > rules.MaxBytes && method == mcp.MethodToolsCall {
		tool := r.asTool()
		var kept *result.Kept
		if rules.Keeps() {
			kept = c.g.keptResults.Keep(c.x.Identity.Key(), r.to.holder(c.x.Identity), tool, clean)
		}
		if clean, err = rules.Truncate(tool, clean, kept, &notes); err != nil {
			return nil, nil, err
		}
		entry.LeftOut += int64(notes.LeftOut)
	}
	return clean, notes.Member(), nil
}

// checkOutput returns what of a result does not fit the schema that is listed for
// it, and notes it.
func (c *call) checkOutput(rules *result.Rules, sent, clean []byte) ([]string, error) {
	r, entry := c.route, &c.rec.entry
	problems := result.CheckOutput(c.snap.outputs, mcp.Lookup(r.item, "outputSchema"), sent, clean)
	if problems == nil {
		return nil, nil
	}
	entry.OutputInvalid = true
	if rules.Output == result.OutputEnforce {
		return nil, refusal.InvalidOutput(r.Exposed, problems)
	}
	c.g.log.Warn("a tool answered with data that does not fit its own output schema",
		"server", r.Server, "tool", r.Original, "call", entry.CallID, "problems", len(problems))
	return problems, nil
}

// outputReady refuses a call of a tool whose answer could not be passed on,
// because it cannot be held against its output schema.
func (s *Snapshot) outputReady(r *Route, method string) error {
	if method != mcp.MethodToolsCall || s.outputs == nil || r.results().Output != result.OutputEnforce {
		return nil
	}
	schema := mcp.Lookup(r.item, "outputSchema")
	if !mcp.IsObject(schema) {
		return nil
	}
	if err := s.outputs.Ready(schema); err != nil {
		return refusal.UncheckedOutput(r.Exposed, err)
	}
	return nil
}
