package queue_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/native/queue"
)

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
