package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/result"
)

// prepareCall builds the request for the backend: its own name or URI, the final
// arguments, and no hop keys.
func prepareCall(c *call) error {
	x, r := c.x, c.route
	params := x.Message.Params()
	member := "" // that has the server's own name
	switch {
	case x.Message.Method == mcp.MethodComplete:
		params = completion(params, r)
	case r.Kind == mcp.Tool || r.Kind == mcp.Prompt:
		member = "name"
		if r.Kind == mcp.Tool {
			given := x.Message.Param("arguments")
			if x.Header != nil {
				if fault := mcp.CheckParams(x.Header, r.Params, given); fault != nil {
					return fault
				}
			}
			final, fault := r.arguments(given)
			if fault != nil {
				return refusal.BadArguments(fault.Message + ".")
			}
			if err := findOwn(c, given); err != nil {
				return err
			}
			if (r.shape != nil || len(final) != len(given)) && final != nil {
				params = mcp.SetMember(params, "arguments", final)
			}
		}
	case r.Kind == mcp.Resource:
		member = "uri"
	}
	params = x.withoutTask(params, r.to)
	if member != "" && r.Original != r.Exposed {
		params = mcp.Forwarded(params, member, mcp.Quote(r.Original))
	} else {
		params = mcp.RewriteMeta(params, nil)
	}
	call := c.g.newCall(x, r.to, x.Message.Method, params)
	call.Kind, call.Key = r.Kind, r.Original
	if r.shape != nil {
		call.Timeout, call.Idle, call.Hard = r.shape.Timeout, r.shape.Idle, r.shape.Hard
	}
	call.Headers = foreignParams(x.Header, r.Params)
	c.request = call
	return nil
}

// interceptCall asks the operator's interceptors about a call, and demands the approvals
// for which they ask. Arguments that they change are decided on and checked again, so that
// they allow nothing. A call that continues goes on with the arguments that it had before,
// of which somebody may have approved.
func interceptCall(c *call) error {
	if c.snap.interceptors.Meets(intercept.Before, c.route.Exposed) {
		args := c.x.payload()
		ruled, err := askInterceptors(c, intercept.Before, c.x.Message.Method, args)
		if err != nil {
			return err
		}
		if !bytes.Equal(ruled.Payload, args) {
			if err := replaceArguments(c, ruled.Payload); err != nil {
				return err
			}
		}
		c.demands = append(c.demands, ruled.Demands...)
	}
	if c.retry != nil && c.retry.intercepted() && c.retry.state.final != c.intercepted {
		return refusal.InterceptedOtherwise()
	}
	return nil
}

// payload returns what interceptors see of a call before it.
func (x *Exchange) payload() []byte {
	member := "uri"
	switch x.Message.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		if args := x.Message.Param("arguments"); mcp.IsObject(args) {
			return args
		}
		return []byte("{}")
	case mcp.MethodComplete:
		member = "argument"
	}
	return mcp.SetMember([]byte("{}"), member, x.Message.Param(member))
}

// replaceArguments puts other arguments in place of those of the client, and takes the
// call through the steps that depend on them once more.
func replaceArguments(c *call, args []byte) error {
	x, err := c.x.asking(c.x.Message.Method, mcp.SetMember(c.x.Message.Params(), "arguments", args), c.g.front.parseLimits())
	if err != nil {
		return err
	}
	header, headers := x.Header, c.request.Headers
	x.Header = nil // it mirrors the arguments before
	c.x, c.rec.x = x, x
	c.rec.noteAgain(c.route)
	c.intercepted = x.hashArguments()
	if err := c.decide(); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	x.Header, c.request.Headers = header, headers
	if c.retry != nil {
		c.retry.restore(c.request)
	}
	return c.checkArguments()
}

