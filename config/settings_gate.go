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
