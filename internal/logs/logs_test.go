package logs_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/proxy/redact"
)

// hostile are texts as a server could send them.
var hostile = []string{
	"\x1b[8mhidden\x1b[0m", "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "\x1b]52;c;aGk=\x07",
	"over\rwritten", "two\nlines", "\u009b31mC1", "a\u2028b\u2029c", "\u202eright to left", "\u200bzero\ufeff", "nul\x00bel\x07del\x7f",
	"\xff\xfe not UTF-8", "\U000e0041tag",
}

// No line holds a character that a terminal acts on, and each record is one line,
// in both formats and wherever the text stands.
func TestNothingActsOnATerminal(t *testing.T) {
	for _, format := range []logs.Format{logs.Text, logs.JSON} {
		for _, text := range hostile {
			var b strings.Builder
			log := logs.New(logs.NewWriter(&b), format, slog.LevelInfo)
			log.Warn("m", text, text, "err", errors.New(text), "any", map[string]string{text: text}, slog.Group("g", text, text))
			line := b.String()
			if !utf8.ValidString(line) || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Errorf("%s of %q is not a line: %q", format, text, line)
			}
			for _, r := range strings.TrimSuffix(line, "\n") {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
					t.Errorf("%s of %q holds %U: %q", format, text, r, line)
				}
			}
			if format == logs.JSON {
				var record map[string]any
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					if strings.Contains(text, "\U000e0041") {
						continue // JSON has no escape of this length; it is shown as it is spelled
					}
					t.Errorf("%q is not JSON: %v", line, err)
				}
			}
		}
	}
}

// Configured secrets and what looks like a credential are in no line, however they
// are spelled.
func TestSecretsAreTakenOut(t *testing.T) {
	const canary, token = `ca"nary<secret>\42`, "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	r, err := redact.New(redact.Options{Secrets: []string{canary, "Bearer plain-canary-42"}, Tokens: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []logs.Format{logs.Text, logs.JSON} {
		var b strings.Builder
		w := logs.NewWriter(&b)
		w.Redact(r)
		log := logs.New(w, format, slog.LevelDebug)
		log.Info("connect with "+canary, "err", errors.New("refused: "+canary), "header", "Bearer plain-canary-42", "token", token, slog.Group("g", "v", []string{canary}))
		log.With("key", canary).Debug("kept")
		for _, secret := range []string{"nary<secret>", `nary\u003csecret`, "plain-canary", token} {
			if strings.Contains(b.String(), secret) {
				t.Errorf("%s: %s is in %s", format, secret, b.String())
			}
		}
		if !strings.Contains(b.String(), "[redacted: secret]") {
			t.Errorf("%s: no mark: %s", format, b.String())
		}
	}
}

type slow struct{}

func (slow) Text(string, time.Time) (string, int, error) { return "", 0, redact.ErrLate }

// A line that cannot be searched is left out, and that is said.
func TestWhatCannotBeSearched(t *testing.T) {
	var b strings.Builder
	w := logs.NewWriter(&b)
	w.Redact(slow{})
	logs.New(w, logs.JSON, slog.LevelInfo).Info("canary")
	if strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "a line of the log is left out") {
		t.Errorf("%q", b.String())
	}
	w.Redact(nil)
	logs.New(w, logs.JSON, slog.LevelInfo).Info("canary")
	if !strings.Contains(b.String(), "canary") {
		t.Error("the next line is left out too")
	}
}

func TestLongLinesAreCut(t *testing.T) {
	var b strings.Builder
	logs.New(logs.NewWriter(&b), logs.JSON, slog.LevelInfo).Info("m", "text", strings.Repeat("ä", 1<<20))
	if len(b.String()) > 70<<10 || !strings.HasSuffix(b.String(), "…\n") || !utf8.ValidString(b.String()) {
		t.Errorf("%d bytes that end in %q", b.Len(), b.String()[b.Len()-10:])
	}
}

// Lines of many writers do not mix, also while the redactor changes.
func TestConcurrentLines(t *testing.T) {
	var b strings.Builder
	w := logs.NewWriter(&b)
	log := logs.New(w, logs.JSON, slog.LevelInfo)
	r, err := redact.New(redact.Options{Tokens: true})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				w.Redact(r)
				log.Info("line", "text", strings.Repeat("x", 100))
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 800 {
		t.Fatalf("%d lines, want 800", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%q is not a line", line)
		}
	}
}
