//go:build !windows

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/feedback"
)

// Every execution of a tool reaches the webhook, also those just before the end;
// a call of what does not exist is none.
func TestFeedbackOfTheProgram(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var body struct{ Data []feedback.Event }
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil || !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") {
			t.Errorf("%v: %v", err, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range body.Data {
			if e.ID == "" || e.Time.IsZero() || e.DurationMS <= 0 || len(e.ArgsHash) != 64 || e.Tenant != "default" || e.ResponseSize == 0 && e.Success {
				t.Errorf("%+v", e)
			}
			got = append(got, strings.TrimSpace(e.Server+" "+e.Tool+" "+e.ErrorClass))
		}
	}))
	t.Cleanup(hook.Close)
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, map[string]any{"feedback": map[string]any{"webhook": hook.URL, "secret": strings.Repeat("s", 32)}})
	p, _ := h.up(t)
	h.pid(t, "a")
	for _, tool := range []string{"a__fail", "a__fault", "a__none"} {
		if o := h.run(t, "call", tool, "--file", h.file); o.code != exitTool {
			t.Errorf("%s: %+v", tool, o)
		}
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a a__pid", "a a__fail tool_error", "a a__fault error"}; !slices.Equal(got, want) {
		t.Errorf("the webhook was told %q, want %q", got, want)
	}
	if strings.Contains(p.err.String(), strings.Repeat("s", 32)) {
		t.Error("the secret is in the log")
	}
}
