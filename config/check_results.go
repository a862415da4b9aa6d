package config

import (
	"fmt"
	"net"
	"slices"

	"github.com/toolgate/toolgate/config/tree"
)

const (
	// maxPatterns is how many expressions one level may have.
	maxPatterns = 32
	// minRedacted is the length from which on a value is taken for a secret.
	minRedacted = 8
)

// checkResults reports what the values of one level of results together have
// wrong. It is sized where another level says how large a result may be, or may.
func checkResults(p *tree.Problems, n *tree.Node, path string, r *Results, sized bool) {
	if r.Larger != "" && r.MaxBytes == 0 && !sized {
		p.At(n.Get("larger"), path+".larger", "add max_bytes", "nothing says from which size on")
	}
	redact := n.Get("redact")
	for i, value := range r.Redact.Values {
		at := fmt.Sprintf("%s.redact.values[%d]", path, i)
		known := slices.ContainsFunc(p.List, func(e *tree.Error) bool { return e.Key == at })
		if len(value) < minRedacted && !known {
			p.At(redact.Get("values").Item(i), at,
				fmt.Sprintf("write one of %d bytes or more", minRedacted), "the value is so short that it would be found in ordinary text")
		}
	}
	if len(r.Redact.Patterns) > maxPatterns {
		p.At(redact.Get("patterns"), path+".redact.patterns", "join some of them", "there are %d patterns and may be %d", len(r.Redact.Patterns), maxPatterns)
	}
	names := map[string]int{}
	for i, pattern := range r.Redact.Patterns {
		p.Unique(redact.Get("patterns").Item(i), fmt.Sprintf("%s.redact.patterns[%d]", path, i), "name", pattern.Name, names)
	}
}

func checkFeedback(p *tree.Problems, n *tree.Node, f *Feedback) {
	switch {
	case f.Webhook != "" && len(f.Secret) < minSecret:
		p.At(n, "feedback.secret", fmt.Sprintf("write at least %d characters", minSecret), "the secret is too short to sign with")
	case f.Webhook == "" && f.Secret != "":
		p.At(n.Get("secret"), "feedback.secret", "add webhook: URL", "nothing is signed with it")
	}
	kafka, k := n.Get("kafka"), &f.Kafka
	for i, broker := range k.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			p.At(kafka.Get("brokers").Item(i), fmt.Sprintf("feedback.kafka.brokers[%d]", i), "write it as host:port", "%.80q is no address", broker)
		}
	}
	sasl := kafka.Get("sasl")
	switch {
	case len(k.Brokers) > 0 && k.Topic == "":
		p.At(kafka.Get("topic"), "feedback.kafka.topic", "write a name, or leave it out", "the topic has no name")
	case k.CA != "" && !k.TLS:
		p.At(kafka.Get("ca"), "feedback.kafka.ca", "add tls: true", "no certificate is looked at")
	case k.SASL.Mechanism != "" && (k.SASL.User == "" || k.SASL.Password == ""):
		p.At(sasl, "feedback.kafka.sasl", "add user and password", "there is nobody to authenticate as")
	case k.SASL.Mechanism == "" && k.SASL.User != "":
		p.At(sasl, "feedback.kafka.sasl.mechanism", "write scram-sha-512, scram-sha-256 or plain", "is missing")
	case k.SASL.Mechanism == "plain" && !k.TLS:
		p.At(sasl, "feedback.kafka.sasl.mechanism", "add tls: true, or write scram-sha-512", "the password would be sent in the clear")
	}
}
