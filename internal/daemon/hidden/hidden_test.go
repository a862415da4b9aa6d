package hidden_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/proxy/redact"
)

// The secrets of settings stay hidden until later settings alone are in use.
func TestSecretsOfSettings(t *testing.T) {
	var h hidden.Secrets
	log := slog.New(slog.DiscardHandler)
	check := func(when string, want ...bool) {
		t.Helper()
		for i, hides := range want {
			secret := fmt.Sprintf("canary-number-%d", i)
			if got := h.Shown(secret) != secret; got != hides {
				t.Errorf("%s: %s is hidden: %t, want %t", when, secret, got, hides)
			}
		}
	}
	h.Use([]string{"canary-number-0"}, log)
	check("at the start", true, false, false, false)
	h.Use([]string{"canary-number-1"}, log) // refused
	check("after a refused change", true, true, false, false)
	second := h.Use([]string{"canary-number-2"}, log)
	third := h.Use([]string{"canary-number-3"}, log)
	check("while servers of three settings run", true, true, true, true)
	second()
	check("after the first ones have ended", false, false, true, true)
	third()
	second()
	check("after all but the last have ended", false, false, false, true)
	same := h.Use([]string{"canary-number-3"}, log)
	same()
	check("after the same settings again", false, false, false, true)
}

// The secrets in use are kept out of logs before those of a later change, where there
// are too many.
func TestTooManySecrets(t *testing.T) {
	var h hidden.Secrets
	log := slog.New(slog.DiscardHandler)
	h.Use([]string{"canary-in-use"}, log)
	many := make([]string, redact.MaxSecrets)
	for i := range many {
		many[i] = fmt.Sprintf("canary-number-%04d", i)
	}
	h.Use(many, log)
	for _, secret := range []string{"canary-in-use", many[0]} {
		if h.Shown(secret) == secret {
			t.Errorf("%s is shown", secret)
		}
	}
}

// Reloads that are refused again and again do not fill the memory. The secrets in use stay
// hidden, and so do those of the last reload.
func TestRefusedAgainAndAgain(t *testing.T) {
	var h hidden.Secrets
	log := slog.New(slog.DiscardHandler)
	h.Use([]string{"canary-in-use"}, log)
	var last string
	for i := range 3 * hidden.MaxSettings {
		last = fmt.Sprintf("canary-number-%04d", i)
		h.Use([]string{last}, log)
	}
	for secret, want := range map[string]bool{"canary-in-use": true, last: true, "canary-number-0000": false} {
		if got := h.Shown(secret) != secret; got != want {
			t.Errorf("%s is hidden: %t, want %t", secret, got, want)
		}
	}
	alone := h.Use([]string{"canary-at-the-end"}, log)
	alone()
	if h.Shown("canary-in-use") != "canary-in-use" || h.Shown("canary-at-the-end") == "canary-at-the-end" {
		t.Error("the last settings are not alone")
	}
}
