package mcp

// Origin is where what went wrong with a call arose. It is decided once, by who saw
// it arise; what the client is told, the HTTP status, the outcome in the audit log
// and what a circuit breaker makes of it all follow from it.
type Origin uint8

// The origins. The zero Origin is the gateway.
const (
	// OriginGateway is the gateway itself: what it decided, its limits, its settings.
	OriginGateway Origin = iota
	// OriginClient is the client's own request.
	OriginClient
	// OriginHop is the way between the gateway and the server, with the gateway's own
	// part of the request: no connection, a session that is forgotten, a credential, a
	// header or a revision that is refused. It is no affair of the client's, and no
	// sign that the server fails.
	OriginHop
	// OriginServer is what the server made of a request that it got.
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