// askInterceptors asks the interceptors of a phase, and records what they say.
func askInterceptors(c *call, phase intercept.Phase, method string, payload []byte) (intercept.Ruling, error) {
	id := c.x.Identity
	about := &intercept.Call{
		ID: c.rec.entry.CallID, Method: method, Principal: id.Subject, Tenant: id.Tenant, Capsule: c.x.Scope.Capsule,
		Server: c.route.Server, Name: c.route.Exposed,
	}
	ruled := c.snap.interceptors.Run(c.ctx, phase, about, payload, func(e intercept.Event) {
		c.rec.intercepted(e)
		c.g.opts.Metrics.intercepted(e)
		if e.Verdict == "error" {
			c.g.log.Warn("an interceptor has not decided", "interceptor", e.Interceptor, "call", about.ID, "err", e.Reason, "stack", e.Stack)
		}
	})
	switch d := ruled.Denied; {
	case d == nil:
		return ruled, nil
	case c.ctx.Err() != nil:
		return ruled, context.Cause(c.ctx)
	case d.Err != nil:
		return ruled, refusal.InterceptorDown(d.By, d.Err)
	}
	reason, err := c.g.redaction(c.route, &c.rec.entry).text(ruled.Denied.Reason)
	if err != nil {
		return ruled, err
	}
	return ruled, refusal.Intercepted(ruled.Denied.By, reason, phase == intercept.After)
}

// checkCall checks the arguments of a call against the schema of its tool and the
// operator's rules. It adds the approvals that they demand.
func checkCall(c *call) error {
	demands, err := c.g.checkCallArguments(c.ctx, &c.toGate, c.x, c.route, c.request)
	c.demands = append(c.demands, demands...)
	return err
}

// checkCallArguments checks a request for a server against the schema and the rules in
// force. It returns the approvals that they demand. question is memory for what they are asked.
func (g *Gateway) checkCallArguments(ctx context.Context, question *gate.Request, x *Exchange, r *Route, request *mcp.Call) ([]gate.Demand, error) {
	snap := g.snapshot.Load()
	if err := snap.outputReady(r, request.Method); err != nil {
		return nil, err
	}
	if snap.arguments == nil {
		return nil, r.checkFit(ctx, request.Method, backendArguments(request))
	}
	*question = r.question(gate.Call, x.Identity, x.Scope)
	question.Args = backendArguments(request)
	demands, err := snap.arguments.CheckArguments(ctx, PendingCall{
		Request: question, Schema: r.input, Listed: r.item, Tool: request.Method == mcp.MethodToolsCall,
		Queued: x.Message.Param("task") != nil, Native: r.to.mount.Native,
	})
	if err != nil {
		return nil, err
	}
	return demands, r.checkFit(ctx, request.Method, question.Args)
}

// checkFit refuses a call of a tool whose arguments its backend could do nothing with.
func (r *Route) checkFit(ctx context.Context, method string, args []byte) error {
	if unfit := r.to.mount.Unfit; unfit != nil && method == mcp.MethodToolsCall {
		if text := unfit(ctx, r.Original, args); text != "" {
			return refusal.BadArguments(text)
		}
	}
	return nil
}

// backendArguments returns the arguments that a server is sent, nil where there are
// none.
func backendArguments(call *mcp.Call) []byte {
	switch call.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return mcp.Lookup(call.Params, "arguments")
	case mcp.MethodComplete:
		return completionArguments(call.Params)
	}
	return nil
}

// completion returns the params of completion/complete with the server's own name or
// URI, and with one value for the completed argument.
func completion(params []byte, r *Route) []byte {
	member := "uri"
	if r.Kind == mcp.Prompt {
		member = "name"
	}
	if known := mcp.Lookup(params, "context", "arguments"); mcp.IsObject(known) {
		name, _ := mcp.LookupString(params, "argument", "name")
		if rest := mcp.RemoveMember(known, name); len(rest) != len(known) {
			params = mcp.SetMember(params, "context", mcp.SetMember(mcp.Lookup(params, "context"), "arguments", rest))
		}
	}
	ref := mcp.Lookup(params, "ref")
	return mcp.SetMember(params, "ref", mcp.SetMember(ref, member, mcp.Quote(r.Original)))
}

