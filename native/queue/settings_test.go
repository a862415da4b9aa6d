package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/queue"
)

// What says how an engine is reached fits the engine.
func TestSettingsOfAccess(t *testing.T) {
	user := queue.SASL{Mechanism: "scram-sha-512", User: "u", Password: "p"}
	for name, c := range map[string]struct {
		s    queue.Settings
		want string // empty for what is good
	}{
		"NATS with all":           {queue.Settings{Engine: "nats", URL: "nats://h", TLS: true, CA: "ca.pem", Credentials: "u.creds"}, ""},
		"NATS by its scheme":      {queue.Settings{Engine: "nats", URL: "tls://h", CA: "ca.pem"}, ""},
		"Kafka with all":          {queue.Settings{Engine: "kafka", URL: "kafka://h:1", TLS: true, CA: "ca.pem", SASL: user}, ""},
		"Kafka with plain":        {queue.Settings{Engine: "kafka", URL: "kafka://h:1", TLS: true, SASL: queue.SASL{Mechanism: "plain", User: "u", Password: "p"}}, ""},
		"a password in clear":     {queue.Settings{Engine: "kafka", URL: "kafka://h:1", SASL: queue.SASL{Mechanism: "plain", User: "u", Password: "p"}}, "in the clear"},
		"nobody":                  {queue.Settings{Engine: "kafka", URL: "kafka://h:1", SASL: queue.SASL{Mechanism: "plain", User: "u"}}, "nobody"},
		"no mechanism":            {queue.Settings{Engine: "kafka", URL: "kafka://h:1", SASL: queue.SASL{Password: "p"}}, "is missing"},
		"a user of Kafka":         {queue.Settings{Engine: "nats", URL: "nats://h", SASL: user}, "for Kafka"},
		"credentials of NATS":     {queue.Settings{Engine: "kafka", URL: "kafka://h:1", Credentials: "u.creds"}, "for NATS"},
		"an unused authority":     {queue.Settings{Engine: "kafka", URL: "kafka://h:1", CA: "ca.pem"}, "no certificate"},
		"TLS of PostgreSQL":       {queue.Settings{Engine: "postgres", URL: "postgres://h/d", TLS: true}, "NATS and Kafka"},
		"authority of PostgreSQL": {queue.Settings{Engine: "postgres", URL: "postgres://h/d", CA: "ca.pem"}, "NATS and Kafka"},
		"TLS of nothing":          {queue.Settings{Engine: "memory", TLS: true}, "NATS and Kafka"},
	} {
		var p tree.Problems
		c.s.Check(&p, &tree.Node{}, "queue", nil)
		if c.want == "" && len(p.List) > 0 || c.want != "" && (len(p.List) != 1 || !strings.Contains(fmt.Sprint(p.List[0]), c.want)) {
			t.Errorf("%s: %v, not %q", name, p.List, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	for address, engine := range map[string]string{
		"postgres://u:p@h1:1,h2:2/db": "postgres", "postgresql:///db?host=/run": "postgres", "nats://h:1,nats://h:2": "nats", "tls://h": "nats", "kafka://h:1,h:2": "kafka",
	} {
		for _, other := range []string{"postgres", "nats", "kafka", "memory"} {
			s := queue.Settings{Engine: other, URL: secret.Text(address), Queues: map[string]queue.Named{"q": {Key: secret.Text(strings.Repeat("k", 32)), Tools: []string{"a__b*"}}}}
			var p tree.Problems
			s.Check(&p, &tree.Node{}, "queue", []string{"a"})
			if (len(p.List) == 0) != (other == engine) {
				t.Errorf("%s as %s: %v", address, other, p.List)
			}
			if s.Of("a", "bc") != "q" || s.Of("a", "c") != "" || s.Of("", "a__bc") != "" || !s.Uses("a") || s.Uses("b") {
				t.Error("tools are in the wrong queue")
			}
		}
	}
}
