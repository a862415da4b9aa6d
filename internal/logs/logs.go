package logs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// Redactor removes secrets from a text, within a time. It is safe for concurrent use.
type Redactor interface {
	Text(text string, until time.Time) (clean string, found int, err error)
}

// redactTime bounds the search in one line.
const redactTime = 50 * time.Millisecond

// maxLine bounds a line, in bytes; the rest is cut off.
const maxLine = 64 << 10

// Writer writes lines that are safe to show. It is safe for concurrent use.
type Writer struct {
	redactor atomic.Pointer[Redactor]

	mu sync.Mutex
	to io.Writer
}

// NewWriter returns a writer of lines to another writer. It removes nothing before
// [Writer.Redact].
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Redact sets the redactor for all further lines. nil removes nothing.
func (w *Writer) Redact(r Redactor) {
	if r == nil {
		w.redactor.Store(nil)
		return
	}
	w.redactor.Store(&r)
}

// Write writes one line, which ends in a newline. A line that cannot be searched in
// time is not written.
func (w *Writer) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if r := w.redactor.Load(); r != nil {
		clean, _, err := (*r).Text(text, time.Now().Add(redactTime))
		if err != nil {
			clean = fmt.Sprintf(`{"level":"ERROR","msg":"a line of the log is left out: looking for secrets in it takes too long","bytes":%d}`, len(line))
		}
		text = clean
	}
	text = Printable(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.to, text+"\n"); err != nil {
		return 0, fmt.Errorf("write the log: %w", err)
	}
	return len(line), nil
}

// Printable escapes, like a JSON string, all characters that a terminal acts on or that
// change how others are shown.
func Printable(text string) string {
	cut := len(text) > maxLine
	if cut {
		text = text[:maxLine]
	}
	if !strings.ContainsFunc(text, Acts) && utf8.ValidString(text) && !cut {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case !Acts(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// Acts reports whether a character affects how text is shown: control characters, the
// line and paragraph separators, and invisible characters, which change the direction
// of text or hide in it.
func Acts(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cf, r)
}

// Format is the format of a line.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// New returns a logger that writes lines of a level and above.
func New(w *Writer, format Format, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == Text {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
