package telemetry

import (
	"net/url"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings are what an operator says of where traces and metrics go.
type Settings struct {
	// URL of a collector for OTLP over HTTP, such as http://127.0.0.1:4318; the path defaults to /v1/traces. Default: no
	// traces.
	OTLP string `config:"otlp" format:"url"`
	// Headers of each request; a value may contain variables, as in "Bearer ${TOKEN}". Default: none.
	Headers map[string]secret.Text `config:"headers"`
	// Fraction of calls that are traced if the caller does not decide. Default: 0.01.
	Sample float64 `config:"sample" default:"0.01" min:"0" max:"1"`
	// How often the metrics are sent to the collector as well. Default: never; Prometheus reads them.
	Metrics time.Duration `config:"metrics" min:"1s" max:"1h"`
	// How many callers have a value of their own in the label user_id of the metric tool_permission_denied; the others
	// are "_other". Default: 0, and the label is empty.
	Users int `config:"users" min:"0" max:"1000"`
}

// Check implements decode.Checker: metrics need a collector whose address for them is
// known.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	if s.Metrics == 0 {
		return
	}
	if s.OTLP == "" {
		p.At(n.Get("metrics"), path+".metrics", "add otlp: http://127.0.0.1:4318", "nothing says where metrics are sent")
		return
	}
	if u, err := url.Parse(s.OTLP); err == nil && u.User != nil {
		p.At(n.Get("otlp"), path+".otlp", `write headers: { Authorization: "Basic ${COLLECTOR_LOGIN}" } with the base64 of user:password instead`, "metrics are sent without the user and the password of the address")
	} else if _, err := signalURL(s.OTLP, "metrics"); err != nil {
		p.At(n.Get("otlp"), path+".otlp", "write it without a path", "the address for metrics does not follow from it")
	}
}
