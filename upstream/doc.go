// Package upstream speaks to MCP servers as a client. It starts or reaches them,
// detects their era, keeps their connections, reads their lists and sends calls to them.
//
//	Server ── connPool ──► Conn ── over a ──► transport.Link (stdio | sse | streamable HTTP)
//	  │                     │
//	  │ catalog             │ era, ids, progress tokens, hop keys
//	  ▼                     ▼
//	Sink (listing changed, events)        one answer per call
//
// A [Server] is one configured server. Its state lies in three types with a lock each:
// connPool has the connections, catalog the lists and the status, subscriptions who is
// subscribed to what. A [ServerPool] has a Server for each principal that signs in by
// itself.
//
// A Server is safe for concurrent use; [Server.Run] owns every goroutine below it.
// Whatever a server does, only its own callers notice.
package upstream
