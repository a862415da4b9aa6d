package config

import (
	"time"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/result"
	"github.com/toolgate/toolgate/upstream"
)

// Limits bound what one message, session or server may take. Each package that enforces
// some of them declares those.
type Limits struct {
	proxy.ClientLimits
	limit.Settings
	upstream.ServerLimits
	opa.InputLimits
	redact.SearchLimits
	result.StoreLimits
	enable.CallerLimits

	// How long calls may finish when the gateway shuts down; a second signal stops it at once. Default: 5s.
	Drain time.Duration `config:"drain" default:"5s" min:"0s" max:"1h"`
}
