package intercept

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/loopback"
)

// Settings are what an operator says of one interceptor.
type Settings struct {
	// Name of the interceptor, in the audit log, metrics and refusals. Required.
	Name string `config:"name" required:"true" format:"id"`
	// Patterns of the exposed names of the tools, prompts and resources that it is asked about. Default: all.
	Match []gate.Glob `config:"match"`
	// When it is asked: before a call is delivered, after there is a result, or once about each definition before that is
	// listed. Default: before and after.
	Phase []Phase `config:"phase" enum:"before|after|list"`
	// validation only looks; several are asked beside one another. mutation may also change arguments and results; one is
	// asked after the other. Default: validation.
	Type string `config:"type" enum:"validation|mutation" default:"validation"`
	// Order of the mutations: the lowest number first, or HIGHEST (-1000), HIGH (-100), NORMAL (0), LOW (100) or LOWEST
	// (1000). Default: NORMAL.
	Priority units.Priority `config:"priority"`
	// Receiver of a signed POST for each call. Required without server and plugin.
	Webhook Webhook `config:"webhook"`
	// Key of a server that hosts the interceptor under this name (SEP-2624). Default: none.
	Server string `config:"server"`
	// Key of a plugin under native.plugins that looks at calls. Default: none.
	Plugin string `config:"plugin"`
	// How long it may take. Default: 1s.
	Timeout time.Duration `config:"timeout" default:"1s" min:"10ms" max:"30s"`
	// What happens where it fails, does not answer in time, or answers something that is not allowed: deny refuses the
	// call, and skip goes on without it. Default: deny.
	OnError string `config:"on_error" enum:"deny|skip" default:"deny"`
	// enforce does what it says, and audit only records what it would have done. Default: enforce.
	Mode string `config:"mode" enum:"enforce|audit" default:"enforce"`
}

// Webhook is where an interceptor is asked.
type Webhook struct {
	// URL to which each question is posted: https, or http on this machine. Required.
	URL string `config:"url" format:"url"`
	// Secret that signs the questions, of at least 32 characters. Required.
	Secret secret.Text `config:"secret"`
}

// Check implements [decode.Checker].
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	hook := n.Get("webhook")
	ways := 0
	for _, way := range [...]string{s.Webhook.URL, s.Server, s.Plugin} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		p.At(n, path, "keep one of webhook, server and plugin", "the interceptor %s is asked in several ways", s.Name)
	case ways == 0:
		p.At(n, path, "add webhook: { url, secret }, server: KEY or plugin: KEY", "the interceptor %s has nobody to ask", s.Name)
	case s.Webhook.URL == "":
	case !guarded(s.Webhook.URL):
		p.At(hook, path+".webhook.url", "write https://", "calls would be readable on their way")
	case len(s.Webhook.Secret) < secret.MinSigning:
		p.At(hook, path+".webhook.secret", fmt.Sprintf("write at least %d characters", secret.MinSigning), "the secret is too short to sign with")
	}
	if s.Priority != 0 && !s.mutates() {
		p.At(n.Get("priority"), path+".priority", "leave it out, or write type: mutation", "validations are asked beside one another and have no order")
	}
}

// guarded reports whether nobody on the way can read what is sent to a URL.
func guarded(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	return u.Scheme == "http" && loopback.Host(u.Hostname())
}

// Types of interceptors.
const (
	Validation = "validation"
	Mutation   = "mutation"
)

func (s *Settings) mutates() bool { return s.Type == Mutation }
func (s *Settings) audits() bool  { return s.Mode == "audit" }
func (s *Settings) skips() bool   { return s.OnError == "skip" }

// timeout is a second for the zero Settings.
func (s *Settings) timeout() time.Duration {
	if s.Timeout <= 0 {
		return time.Second
	}
	return s.Timeout
}

// meets reports whether it is asked about a name.
func (s *Settings) meets(phase Phase, name string) bool {
	return (len(s.Phase) == 0 && phase != List || slices.Contains(s.Phase, phase)) &&
		(len(s.Match) == 0 || slices.ContainsFunc(s.Match, func(g gate.Glob) bool { return g.Match(name) }))
}
