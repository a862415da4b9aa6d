package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	// maxCredential bounds a sealed body, in bytes.
	maxCredential = 256 << 10
	// maxURL bounds an issuer, a resource, a redirect and the scopes of one credential,
	// in bytes.
	maxURL = 32 << 10
	// maxIndexed bounds an indexed URL.
	maxIndexed = 1 << 10
	// maxLogins bounds the pending logins.
	maxLogins = 10_000
	// maxForms bounds the used forms that are remembered, in total and of one person.
	maxForms     = 10_000
	maxFormsEach = 100
)

// CredentialKey identifies a credential by its owner and its use.
type CredentialKey struct {
	Server    string // key of the server in the configuration
	Principal string // as the gate encodes it; empty for a shared credential
	Issuer    string // of the authorization server; empty where there is none
	Resource  string
	Scopes    string // requested scopes, in canonical order
}

// id is the key of the row, because the parts are too long for an index.
func (k *CredentialKey) id() string {
	h := sha256.New()
	for _, part := range [...]string{k.Server, k.Principal, k.Issuer, k.Resource, k.Scopes} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (k *CredentialKey) check() error {
	if k.Principal != "" {
		if err := checkPrincipal(k.Principal); err != nil {
			return err
		}
	}
	return errors.Join(checkName("server", k.Server), checkText("issuer", k.Issuer, maxURL),
		checkText("resource", k.Resource, maxURL), checkText("scopes", k.Scopes, maxURL))
}

// CredentialRecord is one credential.
type CredentialRecord struct {
	CredentialKey
	Body    []byte // sealed by the caller; at most 256 KiB; nil in lists
	Version int64  // set by the store; rises with every renewal
	SavedAt time.Time
}

// Credentials stores the gateway's credentials for servers. Every change raises the
// generation of [TopicCredentials]. The zero value returns [ErrClosed]; methods are
// safe for concurrent use, also by several processes.
type Credentials struct {
	s *Store
}

// Credentials returns the handle for credentials.
func (s *Store) Credentials() *Credentials { return &Credentials{s} }

const credentialColumns = `server, principal, issuer, resource, scopes, body, version, saved_at`

func scanCredential(row interface{ Scan(...any) error }) (CredentialRecord, error) {
	var r CredentialRecord
	var principal []byte
	var saved int64
	err := row.Scan(&r.Server, &principal, &r.Issuer, &r.Resource, &r.Scopes, &r.Body, &r.Version, &saved)
	r.Principal, r.SavedAt = string(principal), instant(saved)
	return r, err
}

// Find returns the credential of a principal for a server, or the shared one if
// principal is empty. ok is false when there is none.
func (c *Credentials) Find(ctx context.Context, server, principal string) (r CredentialRecord, ok bool, err error) {
	if c.s == nil {
		return r, false, ErrClosed
	}
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `SELECT ` + credentialColumns + ` FROM credential WHERE server = ? AND principal = ? ORDER BY saved_at DESC, id LIMIT 1`
		r, err = scanCredential(tx.QueryRow(ctx, q, server, []byte(principal)))
		if ok = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || !ok {
		return CredentialRecord{}, false, wrapped("find a credential for "+server, err)
	}
	return r, true, nil
}

// Put replaces all credentials of the same server and principal, and returns the new
// version.
func (c *Credentials) Put(ctx context.Context, r CredentialRecord) (version int64, err error) {
	if c.s == nil {
		return 0, ErrClosed
	}
	if err := cmp.Or(r.check(), tooLarge(r.Body)); err != nil {
		return 0, fmt.Errorf("save a credential: %w", err)
	}
	err = c.s.change(ctx, TopicCredentials, func(ctx context.Context, tx *Tx) (bool, error) {
		principal := []byte(r.Principal)
		const last = `SELECT COALESCE(MAX(version), 0) FROM credential WHERE server = ? AND principal = ?`
		if err := tx.QueryRow(ctx, last, r.Server, principal).Scan(&version); err != nil {
			return false, err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM credential WHERE server = ? AND principal = ?`, r.Server, principal); err != nil {
			return false, err
		}
		version++
		const add = `INSERT INTO credential (id, ` + credentialColumns + `, lease, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0)`
		_, err := tx.Exec(ctx, add, r.id(), r.Server, principal, r.Issuer, r.Resource, r.Scopes, nonNil(r.Body), version, time.Now().UnixNano())
		return err == nil, err
	})
	return version, wrapped("save a credential for "+r.Server, err)
}

// Lease gives one holder the right to renew a version of a credential, until a time or
// the renewal. ok is false where another holder has it, or the version is another.
func (c *Credentials) Lease(ctx context.Context, k CredentialKey, version int64, holder string, until time.Time) (ok bool, err error) {
	if c.s == nil {
		return false, ErrClosed
	}
	err = c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		const q = `UPDATE credential SET lease = ?, lease_until = ? WHERE id = ? AND version = ? AND (lease = '' OR lease = ? OR lease_until < ?)`
		n, err := tx.Exec(ctx, q, holder, until.UnixNano(), k.id(), version, holder, time.Now().UnixNano())
		ok = n == 1
		return err
	})
	return ok && err == nil, wrapped("lease a credential for "+k.Server, err)
}

// Release gives up a lease without a renewal.
func (c *Credentials) Release(ctx context.Context, k CredentialKey, holder string) error {
	if c.s == nil {
		return ErrClosed
	}
	return c.s.Do(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `UPDATE credential SET lease = '', lease_until = 0 WHERE id = ? AND lease = ?`, k.id(), holder)
		return wrapped("give back the lease of a credential for "+k.Server, err)
	})
}

// Renew replaces the body of a credential that still has this version, and returns the
// new version. ok is false when the version is another or the credential is gone.
func (c *Credentials) Renew(ctx context.Context, k CredentialKey, version int64, body []byte) (next int64, ok bool, err error) {
	if c.s == nil {
		return 0, false, ErrClosed
	}
	if err := tooLarge(body); err != nil {
		return 0, false, fmt.Errorf("renew a credential: %w", err)
	}
	err = c.s.change(ctx, TopicCredentials, func(ctx context.Context, tx *Tx) (bool, error) {
		const q = `UPDATE credential SET body = ?, version = version + 1, lease = '', lease_until = 0, saved_at = ? WHERE id = ? AND version = ?`
		n, err := tx.Exec(ctx, q, nonNil(body), time.Now().UnixNano(), k.id(), version)
		ok = n == 1
		return ok, err
	})
	return version + 1, ok && err == nil, wrapped("renew a credential for "+k.Server, err)
}

// Delete removes the credentials of a principal for a server, or the shared one if
// principal is empty, and reports whether there were any.
func (c *Credentials) Delete(ctx context.Context, server, principal string) (ok bool, err error) {
	if c.s == nil {
		return false, ErrClosed
	}
	err = c.s.change(ctx, TopicCredentials, func(ctx context.Context, tx *Tx) (bool, error) {
		n, err := tx.Exec(ctx, `DELETE FROM credential WHERE server = ? AND principal = ?`, server, []byte(principal))
		ok = n > 0
		return ok, err
	})
	return ok && err == nil, wrapped("remove a credential for "+server, err)
}

// List returns all credentials, sorted by server and principal, without their bodies.
func (c *Credentials) List(ctx context.Context) (list []CredentialRecord, err error) {
	if c.s == nil {
		return nil, ErrClosed
	}
	err = c.s.View(ctx, func(ctx context.Context, tx *Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT `+credentialColumns+` FROM credential ORDER BY server, principal, id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanCredential(rows)
			if err != nil {
				return err
			}
			r.Body = nil
			list = append(list, r)
		}
		return rows.Err()
	})
	return list, wrapped("list credentials", err)
}

func tooLarge(body []byte) error {
	if len(body) > maxCredential {
		return fmt.Errorf("a body of %d bytes: %w", len(body), ErrTooLarge)
	}
	return nil
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
