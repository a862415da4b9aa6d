package queue

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings are the settings of a pool, and of queues that workers elsewhere serve.
type Settings struct {
	// How many tasks run at once. Default: 4.
	Workers int `config:"workers" default:"4" min:"1" max:"1000"`
	// How many tasks may wait for a worker; more are refused. It counts for each queue. Default: 64.
	Waiting int `config:"waiting" default:"64" min:"0" max:"100000"`
	// How many waiting tasks one caller may have. Default: 16.
	WaitingPerPrincipal int `config:"waiting_per_principal" default:"16" min:"0" max:"100000"`
	// How long a result is kept for its client. Default: 10m.
	Keep time.Duration `config:"keep" default:"10m" min:"1s" max:"24h"`
	// What carries calls to `toolgate worker` on other machines; memory has no such workers. Default: memory.
	Engine string `config:"engine" default:"memory" enum:"memory|postgres|nats|kafka"`
	// Address of the engine: postgres://..., nats://... or kafka://HOST:PORT,... Required with an engine other than memory.
	URL secret.Text `config:"url"`
	// Encrypts connections to NATS or Kafka, and verifies the server's certificate. Default: false; PostgreSQL has
	// sslmode in its address.
	TLS bool `config:"tls"`
	// PEM file with the certificate authorities for the server's certificate. Default: those of the system.
	CA string `config:"ca" format:"path"`
	// Credentials file of a NATS user, with a JWT and the seed of its key. Default: what the address says.
	Credentials string `config:"credentials" format:"path"`
	// How toolgate authenticates to Kafka. Default: not at all.
	SASL SASL `config:"sasl"`
	// Queues that workers serve, by name. Default: none.
	Queues map[string]Named `config:"queues"`
}

// SASL is a user of a Kafka cluster.
type SASL struct {
	// SASL mechanism; plain requires tls. Default: none.
	Mechanism string `config:"mechanism" enum:"plain|scram-sha-256|scram-sha-512"`
	// User name. Required with mechanism.
	User string `config:"user"`
	// Password. Required with mechanism.
	Password secret.Text `config:"password"`
}

// Named is one queue that workers serve.
type Named struct {
	// The key that gateways and workers of the queue share: at least 32 characters. Required.
	Key secret.Text `config:"key" required:"true"`
	// Tools whose calls go to the queue: native and declared ones, as NAMESPACE__TOOL, where TOOL may have * and ?.
	// Default: none.
	Tools []string `config:"tools"`
}

// Memory is the engine that is none: tools run in the process of the gateway.
const Memory = "memory"

// engines are the schemes of addresses, by engine.
var engines = map[string][]string{"postgres": {"postgres", "postgresql"}, "nats": {"nats", "tls"}, "kafka": {"kafka"}}

var queueName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// Of returns the queue that a tool is marked for, empty for none.
func (s *Settings) Of(namespace, tool string) string {
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		for _, pattern := range s.Queues[name].Tools {
			of, glob, _ := strings.Cut(pattern, "__")
			if is, err := path.Match(glob, tool); of == namespace && is && err == nil {
				return name
			}
		}
	}
	return ""
}

// Uses tells whether tools of a namespace may be in a queue.
func (s *Settings) Uses(namespace string) bool {
	for _, q := range s.Queues {
		if slices.ContainsFunc(q.Tools, func(pattern string) bool { return strings.HasPrefix(pattern, namespace+"__") }) {
			return true
		}
	}
	return false
}

// encrypted tells whether connections to the engine are encrypted by these settings.
func (s *Settings) encrypted() bool { return s.TLS || strings.HasPrefix(s.URL.Reveal(), "tls://") }