// newCall returns a request of a client to a backend.
func (g *Gateway) newCall(x *Exchange, to *backendEntry, method string, params []byte) *mcp.Call {
	call := &mcp.Call{
		Method: method, Params: params,
		Principal: x.Identity.Key(), Session: x.sessionID(), Rights: x.Identity.Rights(), Token: x.Identity.Token,
		LogLevel: x.LogLevel, WithoutCapabilities: to.isWithoutFeatures, Era: x.features().era(to.mount.Questions),
	}
	call.Exact = x.Era == mcp.Modern
	if call.Exact || to.listing != nil && to.listing.Era == mcp.Modern || // else the server was told in initialize
		!mcp.LookupSpan(x.Capabilities, "extensions").Absent() { // what clients may answer, but not these
		call.Capabilities = relayable(x.Capabilities, to.mount.Questions, x.Era == mcp.Modern)
		if to.samples(mcp.MethodSampling) { // as the gateway can, whatever its client can
			call.Capabilities = mcp.SetMember(call.Capabilities, "sampling", []byte("{}"))
		}
	}
	call.Progress = x.token() != nil
	return call
}

// namespacedLogger prefixes the logger's name with the namespace.
func namespacedLogger(namespace string, params []byte) []byte {
	if namespace == "" {
		return params
	}
	name := namespace
	if logger, ok := mcp.LookupString(params, "logger"); ok && logger != "" {
		name += "/" + logger
	}
	return mcp.SetMember(params, "logger", mcp.Quote(name))
}

// wanted reports whether a log message has at least a level.
func wanted(params []byte, level string) bool {
	own, _ := mcp.LookupString(params, "level")
	return mcp.LogLevel(own) > 0 && mcp.LogLevel(own) <= mcp.LogLevel(level)
}

// foreignParams returns the Mcp-Param-* headers that mirror no argument of the tool.
// Those with a valid value are passed on unchanged.
func foreignParams(h http.Header, known []mcp.ParamHeader) http.Header {
	var out http.Header
	for name, values := range h {
		if !strings.HasPrefix(name, mcp.HeaderParam) || len(values) != 1 || recognised(name, known) {
			continue
		}
		if _, err := mcp.DecodeHeaderValue(values[0]); err != nil {
			continue
		}
		if out == nil {
			out = make(http.Header)
		}
		out[name] = slices.Clone(values) // the memory of the header may be used again
	}
	return out
}

func recognised(name string, known []mcp.ParamHeader) bool {
	for _, p := range known {
		if http.CanonicalHeaderKey(mcp.HeaderParam+p.Name) == name {
			return true
		}
	}
	return false
}

// relayable removes the client capabilities that the gateway does not relay: the
// client's own tasks, requests that the operator does not allow, and the tasks
// extension where the client's revision does not have it (SEP-2663, Backward
// Compatibility).
func relayable(capabilities []byte, q Questions, tasks bool) []byte {
	out := mcp.RemoveMember(capabilities, "tasks")
	for _, c := range []struct {
		name string
		ok   bool
	}{{"sampling", q.Sampling}, {"elicitation", q.Elicitation}, {"roots", q.Roots}} {
		if !c.ok {
			out = mcp.RemoveMember(out, c.name)
		}
	}
	if extensions := mcp.Lookup(out, "extensions"); extensions != nil && !tasks {
		if cut := mcp.RemoveMember(extensions, mcp.ExtensionTasks); len(cut) != len(extensions) {
			out = mcp.SetMember(out, "extensions", cut)
		}
	}
	return out
}

