package config

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
)

// Audit is the record of calls.
type Audit struct {
	// Path is the file the record is appended to. Absent: audit.jsonl in the state folder.
	Path string `config:"path" format:"path"`
	// Mode is whether calls are refused while it cannot be written. Absent: required where authentication is configured, else best_effort.
	Mode string `config:"mode" enum:"required|best_effort"`
	// Fsync is when the file is forced to disk: after every entry, at short intervals, or by the system. Absent: interval.
	Fsync string `config:"fsync" enum:"always|interval|never" default:"interval"`
	// ArgsHash is how arguments are recorded. Absent: sha256.
	ArgsHash string `config:"args_hash" enum:"sha256" default:"sha256"`
	// Fields are arguments of tools that are kept as they are, as JSON pointers by a glob of exposed names; secrets in them are not. Absent: none.
	Fields map[string][]string `config:"fields"`
	// DecisionInputs keeps the arguments of every call, sealed with the keys, for `toolgate policy replay`. Absent: only their hash is kept.
	DecisionInputs bool `config:"decision_inputs"`
	// RotateSize is how large a file gets before it is put aside and the next one begun; 0 is any size. Absent: 128MiB.
	RotateSize units.Size `config:"rotate_size" default:"128MiB"`
	// RotateAge is how old the first entry of a file gets before that; 0 is any age. Absent: 24h.
	RotateAge time.Duration `config:"rotate_age" default:"24h"`
}

// Log is what is written to stderr.
type Log struct {
	// Level is the least that is logged; -v and --quiet come before it. Absent: warn.
	Level string `config:"level" enum:"debug|info|warn|error" default:"warn"`
	// Format is how. Absent: auto, which is text on a terminal and JSON elsewhere.
	Format string `config:"format" enum:"auto|text|json" default:"auto"`
}

// Telemetry is where traces go.
type Telemetry struct {
	// OTLP is the URL of a collector that takes OTLP over HTTP, as in http://127.0.0.1:4318; without a path it is /v1/traces. Absent: nothing is traced.
	OTLP string `config:"otlp" format:"url"`
	// Headers are sent with each batch; a value may name variables, as in "Bearer ${TOKEN}". Absent: none.
	Headers map[string]secret.Text `config:"headers"`
	// Sample is the share of calls traced whose caller does not say whether they are. Absent: 0.01.
	Sample float64 `config:"sample" default:"0.01" min:"0" max:"1"`
}

// Feedback is who is told about executions of tools.
type Feedback struct {
	// Webhook is a URL that batches of them are posted to. Absent: none.
	Webhook string `config:"webhook" format:"url"`
	// Secret signs them (Standard Webhooks), at least 32 characters. Required with webhook.
	Secret secret.Text `config:"secret"`
	// Kafka is a topic each is written to. Absent: none.
	Kafka Kafka `config:"kafka"`
}

// Kafka is a topic.
type Kafka struct {
	// Brokers of the cluster, as host:port. Absent: off.
	Brokers []string `config:"brokers"`
	// Topic written to. Absent: tool.executions.
	Topic string `config:"topic" default:"tool.executions"`
	// TLS speaks to the brokers with TLS. Absent: false.
	TLS bool `config:"tls"`
	// CA is a PEM file of the authorities of their certificates. Absent: those of the system.
	CA string `config:"ca" format:"path"`
	// SASL is how toolgate authenticates. Absent: not at all.
	SASL SASL `config:"sasl"`
}

// SASL is a user of a cluster.
type SASL struct {
	// Mechanism; plain needs tls. Absent: off.
	Mechanism string `config:"mechanism" enum:"plain|scram-sha-256|scram-sha-512"`
	// User is its name. Required with mechanism.
	User string `config:"user"`
	// Password is its password. Required with mechanism.
	Password secret.Text `config:"password"`
}

// Retention is how long records are kept.
type Retention struct {
	// Executions is for the execution log. Absent: 90d.
	Executions time.Duration `config:"executions" default:"90d"`
	// Audit is for files of the audit record that were put aside; 0 is for ever. Absent: 365d.
	Audit time.Duration `config:"audit" default:"365d"`
}
