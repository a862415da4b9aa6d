package notify

import (
	"fmt"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/group"
)

// Name is the group's key in the configuration.
const Name = "notify"

// Settings are the section native.notify: it serves messages to users. Without a webhook a
// user is told by their client alone.
type Settings struct {
	group.Inside
	// Where messages are posted to whose user the client does not show them to. Default: nowhere.
	Webhook Receiver `config:"webhook"`
}

// Receiver is where messages are posted to, signed as questions about approvals are.
type Receiver struct {
	// URL to which each message is posted. Required if there is a secret.
	URL string `config:"url" format:"url"`
	// Secret that signs messages, of at least 32 characters. Required if there is a URL.
	Secret secret.Text `config:"secret"`
}

// Check implements [decode.Checker]: a receiver has a URL and a secret to sign with.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	switch w := &s.Webhook; {
	case w.URL == "" && w.Secret == "":
	case w.URL == "":
		p.At(n.Get("webhook"), path+".webhook", "add url: https://...", "the webhook has no url")
	case len(w.Secret) < secret.MinSigning:
		p.At(n.Get("webhook"), path+".webhook.secret", fmt.Sprintf("write at least %d characters", secret.MinSigning), "the secret is too short to sign with")
	}
}
