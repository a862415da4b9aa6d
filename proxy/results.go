package proxy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
)

// results are the result rules of the route.
func (r *Route) results() *result.Rules {
	if r.shape != nil && r.shape.Rules != nil {
		return r.shape.Rules
	}
	return &r.to.mount.Results
}

// asTool describes the route for result rules.
func (r *Route) asTool() result.Tool {
	tool := result.Tool{Server: r.Server, Original: r.Original, Exposed: r.Exposed}
	if !r.results().Shaping.Reshapes() { // else clients are told no schema
		tool.Schema = mcp.Lookup(r.item, "outputSchema")
	}
	return tool
}

// Keeps reports whether results of the mount may be kept as resources.
func (m *Mount) Keeps() bool {
	if m.Results.Keeps() {
		return true
	}
	for _, shape := range m.Tools {
		if shape.Rules != nil && shape.Rules.Keeps() {
			return true
		}
	}
	return false
}

// filterResult returns a complete result as it may be passed on, with its URIs exposed.
// It checks the server's result against the output schema, removes secrets, and cuts
// what is too large. The audit entry tells what was done. note tells the client; it is
// the member of _meta, nil for nothing.
func (c *call) filterResult(method string, sent []byte, known *mcp.Known) (_, note []byte, _ error) {
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
	if !known.LacksURI(clean) {
		clean = names.ExposeURIs(r.to.mount.Namespace, method, clean)
	}
	if clean, err = interceptResult(c, method, clean, &notes); err != nil {
		return nil, nil, err
	}
	if (rules.Shaping.Active() || c.own != nil) && method == mcp.MethodToolsCall {
		shaped := shape(c, rules, clean, &notes)
		if !bytes.Equal(shaped, clean) { // a program may have read what was escaped within a text
			if shaped, err = c.g.redaction(r, entry).result(method, shaped); err != nil {
				return nil, nil, err
			}
		}
		clean = shaped
	}
	if rules.MaxBytes > 0 && len(clean) > rules.MaxBytes && method == mcp.MethodToolsCall {
		tool := r.asTool()
		var kept *result.Kept
		if rules.Keeps() {
			tool.Reader = resultReader(c)
			kept = c.g.keptResults.Keep(c.x.Identity.Key(), r.to.connectionKey(c.x.Identity), tool, c.approved, clean)
		}
		if clean, err = rules.Truncate(tool, clean, kept, &notes); err != nil {
			return nil, nil, err
		}
		entry.LeftOut += int64(notes.LeftOut)
	}
	return clean, notes.Member(), nil
}

// interceptResult asks the operator's interceptors about a result, which has no secrets
// any more. What they change is searched for secrets again.
func interceptResult(c *call, method string, clean []byte, notes *result.Notes) ([]byte, error) {
	if !c.snap.interceptors.Meets(intercept.After, c.route.Exposed) {
		return clean, nil
	}
	ruled, err := askInterceptors(c, intercept.After, method, clean)
	if err != nil {
		return nil, err
	}
	for _, n := range ruled.Notes {
		text, err := c.g.redaction(c.route, &c.rec.entry).text(n.Text)
		if err != nil {
			return nil, err
		}
		notes.Add(n.By, text)
	}
	if bytes.Equal(ruled.Payload, clean) {
		return clean, nil
	}
	notes.Changed = differsFromSchema(c, ruled.Payload)
	return c.g.redaction(c.route, &c.rec.entry).result(method, ruled.Payload)
}

// interceptFault asks the operator's interceptors about a JSON-RPC error of a server, in
// place of a result. They may change its message and its data, or hold it back.
func interceptFault(c *call, method string, fault *mcp.Error) (response, error) {
	if !c.snap.interceptors.Meets(intercept.After, c.route.Exposed) {
		return errorResponse(fault), nil
	}
	shown := intercept.FaultResult(fault.Append(nil))
	ruled, err := askInterceptors(c, intercept.After, method, shown)
	if err != nil {
		return response{}, err
	}
	if !bytes.Equal(ruled.Payload, shown) {
		origin := fault.Origin
		fault = c.g.redaction(c.route, &c.rec.entry).fault(mcp.ParseError(mcp.Lookup(ruled.Payload, "error")))
		fault.Origin = origin
	}
	return errorResponse(fault), nil
}

