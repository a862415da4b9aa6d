package feedback

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings are what an operator says of who is told about executions of tools.
type Settings struct {
	// URL to which batches of events are posted. Default: none.
	Webhook string `config:"webhook" format:"url"`
	// Secret that signs the batches (Standard Webhooks), of at least 32 characters. Required with webhook.
	Secret secret.Text `config:"secret"`
	// Members of an event: event has all that docs/telemetry.md lists, context_feedback has tool_name, success,
	// duration_ms, args_hash, response_size, tenant and persona_id. Default: event.
	Format Format `config:"format" enum:"event|context_feedback" default:"event"`
	// Kafka topic to which events are written. Default: none.
	Kafka KafkaSettings `config:"kafka"`
}

// KafkaSettings are a topic.
type KafkaSettings struct {
	// Brokers of the cluster, as host:port. Default: none.
	Brokers []string `config:"brokers"`
	// Name of the topic. Default: tool.executions.
	Topic string `config:"topic" default:"tool.executions"`
	// Encrypts connections to the brokers. Default: false.
	TLS bool `config:"tls"`
	// PEM file with the certificate authorities for the brokers' certificates. Default: those of the system.
	CA string `config:"ca" format:"path"`
	// How toolgate authenticates to the brokers. Default: not at all.
	SASL SASL `config:"sasl"`
}

// SASL is a user of a cluster.
type SASL struct {
	// SASL mechanism; plain requires tls. Default: none.
	Mechanism string `config:"mechanism" enum:"plain|scram-sha-256|scram-sha-512"`
	// User name. Required with mechanism.
	User string `config:"user"`
	// Password. Required with mechanism.
	Password secret.Text `config:"password"`
}

// Feeds are the feeds to those who are told. Errors begin with the key that they are
// about.
func (s *Settings) Feeds(log *slog.Logger) ([]*Feed, error) {
	var feeds []*Feed
	if s.Webhook != "" {
		hook, err := NewWebhook(s.Webhook, s.Secret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("feedback: %w", err)
		}
		feeds = append(feeds, NewFeed("webhook", hook, log))
	}
	if len(s.Kafka.Brokers) > 0 {
		kafka, err := NewKafka(s.Kafka)
		if err != nil {
			return nil, fmt.Errorf("feedback.%w", err)
		}
		feeds = append(feeds, NewFeed("kafka", kafka, log))
	}
	for _, feed := range feeds {
		feed.format = s.Format
	}
	return feeds, nil
}

// authorities is how the brokers are verified.
func (k *KafkaSettings) authorities() (*tls.Config, error) {
	verify := &tls.Config{MinVersion: tls.VersionTLS12}
	if k.CA == "" {
		return verify, nil
	}
	text, err := os.ReadFile(k.CA)
	if err != nil {
		return nil, fmt.Errorf("kafka.ca: %w", err)
	}
	if verify.RootCAs = x509.NewCertPool(); !verify.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("kafka.ca: %s holds no certificate in PEM", k.CA)
	}
	return verify, nil
}

// Check implements [decode.Checker]: what is told can be trusted, and Kafka reached as
// it is written.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	switch {
	case s.Webhook != "" && len(s.Secret) < secret.MinSigning:
		p.At(n, path+".secret", fmt.Sprintf("write at least %d characters", secret.MinSigning), "the secret is too short to sign with")
	case s.Webhook == "" && s.Secret != "":
		p.At(n.Get("secret"), path+".secret", "add webhook: URL", "nothing is signed with it")
	}
	kafka, k := n.Get("kafka"), &s.Kafka
	for i, broker := range k.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			p.At(kafka.Get("brokers").Item(i), fmt.Sprintf("%s.kafka.brokers[%d]", path, i), "write it as host:port", "%.80q is not an address", broker)
		}
	}
	sasl := kafka.Get("sasl")
	switch {
	case len(k.Brokers) > 0 && k.Topic == "":
		p.At(kafka.Get("topic"), path+".kafka.topic", "write a name, or leave it out", "the topic has no name")
	case k.CA != "" && !k.TLS:
		p.At(kafka.Get("ca"), path+".kafka.ca", "add tls: true", "no certificate is looked at")
	case k.SASL.Mechanism != "" && (k.SASL.User == "" || k.SASL.Password == ""):
		p.At(sasl, path+".kafka.sasl", "add user and password", "there is nobody to authenticate as")
	case k.SASL.Mechanism == "" && k.SASL.User != "":
		p.At(sasl, path+".kafka.sasl.mechanism", "write scram-sha-512, scram-sha-256 or plain", "is missing")
	case k.SASL.Mechanism == "plain" && !k.TLS:
		p.At(sasl, path+".kafka.sasl.mechanism", "add tls: true, or write scram-sha-512", "the password would be sent in the clear")
	}
}
