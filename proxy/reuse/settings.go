package reuse

import "time"

// Settings say whether results of a tool are reused.
type Settings struct {
	// How long a result answers the same call, from when the server answered. Default: no result is reused.
	TTL time.Duration `config:"ttl" required:"true" min:"1s" max:"24h"`
	// Who is given a result again: only the principal whose call it was. Default: principal.
	Per string `config:"per" enum:"principal" default:"principal"`
}
