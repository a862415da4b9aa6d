package proxy

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

// deliver turns the backend's answer into the client's. Within one era the
// bytes stay as they are, but for URIs, hop keys and the state of a round.
func (g *Gateway) deliver(x *Exchange, r *Route, rec *record, call *mcp.Call, got mcp.Answer) reply {
	if got.Fault != nil {
		return faulty(g.upstreamFault(x, r, got.Fault))
	}
	result := got.Result
	kind, typed := mcp.LookupString(result, "resultType")
	if typed && kind != mcp.ResultComplete {
		if kind != mcp.ResultInputRequired || x.Era != mcp.Modern || call.Method == mcp.MethodComplete {
			return g.refuse(x, rec.refused(&Refusal{
				Kind: "upstream_error", Code: codeUnavailable, Phase: "upstream",
				Text: fmt.Sprintf("The server %s answered with the result type %q, which this client cannot take.", r.Server, kind),
			}))
		}
		sealed, err := g.rounds.seal(x, r, rec, call, result)
		if err != nil {
			return g.refuse(x, rec.refused(err))
		}
		return reply{result: g.modernResult(sealed, true, false)}
	}
	result = exposeURIs(r.to.mount.Namespace, call.Method, result)
	if x.Era == mcp.Modern {
		return reply{result: g.modernResult(result, typed, call.Method == mcp.MethodRead)}
	}
	if got.Era == mcp.Modern {
		for _, member := range [...]string{"resultType", "ttlMs", "cacheScope"} {
			result = mcp.RemoveMember(result, member)
		}
	}
	return reply{result: mcp.RewriteMeta(result, nil)}
}

// modernResult gives a result what 2026-07-28 wants on every one: its type,
// the gateway as its maker and, where it can be cached, for how long.
func (g *Gateway) modernResult(result []byte, typed, cacheable bool) []byte {
	result = mcp.RewriteMeta(result, g.serverMeta)
	if cacheable {
		if mcp.LookupSpan(result, "ttlMs").Absent() {
			result = mcp.SetMember(result, "ttlMs", []byte("0"))
		}
		result = mcp.SetMember(result, "cacheScope", []byte(`"private"`))
	}
	if !typed {
		result = mcp.SetMember(result, "resultType", []byte(`"complete"`))
	}
	return result
}

// upstreamFault is an error of the server for the client: its own bytes, but
// for codes that concern the hop between gateway and server, or another era.
func (g *Gateway) upstreamFault(x *Exchange, r *Route, fault *mcp.Error) *mcp.Error {
	switch {
	case fault.Code == mcp.CodeMissingCapability && x.Era == mcp.Modern:
		own := mcp.Errorf(mcp.CodeMissingCapability, "The server %s needs a capability that the client did not declare", r.Server)
		if required := mcp.Lookup(fault.Data, "requiredCapabilities"); required != nil {
			own.Data = append(append([]byte(`{"requiredCapabilities":`), required...), '}')
		}
		return own
	case fault.Code >= -32029 && fault.Code <= -32020: // of the hop to the server
		return mcp.Errorf(mcp.CodeInternal, "The server %s could not handle the request", r.Server)
	case fault.Code == mcp.CodeResourceNotFound && x.Era == mcp.Modern:
		own := *fault // 2026-07-28 basic, Error Codes: replaced by -32602
		own.Code, own.Raw = mcp.CodeInvalidParams, nil
		return &own
	}
	return fault
}