// shape returns a result in the form that the operator and the model ask for. Whoever
// reuses a result gets what the server sent, shaped for this call alone.
func shape(c *call, rules *result.Rules, whole []byte, notes *result.Notes) []byte {
	meta := mcp.Lookup(c.route.item, "_meta")
	out := rules.Shaping.Shape(c.ctx, &result.Call{
		Own: c.own, Client: c.rec.entry.Client.Name, Schema: c.route.asTool().Schema != nil,
		Visible: mcp.Lookup(meta, "ui") != nil || mcp.Lookup(meta, "ui/resourceUri") != nil,
	}, whole, notes)
	if saved := len(whole) - len(out); saved > 0 {
		c.rec.entry.Saved += int64(saved)
	}
	if !bytes.Equal(out, whole) {
		notes.Changed = differsFromSchema(c, out)
	}
	return out
}

// differsFromSchema reports whether a result may not match the output schema that its
// server lists.
func differsFromSchema(c *call, out []byte) bool {
	schema := mcp.Lookup(c.route.item, "outputSchema")
	return schema != nil && (c.snap.outputs == nil || result.CheckOutput(c.snap.outputs, schema, out, out) != nil)
}

// arguments returns the arguments of a call as its server gets them: without that of the
// model's own program, with those that the operator sets.
func (r *Route) arguments(given []byte) ([]byte, *mcp.Error) {
	own, _ := r.results().Shaping.Arguments(r.input, given)
	return r.shape.arguments(own)
}

// findOwn finds the program by which the model selects from the result of the call.
func findOwn(c *call, given []byte) (err error) {
	c.own = nil
	_, program := c.route.results().Shaping.Arguments(c.route.input, given)
	if program == nil {
		return nil
	}
	if c.own, err = result.OwnProgram(program); err != nil {
		return refusal.BadArguments(err.Error() + ".")
	}
	if c.x.Message.Param("task") != nil {
		return refusal.BadArguments(result.OwnSelect + " does not apply to the result of a task; leave it out.")
	}
	return nil
}

// checkOutput returns and records how a result differs from its listed schema.
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
	c.g.log.Warn("a tool's result does not match its own output schema",
		"server", r.Server, "tool", r.Original, "call", entry.CallID, "problems", len(problems))
	return problems, nil
}

// outputReady refuses a call whose result could not be checked against its output
// schema.
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

// redaction removes secrets from messages of a server and counts them.
type redaction struct {
	g        *Gateway
	messages *redact.Messages
	server   string
	entry    *audit.Entry // counts the secrets; nil where no call is closed with it
}

// redaction returns the redaction of a route.
func (g *Gateway) redaction(r *Route, entry *audit.Entry) redaction {
	return redaction{g, &r.results().Redact, r.Server, entry}
}

// redaction returns the redaction of a server's messages where the tool is unknown.
func (s *backendEntry) redaction(g *Gateway) redaction {
	return redaction{g, &s.mount.Results.Redact, s.backend.Name(), nil}
}

func (d redaction) count(n int) {
	if n == 0 {
		return
	}
	if d.entry != nil {
		d.entry.Redacted += int64(n)
	}
	d.g.opts.Metrics.redacted(d.server, n)
}

// result is [redact.Messages.Result]. A result that could not be searched is refused.
func (d redaction) result(method string, result []byte) ([]byte, error) {
	clean, n, err := d.messages.Result(method, result)
	if err != nil {
		return nil, refusal.ResultUnsearched(err)
	}
	d.count(n)
	return clean, nil
}

// text removes secrets from a text that was made of a result.
func (d redaction) text(text string) (string, error) {
	if d.messages.Filter == nil {
		return text, nil
	}
	clean, n, err := d.messages.Filter.Text(text, time.Now().Add(time.Second))
	if err != nil {
		return "", refusal.ResultUnsearched(err)
	}
	d.count(n)
	return clean, nil
}

func (d redaction) fault(fault *mcp.Error) *mcp.Error {
	clean, n := d.messages.Fault(fault)
	d.count(n)
	return clean
}

func (d redaction) members(object []byte, names ...string) []byte {
	clean, n := d.messages.Members(object, names...)
	d.count(n)
	return clean
}

func (d redaction) state(state []byte) []byte {
	clean, n := d.messages.Task(state)
	d.count(n)
	return clean
}

func (d redaction) question(method string, params []byte) []byte {
	clean, n := d.messages.Question(method, params)
	d.count(n)
	return clean
}

