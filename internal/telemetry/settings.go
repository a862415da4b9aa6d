package telemetry

import "github.com/toolgate/toolgate/config/secret"

// Settings are what an operator says of where traces go.
type Settings struct {
	// OTLP is the URL of a collector that takes OTLP over HTTP, as in http://127.0.0.1:4318; without a path it is /v1/traces. Absent: nothing is traced.
	OTLP string `config:"otlp" format:"url"`
	// Headers are sent with each batch; a value may name variables, as in "Bearer ${TOKEN}". Absent: none.
	Headers map[string]secret.Text `config:"headers"`
	// Sample is the share of calls traced whose caller does not say whether they are. Absent: 0.01.
	Sample float64 `config:"sample" default:"0.01" min:"0" max:"1"`
}
