//go:build !windows

package daemon_test

import (
	"strings"
	"testing"
)

// The keys of clients: what is missing is not the same as what is wrong.
func TestKeyMessages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, withKeys("alice"))
	r := h.newRunning(t)
	for key, want := range map[string]string{"": "asks for an API key; set the variable TOOLGATE_API_KEY", "bob": "does not know the API key in TOOLGATE_API_KEY"} {
		if _, err := r.Identities.Identity(t.Context(), key); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "toolgate.auth.keys") || key != "" && strings.Contains(err.Error(), "bob") {
			t.Errorf("%q: %v", key, err)
		}
	}
}
