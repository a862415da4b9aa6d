package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxName bounds names (servers, tenants, personas and actors), in bytes.
	// PostgreSQL's indexes hold no more than about 2,700 bytes of all their columns.
	maxName = 512
	// maxPrincipal bounds an encoded principal, in bytes.
	maxPrincipal = 1 << 10
	// maxReason bounds the reason for a change, in bytes.
	maxReason = 4 << 10
	// rowsPerStatement is how many rows one statement reads or writes, to save round
	// trips.
	rowsPerStatement = 64
)

// errNotText refuses on every database what PostgreSQL's TEXT would refuse.
var errNotText = errors.New("it must be UTF-8 without NUL")

// Change says who changes something and why.
type Change struct {
	Actor  string // required; at most 512 bytes
	Reason string // at most 4 KiB
}

func (c Change) check() error {
	if err := checkName("actor", c.Actor); err != nil {
		return err
	}
	return checkText("reason", c.Reason, maxReason)
}

// checkName refuses invalid names.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s is empty", what)
	}
	return checkText(what, name, maxName)
}

// checkText refuses text that is too long or that some database cannot store.
func checkText(what, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s of %d bytes: %w", what, len(text), ErrTooLarge)
	}
	if !isText(text) {
		return fmt.Errorf("%s %.64q: %w", what, text, errNotText)
	}
	return nil
}

// checkPrincipal refuses invalid principals. Their bytes are not interpreted.
func checkPrincipal(principal string) error {
	switch {
	case principal == "":
		return errors.New("the principal is empty")
	case len(principal) > maxPrincipal:
		return fmt.Errorf("principal of %d bytes: %w", len(principal), ErrTooLarge)
	}
	return nil
}

func isText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// Readable turns arbitrary bytes into text.
func Readable(s string) string {
	if isText(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// change commits fn while it holds the lock of topic against all processes. It raises
// the generation of topic when fn reports a change. fn may be called more than once,
// and must set its results each time.
func (s *Store) change(ctx context.Context, topic string, fn func(ctx context.Context, tx *Tx) (changed bool, err error)) error {
	return s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.Lock(ctx, topic); err != nil {
			return err
		}
		changed, err := fn(ctx, tx)
		if err == nil && changed {
			tx.Bump(topic)
		}
		return err
	})
}

// repeated returns part n times, joined by between.
func repeated(part, between string, n int) string {
	return strings.TrimSuffix(strings.Repeat(part+between, n), between)
}

// nanos returns the stored form of a time; 0 stands for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instant is the inverse of nanos.
func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
