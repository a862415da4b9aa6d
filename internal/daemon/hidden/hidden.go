// Package hidden keeps the secrets of a gateway out of whatever it shows.
package hidden

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/proxy/redact"
)

const (
	// MaxRetired is how many secrets are hidden still that have come out of use: what
	// they were used for may be told of a moment later. The oldest is forgotten first.
	MaxRetired = 256
	// MaxSettings is how many settings have their secrets hidden at once: those in use,
	// and those of the latest reloads.
	MaxSettings = 32
	// hideTime bounds the search in a text that is shown to somebody.
	hideTime = 50 * time.Millisecond
)

// Secrets are the secrets that the gateway shows nobody: in its log, its audit log,
// and in what it says of its servers. It is safe for concurrent use. The zero value
// hides what has the shape of a credential.
type Secrets struct {
	found atomic.Pointer[redact.Redactor]

	// Held are the secrets that no file has: those of servers that callers sign in to,
	// all that are in use and those that were lately.
	Held redact.Set

	mu      sync.Mutex
	retired []string   // the latest last
	of      []settings // the earliest first, MaxSettings at most
	next    int        // the number of the next settings
}

// settings are the secrets of a configuration, sorted.
type settings struct {
	number  int
	secrets []string
}

// Use hides the secrets of settings, sorted, besides those of all settings before. The
// earlier ones are forgotten when alone is called, which is when nothing uses them any
// more. For settings that are refused it is never called.
func (h *Secrets) Use(known []string, log *slog.Logger) (alone func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.of); n == 0 || !slices.Equal(h.of[n-1].secrets, known) {
		if n == MaxSettings {
			// The first settings are in use. The second were refused, or nothing is left
			// of them but servers that end.
			h.of = slices.Delete(h.of, 1, 2)
		}
		h.of = append(h.of, settings{h.next, known})
		h.next++
		h.find(log)
	}
	number := h.of[len(h.of)-1].number
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		before := len(h.of)
		h.of = slices.DeleteFunc(h.of, func(s settings) bool { return s.number < number })
		if len(h.of) < before {
			h.find(log)
		}
	}
}

// find looks for the secrets of all settings from now on. Where there are too many,
// those of the earliest settings count, which are in use. mu is held.
func (h *Secrets) find(log *slog.Logger) {
	const most = redact.MaxSecrets
	var known []string
	seen := make(map[string]bool)
	for _, of := range h.of {
		for _, secret := range of.secrets {
			if !seen[secret] {
				seen[secret], known = true, append(known, secret)
			}
		}
	}
	if len(known) > most {
		log.Warn("there are more secrets than can be kept out of logs", "secrets", len(known), "kept_out", most)
	}
	// There is no error: there are no patterns, and not too many secrets.
	if r, err := redact.New(redact.Options{Tokens: true, Secrets: known[:min(len(known), most)], Set: &h.Held}); err == nil {
		h.found.Store(r)
	}
}

// Learn hides a secret that came into use, until a while after retire is called, once.
func (h *Secrets) Learn(secret string) (retire func()) {
	h.Held.Add(secret)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.retired) == MaxRetired {
			h.Held.Remove(h.retired[0])
			h.retired = slices.Delete(h.retired, 0, 1)
		}
		h.retired = append(h.retired, secret)
	}
}

func (h *Secrets) redactor() *redact.Redactor {
	if r := h.found.Load(); r != nil {
		return r
	}
	r, _ := redact.New(redact.Options{Tokens: true, Set: &h.Held}) // without patterns there is no error
	h.found.CompareAndSwap(nil, r)
	return r
}

// Text implements [logs.Redactor] and [redact.Filter].
func (h *Secrets) Text(text string, until time.Time) (string, int, error) {
	return h.redactor().Text(text, until)
}

// Beginning is Text for the first bytes of a text, see [redact.Redactor.Beginning].
func (h *Secrets) Beginning(text string, most int, until time.Time) (string, error) {
	return h.redactor().Beginning(text, most, until)
}

// Value implements [redact.Filter].
func (h *Secrets) Value(value []byte, until time.Time) ([]byte, int, error) {
	return h.redactor().Value(value, until)
}

// Shown is a text as it may be shown to somebody.
func (h *Secrets) Shown(text string) string {
	if text == "" {
		return ""
	}
	clean, _, err := h.Text(text, time.Now().Add(hideTime))
	if err != nil {
		return "(left out: looking for secrets in it takes too long)"
	}
	return logs.Printable(clean)
}

// Lines are those of a server as they may be shown.
func (h *Secrets) Lines(of admin.ServerLogs) admin.ServerLogs {
	lines := make([]string, len(of.Lines))
	for i, line := range of.Lines {
		lines[i] = h.Shown(line)
	}
	of.Lines, of.Cause = lines, h.Shown(of.Cause)
	return of
}
