package mcp

// Origin is where an error of a call arose. It is decided once, where the error is
// seen. The response to the client, the HTTP status, the audit outcome and circuit
// breakers depend on it.
type Origin uint8

// The origins. The zero Origin is the gateway.
const (
	// OriginGateway is the gateway itself: its decisions, limits and settings.
	OriginGateway Origin = iota
	// OriginClient is the client's own request.
	OriginClient
	// OriginHop is the connection between gateway and server, including the gateway's
	// own part of the request: no connection, a forgotten session, or a refused
	// credential, header or revision. It does not concern the client, and does not mean
	// that the server fails.
	OriginHop
	// OriginServer is the server's processing of a request.
	OriginServer
)

// String returns the origin's name.
func (o Origin) String() string {
	switch o {
	case OriginGateway:
		return "gateway"
	case OriginClient:
		return "client"
	case OriginHop:
		return "hop"
	case OriginServer:
		return "server"
	default:
		return "unknown"
	}
}
