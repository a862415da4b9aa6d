package records

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/feedback"
	"github.com/toolgate/toolgate/internal/mcp"
)

// feeds are who is told about executions.
type feeds []*feedback.Feed

// newFeeds makes those of a configuration.
func (r *Records) newFeeds(c *config.Config) (feeds, error) {
	f := &c.Toolgate.Feedback
	var out feeds
	if f.Webhook != "" {
		hook, err := feedback.NewWebhook(f.Webhook, f.Secret.Reveal())
		if err != nil {
			return nil, failure.Newf(failure.Config, "%s: feedback: %w", c.Path, err)
		}
		out = append(out, feedback.NewFeed("webhook", hook, r.log))
	}
	if k := &f.Kafka; len(k.Brokers) > 0 {
		o := feedback.KafkaOptions{Brokers: k.Brokers, Topic: k.Topic, Mechanism: k.SASL.Mechanism, User: k.SASL.User, Password: k.SASL.Password.Reveal()}
		if k.TLS {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if k.CA != "" {
			text, err := os.ReadFile(k.CA)
			if err != nil {
				return nil, failure.Newf(failure.Config, "%s: feedback.kafka.ca: %w", c.Path, err)
			}
			if o.TLS.RootCAs = x509.NewCertPool(); !o.TLS.RootCAs.AppendCertsFromPEM(text) {
				return nil, failure.Newf(failure.Config, "%s: feedback.kafka.ca: %s holds no certificate in PEM", c.Path, k.CA)
			}
		}
		kafka, err := feedback.NewKafka(o)
		if err != nil {
			return nil, failure.Newf(failure.Config, "%s: feedback.kafka: %w", c.Path, err)
		}
		out = append(out, feedback.NewFeed("kafka", kafka, r.log))
	}
	for _, feed := range out {
		r.metrics.WatchFeedback(feed.Name(), func() (sent, dropped uint64) {
			s := feed.Stats()
			return s.Sent, s.Dropped
		})
	}
	return out, nil
}

// run delivers until the context ends, and then what is left.
func (f feeds) run(ctx context.Context) error {
	group := new(errgroup.Group)
	for _, feed := range f {
		group.Go(func() error { return feed.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("tell of executions: %w", err)
	}
	return nil
}

// tell tells of a closed call of a tool that exists. It does not block.
func (f feeds) tell(e *audit.Entry) {
	if len(f) == 0 || e.Method != mcp.MethodToolsCall || e.Server == "" {
		return
	}
	event := feedback.Event{
		ID: e.CallID, Time: e.Time.UTC(), Tool: e.Name, Server: e.Server, Success: e.Outcome == audit.OutcomeOK, ErrorClass: errorClass(e),
		DurationMS: float64(e.DurationUS) / 1000, ArgsHash: e.ArgsHash, ResponseSize: e.BytesOut,
		Tenant: e.Principal.Tenant, PersonaID: e.Principal.Persona, SessionID: e.Session, TraceID: e.TraceID,
	}
	for _, feed := range f {
		feed.Tell(&event)
	}
}
