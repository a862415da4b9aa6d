package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// Key is whose a credential is, and what it is good for.
type Key struct {
	Server    string
	Principal string // empty for the one that all share
	Issuer    string // empty for a key that a person entered
	Resource  string
	Scopes    string // that were asked for, sorted
}

// Sealed is a credential as it is kept.
type Sealed struct {
	Key
	Version int64
	Body    []byte // opened; what is kept of it is unreadable
}

// Vault keeps credentials where every replica finds them, unreadable to all else.
// It is safe for concurrent use.
type Vault interface {
	// Find returns the credential of a principal for a server; ok is false when
	// there is none, or none that can be opened.
	Find(ctx context.Context, server, principal string) (s Sealed, ok bool, err error)
	// Put keeps a credential in place of those of the same server and principal.
	Put(ctx context.Context, k Key, body []byte) (version int64, err error)
	// Lease gives one holder the right to renew a version until a time; Release
	// gives it back.
	Lease(ctx context.Context, k Key, version int64, holder string, until time.Time) (bool, error)
	Release(ctx context.Context, k Key, holder string) error
	// Renew replaces what has a version still; ok is false where it has not.
	Renew(ctx context.Context, k Key, version int64, body []byte) (next int64, ok bool, err error)
	// Delete forgets the credentials of a principal for a server.
	Delete(ctx context.Context, server, principal string) (bool, error)

	// KeepLogin keeps the state of a login until it is taken, once, or expires.
	KeepLogin(ctx context.Context, state string, body []byte, expires time.Time) error
	TakeLogin(ctx context.Context, state string) (body []byte, ok bool, err error)
	// Client returns as whom the gateway is registered at an authorization server;
	// KeepClient keeps that, and with a nil body forgets it.
	Client(ctx context.Context, issuer, redirect string) (body []byte, ok bool, err error)
	KeepClient(ctx context.Context, issuer, redirect string, body []byte) error
}

// content is the body of a credential.
type content struct {
	Token     oauth.Token        `json:"token,omitzero"`
	APIKey    string             `json:"key,omitempty"` // that a person entered
	Client    oauth.Registration `json:"client,omitzero"`
	Requested []string           `json:"requested,omitempty"` // scopes
	// Proof is the key that was proven when the token was asked for, nil for none. The
	// token need not be bound to it; what renews it may be.
	Proof *oauth.ProofKey `json:"proof,omitempty"`
	// Configured tells that the client is the one of the configuration, of which
	// nothing is kept.
	Configured bool `json:"configured,omitempty"`
}

// record is a credential that was opened.
type record struct {
	key     Key
	version int64
	content
}

func open(s Sealed) (*record, error) {
	r := &record{key: s.Key, version: s.Version}
	if err := json.Unmarshal(s.Body, &r.content); err != nil {
		return nil, errors.New("what is kept of the credential cannot be read")
	}
	return r, nil
}

func (c *content) seal() ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write a credential: %w", err)
	}
	return body, nil
}

// scopesKey is a set of scopes in one order.
func scopesKey(scopes []string) string {
	return strings.Join(slices.Sorted(slices.Values(scopes)), " ")
}