// ToolShape changes how one tool is exposed and called. The zero value changes nothing.
type ToolShape struct {
	// New name of the tool. Default: its own.
	Rename string `config:"rename" format:"toolname"`
	// New title of the tool, its name for people. Default: its own.
	Title string `config:"title"`
	// New description of the tool. Default: its own.
	Description string `config:"description"`
	// Settings for single arguments, by name. Default: all arguments as the server lists them.
	Args map[string]ArgumentShape `config:"args"`
	// Removes the tool from lists and refuses calls to it. Default: false.
	Hidden bool `config:"hidden"`
	// Timeout of a call of this tool, as timeouts.call of the server. Default: the server's.
	Timeout time.Duration `config:"timeout" min:"1ms" max:"24h"`
	// Longest silence of a call of this tool that reports progress. Default: the server's.
	Idle time.Duration `config:"idle" min:"1ms" max:"24h"`
	// Timeout of every call of this tool, even if it reports progress. Default: the server's.
	Hard time.Duration `config:"hard" min:"1ms" max:"24h"`
	// What one call costs, for budgets that count cost. Default: 1.
	Cost int64 `config:"cost" default:"1" min:"0" max:"1000000000"`
	// Annotations that replace those of the tool, key by key. Default: its own.
	Annotations json.RawMessage `config:"annotations" format:"object"`

	// Rules replace the result rules of the mount; nil keeps them.
	Rules *result.Rules `config:"-" json:"-"`
	// Reuse is how long a result answers equal calls of the same principal, where the
	// tool is read-only; 0 reuses none.
	Reuse time.Duration `config:"-" json:"-"`
}

// ArgumentShape changes one argument of a tool.
type ArgumentShape struct {
	// Value that is always sent. Callers neither see nor set the argument. Default: not fixed.
	Fixed json.RawMessage `config:"fixed"`
	// Value that is sent if the caller gives none. Default: none.
	Default json.RawMessage `config:"default"`
	// Removes the argument from the schema that callers see. Default: true if fixed is set, else false.
	Hidden bool `config:"hidden"`
}

// render returns the tool as it is listed under a name.
func (s *ToolShape) render(raw []byte, name string) []byte {
	out := mcp.SetMember(raw, "name", mcp.Quote(name))
	if s == nil {
		return out
	}
	if s.Title != "" {
		out = mcp.SetMember(out, "title", mcp.Quote(s.Title))
	}
	if s.Description != "" {
		out = mcp.SetMember(out, "description", mcp.Quote(s.Description))
	}
	if s.Annotations != nil {
		annotations := mcp.Lookup(out, "annotations")
		if !mcp.IsObject(annotations) {
			annotations = nil
		}
		for m := range mcp.Members(s.Annotations) {
			key, _ := mcp.Unquote(m.Key(s.Annotations))
			annotations = mcp.SetMember(annotations, key, m.Value.Of(s.Annotations))
		}
		out = mcp.SetMember(out, "annotations", annotations)
	}
	if schema := mcp.Lookup(out, "inputSchema"); mcp.IsObject(schema) {
		if shaped := s.schema(schema); len(shaped) != len(schema) || string(shaped) != string(schema) {
			out = mcp.SetMember(out, "inputSchema", shaped)
		}
	}
	return out
}

// schema removes the arguments that the caller cannot give, and adds the defaults of
// the others.
func (s *ToolShape) schema(schema []byte) []byte {
	for _, name := range sortedKeys(s.Args) {
		arg := s.Args[name]
		properties := mcp.Lookup(schema, "properties")
		if properties == nil {
			return schema
		}
		if arg.Fixed != nil || arg.Hidden {
			schema = mcp.SetMember(schema, "properties", mcp.RemoveMember(properties, name))
			schema = optional(schema, name)
			continue
		}
		if property := mcp.Lookup(properties, name); arg.Default != nil && mcp.IsObject(property) {
			property = mcp.SetMember(property, "default", arg.Default)
			schema = mcp.SetMember(schema, "properties", mcp.SetMember(properties, name, property))
			schema = optional(schema, name)
		}
	}
	return schema
}