func (d redaction) questions(result []byte) []byte {
	clean, n := d.messages.Questions(result)
	d.count(n)
	return clean
}

// read answers resources/read. The gateway reads kept results itself; servers read
// everything else.
func read(g *Gateway, ctx context.Context, x *Exchange) response {
	if uri, ok := x.Message.ParamString("uri"); ok && strings.HasPrefix(uri, result.URIPrefix) {
		return readKept(g, ctx, x, uri)
	}
	return callMethod(mcp.Resource, "uri")(g, ctx, x)
}

// readKept answers with a kept result. It takes the steps of a call of the tool, except
// for what that call has paid for already.
func readKept(g *Gateway, ctx context.Context, x *Exchange, uri string) response {
	g.first.For(ctx, x.Scope.Server, true)
	return g.newRequest(x, &planKept, mcp.Resource, uri).serve(ctx)
}

// findKept finds a result that is kept for the caller.
func findKept(c *call) error {
	c.kept = c.g.keptResults.Find(c.x.Identity.Key(), c.name, time.Now())
	if c.kept == nil {
		return unknown(c.x, mcp.Resource, c.name)
	}
	route := c.snap.Catalog(c.x).tool(c.kept.Server, c.kept.Original, c.x.Scope)
	if route == nil || route.to.connectionKey(c.x.Identity) != c.kept.Holder {
		return unknown(c.x, mcp.Resource, c.name)
	}
	c.setRoute(route)
	return nil
}

// unknownKept is the response for a result of a tool that the caller may not view any
// more.
func unknownKept(c *call, d gate.Decision) error {
	return hiddenUnlessUndecided(func() error { return unknown(c.x, mcp.Resource, c.name) })(d)
}

// checkKept checks the tool that made the result against the rules and the mode in
// force, and the current demands against the approval of its call.
func checkKept(c *call) error {
	more, err := c.g.snapshot.Load().checkTool(c.ctx, c.x, c.route)
	if err != nil {
		return err
	}
	if !approvals(c.kept.Approved).covers(slices.Concat(c.demands, more)) {
		return refusal.Unapproved("The approval that this result needs has changed since its call; make the call again.")
	}
	return nil
}

// returnKept answers with the result.
func returnKept(c *call) (response, error) {
	contents := append(append([]byte(`{"contents":`), c.kept.Contents...), '}')
	if c.x.Era == mcp.Modern {
		ttl := strconv.AppendInt(nil, max(time.Until(c.kept.Expires).Milliseconds(), 0), 10)
		return response{result: c.g.modernResult(mcp.SetMember(contents, "ttlMs", ttl), false, true)}, nil
	}
	return response{result: contents}, nil
}

// keptReader returns what reads kept results for the caller of an exchange. A read takes
// the steps of resources/read, and has an audit entry of its own.
func keptReader(g *Gateway, x *Exchange) result.Reader {
	return func(ctx context.Context, uri string) (result.Reading, error) {
		params := append(mcp.AppendQuote([]byte(`{"uri":`), uri), '}')
		reading, err := x.asking(mcp.MethodRead, params, mcp.Limits{})
		if err != nil {
			return result.Reading{}, result.ErrNotKept
		}
		reading.Header = nil
		c := g.newRequest(reading, &planKept, mcp.Resource, uri)
		answer := c.serve(ctx)
		switch fault := answer.fault; {
		case fault == nil:
			return result.Reading{Contents: mcp.Lookup(answer.result, "contents"), Clean: g.redaction(c.route, nil).text}, nil
		case mcp.Lookup(fault.Data, "uri") != nil: // as unknown makes it
			return result.Reading{}, result.ErrNotKept
		default:
			return result.Reading{}, errors.New(fault.Message)
		}
	}
}

// resultReader returns the name of the tool by which the caller can read kept results;
// empty where it may view none.
func resultReader(c *call) string {
	r := c.snap.Catalog(c.x).tool(result.ReaderServer, result.ReaderTool, c.x.Scope)
	if r == nil || !r.to.mount.Native || c.snap.scoped(c.x.Identity, r) != nil {
		return ""
	}
	if d := c.g.snapshot.Load().view(c.ctx, c.x, r); d.Err != nil || d.Effect != gate.Allow {
		return ""
	}
	return r.Exposed
}
