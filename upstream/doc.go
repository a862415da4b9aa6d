// Package upstream speaks to MCP servers as a client: it starts or reaches
// them, finds out which era they are of, keeps their connections, fetches what
// they offer and carries calls to them.
//
//	Server ── pool of ──► Conn ── over a ──► transport.Link (stdio | sse | streamable HTTP)
//	  │                     │
//	  │ state, catalog      │ era, ids, progress tokens, hop keys
//	  ▼                     ▼
//	Sink (listing changed, events)        one answer per call
//
// A [Server] is one configured server with its state machine. It is safe for
// concurrent use; [Server.Run] owns every goroutine below it. Whatever a
// server does, only its own callers notice.
package upstream
