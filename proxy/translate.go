package proxy

import (
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/internal/arena"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
)

// translateResponse turns the backend's answer into the client's response. Within one
// era the bytes stay the same, except for URIs, hop keys and the state of a round.
func (c *call) translateResponse(got mcp.Answer) (response, error) {
	g, x, r, rec, request := c.g, c.x, c.route, c.rec, c.request
	result, way := got.Result, ""
	if got.Fault != nil && got.Era == mcp.Modern && x.Era == mcp.Legacy && request.Method == mcp.MethodRead {
		got.Fault = legacyNotFound(got.Fault)
	}
	switch {
	case got.Fault != nil && got.Fault.Code == mcp.CodeURLElicitation && x.Era == mcp.Modern && request.Method != mcp.MethodComplete:
		result, way = urlQuestions(got.Fault.Data), resumeRepeat
		if result == nil {
			return interceptFault(c, request.Method, g.upstreamFault(x, r, &rec.entry, got))
		}
		c.suspended = nil // it has ended
	case got.Fault != nil && got.Era == mcp.Legacy && x.Era == mcp.Modern && hopCode(got.Fault.Code): // says nothing about the client's request
		return response{}, refusal.BadAnswer(r.Server, fmt.Sprintf("answered with the error %d, which it must not use.", got.Fault.Code))
	case got.Fault != nil: // the error of the server is the answer
		return interceptFault(c, request.Method, g.upstreamFault(x, r, &rec.entry, got))
	case c.suspended != nil:
		way = resumeSuspended
	}
	kind, typed := got.Known.Kind(result)
	if x.createdTask(r, request, &got, kind) {
		return c.translateCreatedTask(got)
	}
	if typed && kind != mcp.ResultComplete {
		if kind != mcp.ResultInputRequired || x.Era != mcp.Modern || request.Method == mcp.MethodComplete {
			return response{}, refusal.BadAnswer(r.Server, fmt.Sprintf("answered with the result type %q, which this client cannot take.", kind))
		}
		sealed, err := g.rounds.seal(c, result, way)
		if err != nil {
			return response{}, err
		}
		return response{result: g.modernResult(sealed, true, false)}, nil
	}
	if got.Era == mcp.Legacy && !(got.Known.Lacks(result, "inputRequests") && got.Known.Lacks(result, "requestState")) { // meaningless there, and no unsealed state may reach a client
		result = mcp.RemoveMember(mcp.RemoveMember(result, "inputRequests"), "requestState")
	}
	memory := owned(c, result)
	result, note, err := c.filterResult(request.Method, result, &got.Known)
	if err != nil {
		return response{}, err
	}
	succeeded := got.Known.Succeeded(result)
	if x.Era == mcp.Modern {
		read := request.Method == mcp.MethodRead
		if read && (x.Message.Param("requestState") != nil || x.Message.Param("inputResponses") != nil) { // the result of a round must not be cached
			result = mcp.RemoveMember(result, "ttlMs")
		}
		if got.Known.Lacks(result, "_meta") {
			result = mcp.AddMeta(memory, result, members(g.serverMeta, note))
		} else {
			result = mcp.RewriteMeta(result, members(g.serverMeta, note))
		}
		return response{result: typedResult(result, typed, read), memory: memory, succeeded: succeeded}, nil
	}
	if got.Era == mcp.Modern {
		result = withoutModern(result)
	}
	if note != nil || !got.Known.Lacks(result, "_meta") {
		result = mcp.RewriteMeta(result, note)
	}
	if request.Method != mcp.MethodToolsCall || x.Version < mcp.V20250618 || !got.Known.Lacks(result, "structuredContent") {
		result = revision.Message(x.Version, request.Method, result)
	}
	return response{result: result, memory: memory, succeeded: succeeded}, nil
}

// lent returns the memory of a call for a large result, if nobody but the one who writes the
// response over HTTP reads the result later; else nil. A stream of HTTP/2 may be written from
// another goroutine, even after it was reset.
func lent(c *call) *arena.Arena {
	rules := c.route.results()
	to, overHTTP := c.x.responder.(*httpResponse)
	switch {
	case !overHTTP || to.r.ProtoMajor != 1:
	case c.task != nil: // what is known of a task is held
	case c.key != nil: // others may wait for the same result
	case rules.Shaping.Active() || c.own != nil: // a program may keep parts of it
	case c.snap.interceptors.Meets(intercept.After, c.route.Exposed): // one that is late may still read it
	default:
		c.memory = new(arena.Arena) // apart from the call, which a server that answers late must not reach
		return c.memory
	}
	return nil
}

// owned returns the memory of a call if a complete result lies in it and only the response
// is made of it; else nil, which leaves it to the collector.
func owned(c *call, result []byte) *arena.Arena {
	most := c.route.results().MaxBytes
	switch {
	case c.memory.Extend(result, 0, 0) == nil: // it is small, or another part of the gateway made it
	case c.suspended != nil || c.asked: // what was asked may still be on its way
	case most > 0 && len(result) > most: // it may be kept
	default:
		return c.memory
	}
	return nil
}

