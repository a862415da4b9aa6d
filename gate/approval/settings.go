package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings are what an operator says of who answers questions about calls, and how
// long. Where By is empty, nobody's answer counts.
type Settings struct {
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
	Webhook Receiver `config:"webhook"`
}

// Receiver is where questions are posted to, and what both sides sign with.
type Receiver struct {
	// URL each question is posted to. Required where ask names the webhook.
	URL string `config:"url" format:"url"`
	// Secret signs questions and answers, at least 32 characters. Required where ask names the webhook.
	Secret secret.Text `config:"secret"`
}

// Posts tells whether questions are posted to the webhook.
func (s *Settings) Posts() bool { return slices.Contains(s.Ask, "webhook") }

// Check implements [decode.Checker]: ask names a configured webhook, and its secret is
// long enough to trust answers.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for i, by := range s.By {
		if strings.TrimSpace(by) == "" {
			p.At(n.Get("by").Item(i), fmt.Sprintf("%s.by[%d]", path, i), "write a group, requester or operator", "the name is empty")
		}
	}
	hook := n.Get("webhook")
	switch asked := s.Posts(); {
	case asked && s.Webhook.URL == "":
		p.At(n.Get("ask"), path+".ask", "add webhook: { url, secret }", "the webhook has no url")
	case s.Webhook.URL != "" && !asked:
		p.At(hook, path+".webhook", "add webhook to ask", "nothing is posted there")
	case asked && len(s.Webhook.Secret) < secret.MinSigning:
		p.At(hook, path+".webhook.secret", fmt.Sprintf("write at least %d characters", secret.MinSigning), "the secret is too short to sign with")
	}
}
