package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrTooManyLogins means that too many logins are pending.
var ErrTooManyLogins = errors.New("too many people are signing in at the moment")

// ErrTooManyForms means that too many forms were sent, by one person or by all.
var ErrTooManyForms = errors.New("too many forms were sent in the last minutes")

// Logins stores pending logins at authorization servers, and the gateway's client
// registrations there. The zero value returns [ErrClosed]; methods are safe for
// concurrent use, also by several processes.
type Logins struct {
	s *Store
}

// Logins returns the handle for logins.
func (s *Store) Logins() *Logins { return &Logins{s} }

// Keep stores a pending login until it is taken or expires. It returns
// [ErrTooManyLogins] when 10,000 are pending.
func (l *Logins) Keep(ctx context.Context, id string, body []byte, expires time.Time) error {
	if l.s == nil {
		return ErrClosed
	}
	if err := errors.Join(checkName("login", id), tooLarge(body)); err != nil {
		return fmt.Errorf("keep a login: %w", err)
	}
	return l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if err := forgetExpired(ctx, tx); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM login WHERE id < ? OR id >= ?`, spentPrefix, spentEnd).Scan(&n); err != nil {
			return fmt.Errorf("count logins: %w", err)
		}
		if n >= maxLogins {
			return ErrTooManyLogins
		}
		_, err := tx.Exec(ctx, `INSERT INTO login (id, body, expires) VALUES (?, ?, ?)`, id, nonNil(body), expires.UnixNano())
		return wrapped("keep a login", err)
	})
}

func forgetExpired(ctx context.Context, tx *Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM login WHERE expires < ?`, time.Now().UnixNano())
	return wrapped("forget expired logins", err)
}

// Spend marks a form as used until a time. first is true for the first of several
// callers. who is the person for whom the form was made. It returns [ErrTooManyForms]
// when 100 of that person are remembered, or 10,000 of all. Forms do not count as
// logins.
func (l *Logins) Spend(ctx context.Context, who, id string, expires time.Time) (first bool, err error) {
	if l.s == nil {
		return false, ErrClosed
	}
	if err := checkName("form", id); err != nil {
		return false, fmt.Errorf("spend a form: %w", err)
	}
	sum := sha256.Sum256([]byte(who))
	own := spentPrefix + hex.EncodeToString(sum[:16])
	err = l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		first = false
		if err := forgetExpired(ctx, tx); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO login (id, body, expires) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, own+":"+id, []byte{}, expires.UnixNano())
		if err != nil || n == 0 {
			return wrapped("spend a form", err)
		}
		first = true
		for _, bound := range []struct {
			from, to string
			most     int
		}{{own + ":", own + ";", maxFormsEach}, {spentPrefix, spentEnd, maxForms}} {
			var kept int
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM login WHERE id >= ? AND id < ?`, bound.from, bound.to).Scan(&kept); err != nil {
				return fmt.Errorf("count forms: %w", err)
			}
			if kept > bound.most {
				return ErrTooManyForms
			}
		}
		return nil
	})
	return first && err == nil, err
}

// Ids of used forms are from spentPrefix to before spentEnd; ids of logins are not.
const (
	spentPrefix = "spent:"
	spentEnd    = "spent;"
)

// Take returns a pending login and removes it; only one caller gets it. ok is false
// when there is none, or it has expired.
func (l *Logins) Take(ctx context.Context, id string) (body []byte, ok bool, err error) {
	if l.s == nil {
		return nil, false, ErrClosed
	}
	err = l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		body, ok = nil, false
		var expires int64
		err := tx.QueryRow(ctx, `SELECT body, expires FROM login WHERE id = ?`, id).Scan(&body, &expires)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take a login: %w", err)
		}
		n, err := tx.Exec(ctx, `DELETE FROM login WHERE id = ?`, id)
		ok = n == 1 && time.Now().UnixNano() <= expires
		return wrapped("take a login", err)
	})
	if err != nil || !ok {
		return nil, false, err
	}
	return body, true, nil
}

// Client returns the gateway's registration at an authorization server for one redirect
// URI. ok is false when there is none.
func (l *Logins) Client(ctx context.Context, issuer, redirect string) (body []byte, ok bool, err error) {
	if l.s == nil {
		return nil, false, ErrClosed
	}
	err = l.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		err := tx.QueryRow(ctx, `SELECT body FROM oauth_client WHERE issuer = ? AND redirect = ?`, issuer, redirect).Scan(&body)
		if ok = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return wrapped("find a registration", err)
	})
	return body, ok && err == nil, err
}

// KeepClient replaces the gateway's registration at an authorization server. A nil body
// removes it.
func (l *Logins) KeepClient(ctx context.Context, issuer, redirect string, body []byte) error {
	if l.s == nil {
		return ErrClosed
	}
	err := errors.Join(checkText("issuer", issuer, maxIndexed), checkText("redirect", redirect, maxIndexed), tooLarge(body))
	if err != nil || issuer == "" {
		return fmt.Errorf("keep a registration: %w", errors.Join(err, errNoIssuer(issuer)))
	}
	return l.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM oauth_client WHERE issuer = ? AND redirect = ?`, issuer, redirect); err != nil || body == nil {
			return wrapped("forget a registration", err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO oauth_client (issuer, redirect, body, saved_at) VALUES (?, ?, ?, ?)`, issuer, redirect, body, time.Now().UnixNano())
		return wrapped("keep a registration", err)
	})
}

func errNoIssuer(issuer string) error {
	if issuer == "" {
		return errors.New("it names no issuer")
	}
	return nil
}
