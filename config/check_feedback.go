package config

import (
	"fmt"
	"net"
)

func checkFeedback(p *problems, n *Node, f *Feedback) {
	switch {
	case f.Webhook != "" && len(f.Secret) < minSecret:
		p.at(n, "feedback.secret", fmt.Sprintf("write at least %d characters", minSecret), "the secret is too short to sign with")
	case f.Webhook == "" && f.Secret != "":
		p.at(n.Get("secret"), "feedback.secret", "add webhook: URL", "nothing is signed with it")
	}
	kafka, k := n.Get("kafka"), &f.Kafka
	for i, broker := range k.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			p.at(kafka.Get("brokers").item(i), fmt.Sprintf("feedback.kafka.brokers[%d]", i), "write it as host:port", "%.80q is no address", broker)
		}
	}
	sasl := kafka.Get("sasl")
	switch {
	case len(k.Brokers) > 0 && k.Topic == "":
		p.at(kafka.Get("topic"), "feedback.kafka.topic", "write a name, or leave it out", "the topic has no name")
	case k.CA != "" && !k.TLS:
		p.at(kafka.Get("ca"), "feedback.kafka.ca", "add tls: true", "no certificate is looked at")
	case k.SASL.Mechanism != "" && (k.SASL.User == "" || k.SASL.Password == ""):
		p.at(sasl, "feedback.kafka.sasl", "add user and password", "there is nobody to authenticate as")
	case k.SASL.Mechanism == "" && k.SASL.User != "":
		p.at(sasl, "feedback.kafka.sasl.mechanism", "write scram-sha-512, scram-sha-256 or plain", "is missing")
	case k.SASL.Mechanism == "plain" && !k.TLS:
		p.at(sasl, "feedback.kafka.sasl.mechanism", "add tls: true, or write scram-sha-512", "the password would be sent in the clear")
	}
}
