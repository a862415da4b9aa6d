package signin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Purposes of seals.
const (
	sealCredential = seal.Kept + "credential"
	sealLogin      = seal.Kept + "login"
	sealClient     = seal.Kept + "oauth client"
)

// vault stores credentials, sealed with the gateway's keys. A seal for one row opens
// for no other.
type vault struct {
	store *store.Store
	keys  *seal.Keyring
	log   *slog.Logger
}

// Find implements credential.Vault.
func (v vault) Find(ctx context.Context, server, principal string) (credential.Sealed, bool, error) {
	r, ok, err := v.store.Credentials().Find(ctx, server, principal)
	if err != nil || !ok {
		return credential.Sealed{}, false, err
	}
	k := credential.Key(r.CredentialKey)
	body, err := v.keys.Open(sealCredential, sealContext(k), string(r.Body))
	if err != nil {
		v.log.Warn("a credential was sealed with other keys and is not used; somebody has to sign in again", "server", server)
	}
	return credential.Sealed{Key: k, Version: r.Version, Body: body}, err == nil, nil
}

// sealContext returns the context that a credential is bound to.
func sealContext(k credential.Key) string {
	var out strings.Builder
	for _, part := range [...]string{k.Server, k.Principal, k.Issuer, k.Resource, k.Scopes} {
		fmt.Fprintf(&out, "%d:%s", len(part), part)
	}
	return out.String()
}

// Put implements credential.Vault.
func (v vault) Put(ctx context.Context, k credential.Key, body []byte) (int64, error) {
	sealed, err := v.keys.Seal(sealCredential, sealContext(k), body)
	if err != nil {
		return 0, fmt.Errorf("seal a credential: %w", err)
	}
	return v.store.Credentials().Put(ctx, store.CredentialRecord{CredentialKey: store.CredentialKey(k), Body: []byte(sealed)})
}

// Lease implements credential.Vault.
func (v vault) Lease(ctx context.Context, k credential.Key, version int64, holder string, until time.Time) (bool, error) {
	return v.store.Credentials().Lease(ctx, store.CredentialKey(k), version, holder, until)
}

// Release implements credential.Vault.
func (v vault) Release(ctx context.Context, k credential.Key, holder string) error {
	return v.store.Credentials().Release(ctx, store.CredentialKey(k), holder)
}

// Renew implements credential.Vault.
func (v vault) Renew(ctx context.Context, k credential.Key, version int64, body []byte) (int64, bool, error) {
	sealed, err := v.keys.Seal(sealCredential, sealContext(k), body)
	if err != nil {
		return 0, false, fmt.Errorf("seal a credential: %w", err)
	}
	return v.store.Credentials().Renew(ctx, store.CredentialKey(k), version, []byte(sealed))
}

// Delete implements credential.Vault.
func (v vault) Delete(ctx context.Context, server, principal string) (bool, error) {
	return v.store.Credentials().Delete(ctx, server, principal)
}

// stateID returns the key of a login state in the store. It does not reveal the state,
// so that readers of the store cannot finish a login.
func stateID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// KeepLogin implements credential.Vault.
func (v vault) KeepLogin(ctx context.Context, state string, body []byte, expires time.Time) error {
	sealed, err := v.keys.Seal(sealLogin, stateID(state), body)
	if err != nil {
		return fmt.Errorf("seal a login: %w", err)
	}
	return v.store.Logins().Keep(ctx, stateID(state), []byte(sealed), expires)
}

// TakeLogin implements credential.Vault.
func (v vault) TakeLogin(ctx context.Context, state string) ([]byte, bool, error) {
	sealed, ok, err := v.store.Logins().Take(ctx, stateID(state))
	if err != nil || !ok {
		return nil, false, err
	}
	body, err := v.keys.Open(sealLogin, stateID(state), string(sealed))
	return body, err == nil, nil
}

// Client implements credential.Vault.
func (v vault) Client(ctx context.Context, issuer, redirect string) ([]byte, bool, error) {
	sealed, ok, err := v.store.Logins().Client(ctx, issuer, redirect)
	if err != nil || !ok {
		return nil, false, err
	}
	body, err := v.keys.Open(sealClient, issuer+"\x00"+redirect, string(sealed))
	return body, err == nil, nil
}

// KeepClient implements credential.Vault.
func (v vault) KeepClient(ctx context.Context, issuer, redirect string, body []byte) error {
	if body == nil {
		return v.store.Logins().KeepClient(ctx, issuer, redirect, nil)
	}
	sealed, err := v.keys.Seal(sealClient, issuer+"\x00"+redirect, body)
	if err != nil {
		return fmt.Errorf("seal a registration: %w", err)
	}
	return v.store.Logins().KeepClient(ctx, issuer, redirect, []byte(sealed))
}