// optional removes a name from the required ones.
func optional(schema []byte, name string) []byte {
	required := mcp.Lookup(schema, "required")
	var kept []byte
	found := false
	for e := range mcp.Elements(required) {
		token := e.Of(required)
		if text, err := mcp.Unquote(token); err == nil && text == name {
			found = true
			continue
		}
		if kept != nil {
			kept = append(kept, ',')
		}
		kept = append(kept, token...)
	}
	if !found {
		return schema
	}
	if kept == nil {
		return mcp.RemoveMember(schema, "required")
	}
	return mcp.SetMember(schema, "required", slices.Concat([]byte("["), kept, []byte("]")))
}

// arguments returns the arguments of a call with fixed values set and defaults filled
// in. Callers must not give a fixed or hidden argument, in any spelling.
func (s *ToolShape) arguments(given []byte) ([]byte, *mcp.Error) {
	if s == nil || len(s.Args) == 0 {
		return given, nil
	}
	if given != nil && !mcp.IsObject(given) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, `"arguments" must be an object`)
	}
	for m := range mcp.Members(given) {
		key, _ := mcp.Unquote(m.Key(given))
		for name, arg := range s.Args {
			if (arg.Fixed != nil || arg.Hidden) && strings.EqualFold(name, key) {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "the argument %q is set by the gateway and cannot be given", name)
			}
		}
	}
	out := given
	for _, name := range sortedKeys(s.Args) {
		arg := s.Args[name]
		switch {
		case arg.Fixed != nil:
			out = mcp.SetMember(out, name, arg.Fixed)
		case arg.Default != nil && mcp.LookupSpan(out, name).Absent():
			out = mcp.SetMember(out, name, arg.Default)
		}
	}
	return out, nil
}

// finalArguments returns the arguments as the server will get them, or unchanged where
// the shape refuses them.
func (r *Route) finalArguments(call *mcp.Message) []byte {
	given := call.Param("arguments")
	if final, fault := r.arguments(given); fault == nil {
		return final
	}
	return given
}

// argumentsOf returns the arguments of a request as the server will get them: the final
// ones of a tool call, those of a prompt, and the known ones of a completion. They are nil
// for everything else: a request about a task may say what it likes about the arguments of
// the call that created it.
func (r *Route) argumentsOf(x *Exchange) []byte {
	switch x.Message.Method {
	case mcp.MethodToolsCall:
		return r.finalArguments(&x.Message)
	case mcp.MethodPromptsGet:
		return x.Message.Param("arguments")
	case mcp.MethodComplete:
		return completionArguments(x.Message.Params())
	}
	return nil
}

// completionArguments returns the arguments in the params of completion/complete by
// name: the begun value of the completed one, and the known others.
func completionArguments(params []byte) []byte {
	known := mcp.Lookup(params, "context", "arguments")
	if !mcp.IsObject(known) {
		known = nil
	}
	argument := mcp.Lookup(params, "argument")
	name, ok := mcp.LookupString(argument, "name")
	if value := mcp.Lookup(argument, "value"); ok && value != nil {
		known = mcp.SetMember(known, name, value)
	}
	return known
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// translated returns the exchange with arguments of the server's own schema in place of
// those that are made for the schema as it was listed; itself where they are the same.
// Arguments that cannot be turned stay as they are, and the check of arguments says what
// is wrong with them.
func (x *Exchange) translated(listed *withSchemas, limits mcp.Limits) *Exchange {
	if listed == nil || !listed.Translates() || x.Message.Method != mcp.MethodToolsCall {
		return x
	}
	given := x.Message.Param("arguments")
	own, err := listed.Translate(given)
	if err != nil || bytes.Equal(own, given) {
		return x
	}
	translated, err := x.asking(x.Message.Method, mcp.SetMember(x.Message.Params(), "arguments", own), limits)
	if err != nil {
		return x
	}
	return translated
}
