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
	// Which calls of tools need an approval in any case: none, those that are destructive, of high risk or not classed, or
	// all. Default: never.
	Require string `config:"require" enum:"never|unsafe_only|always"`
	// How long a call waits for a decision before the client is told to try again later. Default: 30s.
	Wait time.Duration `config:"wait" default:"30s" min:"1s" max:"10m"`
	// How long a question stays open; after the decision, also how long the approval or denial is valid. Default: 10m.
	Valid time.Duration `config:"valid" default:"10m" min:"1s" max:"7d"`
	// Groups whose members may decide. requester is the caller itself, and operator the holder of the admin token.
	// Default: operator; without authentication also requester.
	By []string `config:"by"`
	// Where others are asked, in addition to the caller's client. Default: admin.
	Ask []string `config:"ask" enum:"admin|webhook"`
	// Webhook that receives every question, if ask names it. Default: none.
	Webhook Receiver `config:"webhook"`
}

// Receiver is where questions are posted to, and what both sides sign with.
type Receiver struct {
	// URL to which each question is posted. Required if ask names the webhook.
	URL string `config:"url" format:"url"`
	// Secret that signs questions and answers, of at least 32 characters. Required if ask names the webhook.
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
