package telemetry

import "github.com/toolgate/toolgate/config/secret"

// Settings are what an operator says of where traces go.
type Settings struct {
	// URL of a collector for OTLP over HTTP, such as http://127.0.0.1:4318; the path defaults to /v1/traces. Default: no
	// traces.
	OTLP string `config:"otlp" format:"url"`
	// Headers of each request; a value may contain variables, as in "Bearer ${TOKEN}". Default: none.
	Headers map[string]secret.Text `config:"headers"`
	// Fraction of calls that are traced if the caller does not decide. Default: 0.01.
	Sample float64 `config:"sample" default:"0.01" min:"0" max:"1"`
	// How many callers have a value of their own in the label user_id of the metric tool_permission_denied; the others
	// are "_other". Default: 0, and the label is empty.
	Users int `config:"users" min:"0" max:"1000"`
}
