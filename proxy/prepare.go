package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// prepareCall makes what the backend is to be sent: its own name or URI, the
// final arguments, no hop keys.
func (c *call) prepareCall() error {
	x, r := c.x, c.route
	params := x.Message.Params()
	switch {
	case x.Message.Method == mcp.MethodComplete:
		params = completion(params, r)
	case r.Kind == mcp.Tool || r.Kind == mcp.Prompt:
		if r.Original != r.Exposed {
			params = mcp.SetMember(params, "name", mcp.Quote(r.Original))
		}
		if r.Kind == mcp.Tool {
			given := x.Message.Param("arguments")
			if x.Header != nil {
				if fault := mcp.CheckParams(x.Header, r.Params, given); fault != nil {
					return fault
				}
			}
			final, fault := r.shape.arguments(given)
			if fault != nil {
				return refusal.BadArguments(fault.Message + ".")
			}
			if r.shape != nil && final != nil {
				params = mcp.SetMember(params, "arguments", final)
			}
		}
	case r.Kind == mcp.Resource:
		if r.Original != r.Exposed {
			params = mcp.SetMember(params, "uri", mcp.Quote(r.Original))
		}
	}
	call := c.g.newCall(x, r.to, x.Message.Method, mcp.RewriteMeta(x.withoutTask(params, r.to), nil))
	call.Kind, call.Key = r.Kind, r.Original
	if r.shape != nil {
		call.Timeout, call.Idle, call.Hard = r.shape.Timeout, r.shape.Idle, r.shape.Hard
	}
	call.Headers = foreignParams(x.Header, r.Params)
	c.request = call
	return nil
}

// examineCall holds a call against the schema of its tool and the operator's rules,
// and notes which people are to be asked before.
func (c *call) examineCall() error {
	demands, err := c.g.examined(c.ctx, c.x, c.route, c.request)
	c.demands = append(c.demands, demands...)
	return err
}

// examined holds what a server is sent for a caller against the schema and the rules
// in force, and returns which people are to be asked before.
func (g *Gateway) examined(ctx context.Context, x *Exchange, r *Route, request *mcp.Call) ([]gate.Demand, error) {
	snap := g.snapshot.Load()
	if err := snap.outputReady(r, request.Method); err != nil {
		return nil, err
	}
	if snap.arguments == nil {
		return nil, nil
	}
	question := r.question(gate.Call, x.Identity, x.Scope)
	question.Args = delivered(request)
	return snap.arguments.CheckArguments(ctx, PendingCall{
		Request: &question, Schema: r.input, Listed: r.item, Tool: request.Method == mcp.MethodToolsCall,
		Queued: x.Message.Param("task") != nil, Native: r.to.mount.Native,
	})
}

// delivered are the arguments in what a server is sent, nil where it gets none.
func delivered(call *mcp.Call) []byte {
	switch call.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return mcp.Lookup(call.Params, "arguments")
	case mcp.MethodComplete:
		return completionArguments(call.Params)
	}
	return nil
}

// completion returns the params of completion/complete with the server's own
// name or URI in the reference, and with one value for what is completed.
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

// newCall returns a call of a method for a client.
func (g *Gateway) newCall(x *Exchange, to *served, method string, params []byte) *mcp.Call {
	call := &mcp.Call{
		Method: method, Params: params,
		Principal: x.Identity.Key(), Session: x.sessionID(), Rights: x.Identity.Rights(), Token: x.Identity.Token,
		LogLevel: x.LogLevel, Plain: to.isPlain, Era: x.answers().era(to.mount.Questions),
	}
	call.Exact = x.Era == mcp.Modern
	if call.Exact || to.listing != nil && to.listing.Era == mcp.Modern || // else the server was told at the start
		!mcp.LookupSpan(x.Capabilities, "extensions").Absent() { // of what its clients may answer, but not of these
		call.Capabilities = relayable(x.Capabilities, to.mount.Questions, x.Era == mcp.Modern)
	}
	call.Progress = x.token() != nil
	return call
}

// namespacedLogger puts the namespace before the logger's name.
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

// wanted tells whether a log message passes a level.
func wanted(params []byte, level string) bool {
	own, _ := mcp.LookupString(params, "level")
	return mcp.LogLevel(own) > 0 && mcp.LogLevel(own) <= mcp.LogLevel(level)
}

// foreignParams returns the Mcp-Param-* headers that no argument of the tool
// is mirrored into: they are passed on unchanged when their value is valid.
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
		out[name] = values
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

// relayable returns the client capabilities less what the gateway does not
// relay: tasks of the client's own, what the operator does not let the server
// ask, and the extension for tasks where the client's revision does not have it
// (SEP-2663, Backward Compatibility).
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
