package config

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
)

// Gate is the authorization chain as a whole.
type Gate struct {
	// Open says that everyone known may call everything enabled. Absent: no.
	Open bool `config:"open"`
}

// Registry is the catalog of capabilities.
type Registry struct {
	// Default is the state of a capability nobody decided about. Absent: enabled.
	Default string `config:"default" enum:"enabled|disabled"`
	// OnNew is what happens to a new definition: it is served, held until it is accepted, or, with adopt, served where it comes with the first list of a server that was never seen and held afterwards. Absent: adopt with authentication, else enable.
	OnNew string `config:"on_new" enum:"enable|hold|adopt"`
	// OnChange is what happens to a changed definition. Absent: hold with authentication, else enable.
	OnChange string `config:"on_change" enum:"enable|hold"`
	// Seed is a file that says what is written about a capability when it is first seen. Absent: none.
	Seed string `config:"seed" format:"path"`
}

// Capsule is a named set of capabilities.
type Capsule struct {
	// Visible are globs of names in lists. Absent: nothing.
	Visible []string `config:"visible"`
	// Callable are globs of names that may be called. Absent: nothing.
	Callable []string `config:"callable"`
	// Personas that hold the capsule. Absent: none.
	Personas []string `config:"personas"`
	// Groups that hold the capsule. Absent: none.
	Groups []string `config:"groups"`
}

// OPA evaluates a Rego policy; at most one of Path, Bundle and URL is set.
type OPA struct {
	// Path is a folder of policies. Absent: none.
	Path string `config:"path" format:"path"`
	// Bundle is the https URL of a bundle. Absent: none.
	Bundle string `config:"bundle" format:"url"`
	// BundleKey is a file with the public key, in PEM, of who signs the bundle; one that is not signed by it is refused. Absent: whoever serves the bundle decides.
	BundleKey string `config:"bundle_key" format:"path"`
	// URL is a remote policy server, with https. Absent: evaluated here.
	URL string `config:"url" format:"url"`
	// Decision is the rule asked. Absent: data.toolgate.decision.
	Decision string `config:"decision"`
	// RegoVersion is the language version. Absent: v1.
	RegoVersion string `config:"rego_version" enum:"v0|v1"`
	// Mode is whether its denials count. Absent: enforce.
	Mode string `config:"mode" enum:"enforce|shadow"`
	// Actions renames the actions for the policy. Absent: unchanged.
	Actions map[string]string `config:"actions"`
}

// Approvals says who answers questions about calls, and how long.
type Approvals struct {
	// Wait is how long a call waits for an answer before it is told to come again. Absent: 30s.
	Wait time.Duration `config:"wait" default:"30s" min:"1s" max:"10m"`
	// Valid is how long a question may be answered, and then how long the grant may be used, or the denial counts. Absent: 10m.
	Valid time.Duration `config:"valid" default:"10m" min:"1s" max:"7d"`
	// By are groups whose answer counts, or requester for who makes the call and operator for who has the admin
	// token. Absent: operator, and without authentication requester as well.
	By []string `config:"by"`
	// Ask is where questions to others go besides the client of who makes the call. Absent: admin.
	Ask []string `config:"ask" enum:"admin|webhook"`
	// Webhook is told of every question where ask names it. Absent: nobody is.
	Webhook ApprovalWebhook `config:"webhook"`
}

// ApprovalWebhook is where questions are posted to, and what both sides sign with.
type ApprovalWebhook struct {
	// URL each question is posted to. Required where ask names the webhook.
	URL string `config:"url" format:"url"`
	// Secret signs questions and answers, at least 32 characters. Required where ask names the webhook.
	Secret secret.Text `config:"secret"`
}
