package servers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy/guard"
)

func TestGuardSettings(t *testing.T) {
	t.Parallel()
	none, yes := 0, true
	own := config.BreakerSettings{Failures: 2, Ratio: 0.1, Open: time.Second, Off: true}
	for name, tt := range map[string]struct {
		server config.Server
		want   guard.Settings
	}{
		"nothing said": {config.Server{}, guard.Settings{}},
		"everything": {
			config.Server{
				Timeouts: config.Timeouts{Call: time.Minute}, Breaker: config.BreakerSettings{Failures: 9},
				Retry: config.RetrySettings{Max: &none, TrustHints: true},
				Tools: map[string]config.Tool{"a": {Breaker: &own}, "b": {Idempotent: &yes}, "c": {Hidden: true}},
			},
			guard.Settings{
				Breaker: guard.Breaker{Failures: 9}, NoRetry: true, TrustHints: true, Call: time.Minute,
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
