package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/telemetry"
)

// A collector that sends spans elsewhere sends the credentials with them, so nobody
// goes there.
func TestCollectorThatRedirects(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(elsewhere.Close)
	collector := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(collector.Close)
	all, end := traces(t, telemetry.TraceOptions{Settings: telemetry.Settings{OTLP: collector.URL, Headers: map[string]secret.Text{"X-Key": "secret"}, Sample: 1}})
	all.Begin("", "", time.Now()).End("call", "")
	end()
	if asked.Load() || all.Dropped() != 1 {
		t.Errorf("asked elsewhere: %v, dropped %d", asked.Load(), all.Dropped())
	}
}