// withoutModern removes the members that only 2026-07-28 has on every result.
func withoutModern(result []byte) []byte {
	for _, member := range [...]string{"resultType", "ttlMs", "cacheScope"} {
		result = mcp.RemoveMember(result, member)
	}
	return result
}

// modernResult adds what 2026-07-28 requires on every result: its type, the gateway as
// its maker and, for cacheable results, the lifetime.
func (g *Gateway) modernResult(result []byte, typed, cacheable bool, notes ...[]byte) []byte {
	return typedResult(mcp.RewriteMeta(result, members(g.serverMeta, notes...)), typed, cacheable)
}

// typedResult adds the members of a result that say what it is.
func typedResult(result []byte, typed, cacheable bool) []byte {
	if cacheable {
		if !milliseconds(mcp.Lookup(result, "ttlMs")) {
			result = mcp.SetMember(result, "ttlMs", []byte("0"))
		}
		result = mcp.SetMember(result, "cacheScope", []byte(`"private"`))
	}
	if !typed {
		result = mcp.SetMember(result, "resultType", []byte(`"complete"`))
	}
	return result
}

// members joins the text of members of an object; nil ones are left out.
func members(first []byte, others ...[]byte) []byte {
	for _, other := range others {
		if other != nil {
			first = append(append(slices.Clip(first), ','), other...)
		}
	}
	return first
}

// milliseconds reports whether a value is a whole number.
func milliseconds(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) > 0
}

// upstreamFault returns the error of a server as the client gets it. The bytes stay the
// same, except for codes that concern the hop between gateway and server, or another
// era. A capability that the client did not declare is reported as such.
func (g *Gateway) upstreamFault(x *Exchange, r *Route, entry *audit.Entry, got mcp.Answer) *mcp.Error {
	fault := *g.redaction(r, entry).fault(got.Fault)
	fault.Origin = mcp.OriginServer
	if x.Message.Method == mcp.MethodRead {
		names.ExposeMissing(r.Exposed, r.Original, &fault)
	}
	switch {
	case fault.Code == mcp.CodeMissingCapability && x.Era == mcp.Modern: // libraries send it in both eras
		own := mcp.Errorf(mcp.CodeMissingCapability, "The server %s needs a capability that the client did not declare", r.Server)
		if required := mcp.Lookup(fault.Data, "requiredCapabilities"); required != nil {
			own.Data = append(append([]byte(`{"requiredCapabilities":`), required...), '}')
		}
		return own
	case mcp.ReservedCode(fault.Code) && (got.Era == mcp.Modern || x.Era == mcp.Modern && hopCode(fault.Code)): // about the hop to the server
		fault = *mcp.Errorf(mcp.CodeInternal, "The server %s could not handle the request", r.Server)
		fault.Origin = mcp.OriginServer
	case fault.Code >= refusal.CodeUnavailable && fault.Code <= refusal.CodeBreaker && mcp.Lookup(fault.Data, "kind") != nil:
		fault.Data, fault.Raw = nil, nil // could pass for a refusal of the gateway
	case fault.Code == mcp.CodeResourceNotFound && x.Era == mcp.Modern:
		fault.Code, fault.Raw = mcp.CodeInvalidParams, nil // 2026-07-28 basic, Error Codes: replaced by -32602
	}
	return &fault
}

// hopCode reports whether 2026-07-28 gives a code a meaning for one hop only. In
// earlier revisions a server may use it for itself.
func hopCode(code int) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeUnsupportedVersion
}

// legacyNotFound gives a modern server's "not found" error for a resource the code of
// the legacy revisions (2026-07-28 server/resources, Error Handling).
func legacyNotFound(fault *mcp.Error) *mcp.Error {
	if _, named := mcp.LookupString(fault.Data, "uri"); fault.Code != mcp.CodeInvalidParams || !named && fault.Data != nil {
		return fault
	}
	own := *fault
	own.Code, own.Raw = mcp.CodeResourceNotFound, nil
	return &own
}

// urlQuestions turns the data of a legacy server's error that requires its user to
// visit URLs into an input request (2025-11-25 client/elicitation, URL Elicitation
// Required Error). It is nil when there are no URLs.
func urlQuestions(data []byte) []byte {
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	count := 0
	elicitations := mcp.Lookup(data, "elicitations")
	for e := range mcp.Elements(elicitations) {
		params := e.Of(elicitations)
		if mode, _ := mcp.LookupString(params, "mode"); mode != "url" || count == maxInputs {
			return nil
		}
		if count++; count > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `"q%d":{"method":"`+mcp.MethodElicit+`","params":`, count)
		out = append(append(out, mcp.RemoveMember(params, "elicitationId")...), '}')
	}
	if count == 0 {
		return nil
	}
	return append(out, "}}"...)
}