// checkAccess reports what is wrong about how the engine is reached.
func (s *Settings) checkAccess(p *tree.Problems, n *tree.Node, at string) {
	sasl := n.Get("sasl")
	switch broker := s.Engine == "nats" || s.Engine == "kafka"; {
	case s.TLS && !broker:
		p.At(n.Get("tls"), at+".tls", "remove it; with PostgreSQL, write ?sslmode=verify-full behind the address", "it is for NATS and Kafka")
	case s.CA != "" && !broker:
		p.At(n.Get("ca"), at+".ca", "remove it; with PostgreSQL, write ?sslmode=verify-full&sslrootcert=FILE behind the address", "it is for NATS and Kafka")
	case s.CA != "" && !s.encrypted():
		p.At(n.Get("ca"), at+".ca", "add tls: true", "no certificate is looked at")
	case s.Credentials != "" && s.Engine != "nats":
		p.At(n.Get("credentials"), at+".credentials", "remove it", "it is for NATS")
	case s.SASL != SASL{} && s.Engine != "kafka":
		p.At(sasl, at+".sasl", "remove it, and write the user into the address", "it is for Kafka")
	case s.SASL.Mechanism != "" && (s.SASL.User == "" || s.SASL.Password == ""):
		p.At(sasl, at+".sasl", "add user and password", "there is nobody to authenticate as")
	case s.SASL.Mechanism == "" && s.SASL != SASL{}:
		p.At(sasl, at+".sasl.mechanism", "write scram-sha-512, scram-sha-256 or plain", "is missing")
	case s.SASL.Mechanism == "plain" && !s.TLS:
		p.At(sasl, at+".sasl.mechanism", "add tls: true, or write scram-sha-512", "the password would be sent in the clear")
	}
}

// Check reports what the settings have wrong together. namespaces are those of native and
// declared tools.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, at string, namespaces []string) {
	schemes := engines[s.Engine]
	first, _, _ := strings.Cut(s.URL.Reveal(), ",") // of several servers
	u, err := url.Parse(first)
	switch {
	case s.Engine == Memory && s.URL != "":
		p.At(n.Get("url"), at+".url", "write engine: postgres or another, or remove it", "the engine memory has no address")
	case s.Engine == Memory && len(s.Queues) > 0:
		p.At(n.Get("queues"), at+".queues", "write engine: postgres or another, with its url", "the engine memory carries nothing to workers")
	case s.Engine != Memory && s.URL == "":
		p.At(n, at+".url", "write "+schemes[0]+"://...", "the engine %s has no address", s.Engine)
	case s.Engine != Memory && (err != nil || u.Host == "" && u.RawQuery == "" || !slices.Contains(schemes, u.Scheme)):
		p.At(n.Get("url"), at+".url", "write "+schemes[0]+"://..., with every character of a password that is no letter and no digit as %XX", "this is not the address of an engine of the kind %s", s.Engine)
	}
	s.checkAccess(p, n, at)
	queues, seen := n.Get("queues"), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		q, node, key := s.Queues[name], queues.Get(name), at+".queues."+name
		if !queueName.MatchString(name) {
			p.At(node, key, "write up to 40 of a-z, 0-9 and -", "%.60q is not the name of a queue", name)
		}
		if _, err := ParseKey(q.Key.Reveal()); err != nil && q.Key != "" {
			p.At(node.Get("key"), key+".key", "make one with `openssl rand -hex 32`, and give it to the gateways and the workers", "%v", err)
		}
		for i, pattern := range q.Tools {
			item, where := node.Get("tools").Item(i), fmt.Sprintf("%s.tools[%d]", key, i)
			namespace, glob, cut := strings.Cut(pattern, "__")
			_, wrong := path.Match(glob, "")
			switch {
			case !cut || namespace == "" || glob == "" || wrong != nil:
				p.At(item, where, "write NAMESPACE__TOOL, such as code__* or shop__render", "%.80q does not name tools", pattern)
			case !slices.Contains(namespaces, namespace):
				p.At(item, where, p.DidYouMean(namespace, namespaces), "%.80q has no native or declared tools, and only these run on workers", namespace)
			case seen[pattern] != "":
				p.At(item, where, "remove one", "the tools are in the queue %s already", seen[pattern])
			}
			seen[pattern] = name
		}
	}
}
