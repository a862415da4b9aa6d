package proxy

import (
	"bytes"
	"context"
	"net/http"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Exchange is one request of a client with all that decides its answer. It is
// made by a front binding and not changed afterwards.
type Exchange struct {
	Message   mcp.Message
	Identity  *gate.Identity
	Scope     Scope
	Era       mcp.Era
	Version   mcp.Version
	Transport string   // stdio, sse or http
	Session   *Session // of a legacy client, or of a stdio connection; else nil

	Capabilities []byte      // client capabilities, raw
	ClientInfo   []byte      // raw; nil when not given
	LogLevel     string      // empty asks for no log messages
	Header       http.Header // of a modern HTTP request, whose headers mirror the body; else nil

	way way
}

// way leads back to the client of one request. Its methods are safe for
// concurrent use and do not block longer than a slow client's queue allows.
type way interface {
	// notify sends a notification that belongs to the request. After the
	// answer it does nothing.
	notify(raw []byte)
	// ask sends a request to the client; false when there is no way to.
	ask(ctx context.Context, raw []byte) bool
}

// client is the exchange without its request: who it is and what it can be
// asked, in memory of its own.
func (x *Exchange) client() *Exchange {
	return &Exchange{
		Identity: x.Identity, Scope: x.Scope, Era: x.Era, Version: x.Version, Transport: x.Transport,
		Capabilities: bytes.Clone(x.Capabilities),
	}
}

// token is the progress token that the client gave, nil when it gave none.
func (x *Exchange) token() []byte {
	token := x.Message.Meta(mcp.MetaProgressToken)
	if _, ok := mcp.ParseID(token); !ok {
		return nil
	}
	return token
}

// inputEnded is closed when a client on a shared channel has said its last
// word; nil when there is no such channel.
func (x *Exchange) inputEnded() <-chan struct{} {
	if x.Session == nil || x.Session.duplex == nil {
		return nil
	}
	return x.Session.duplex.ended
}

// sessionID names the session for backends that keep something per session.
func (x *Exchange) sessionID() string {
	if x.Session == nil {
		return ""
	}
	return x.Session.id
}

// declares tells whether the client can answer a question of a method.
func (x *Exchange) declares(method string, params []byte) bool {
	switch method {
	case mcp.MethodSampling:
		sampling := mcp.Lookup(x.Capabilities, "sampling")
		if mcp.Lookup(params, "tools") != nil || mcp.Lookup(params, "toolChoice") != nil {
			return mcp.IsObject(mcp.Lookup(sampling, "tools"))
		}
		return mcp.IsObject(sampling)
	case mcp.MethodRoots:
		return mcp.IsObject(mcp.Lookup(x.Capabilities, "roots"))
	case mcp.MethodElicit:
		elicitation := mcp.Lookup(x.Capabilities, "elicitation")
		if !mcp.IsObject(elicitation) {
			return false
		}
		if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
			return mcp.IsObject(mcp.Lookup(elicitation, "url"))
		}
		// Before 2025-11-25 an empty object meant forms, which it still does.
		return mcp.Lookup(elicitation, "form") != nil || mcp.Lookup(elicitation, "url") == nil
	}
	return false
}
