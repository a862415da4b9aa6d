package servers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/guard"
	"github.com/toolgate/toolgate/upstream"
)

func TestGuardSettings(t *testing.T) {
	t.Parallel()
	none, yes := 0, true
	own := guard.Breaker{Failures: 2, Ratio: 0.1, Open: time.Second, Off: true}
	for name, tt := range map[string]struct {
		server config.Server
		want   guard.Settings
	}{
		"nothing said": {config.Server{}, guard.Settings{}},
		"everything": {
			config.Server{
				Timeouts: upstream.Timeouts{Call: time.Minute}, Breaker: guard.Breaker{Failures: 9},
				Retry: guard.Retry{Max: &none, TrustHints: true},
				Tools: map[string]config.Tool{"a": {Breaker: &own}, "b": {Idempotent: &yes}, "c": {ToolShape: proxy.ToolShape{Hidden: true}}},
			},
			guard.Settings{
				Breaker: guard.Breaker{Failures: 9}, Retry: guard.Retry{Max: &none, TrustHints: true}, Call: time.Minute,
				Tools: map[string]guard.Tool{
					"a": {Breaker: &guard.Breaker{Failures: 2, Ratio: 0.1, Open: time.Second, Off: true}}, "b": {Idempotent: &yes},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := guardSettings(&tt.server)
			if len(got.Tools) == 0 {
				got.Tools = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
