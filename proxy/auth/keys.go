package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
)

// KeyIssuer is the issuer of identities from API keys.
const KeyIssuer = "toolgate:keys"

// keyPrefix marks toolgate's keys, so that secret scanners find them.
const keyPrefix = "tgk_"

// Keys authenticates API keys. The zero Keys refuses everyone. It is safe for
// concurrent use.
type Keys struct {
	byHash map[[sha256.Size]byte]*gate.Identity
}

// NewKeys returns the authenticator for a set of keys. The id is the default for the
// subject.
func NewKeys(keys []Key) (*Keys, error) {
	k := &Keys{byHash: make(map[[sha256.Size]byte]*gate.Identity, len(keys))}
	for _, key := range keys {
		sum, err := hex.DecodeString(key.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("the API key %q needs the SHA-256 of its text as 64 hexadecimal digits", key.ID)
		}
		hash := [sha256.Size]byte(sum)
		if _, ok := k.byHash[hash]; ok {
			return nil, fmt.Errorf("the API key %q has the same text as another one", key.ID)
		}
		subject := key.Subject
		if subject == "" {
			subject = key.ID
		}
		if subject == "" {
			return nil, fmt.Errorf("an API key needs an id or a subject")
		}
		for _, scope := range key.Scopes {
			if !scopeToken(scope) {
				return nil, fmt.Errorf("the API key %q: %q is not a scope", key.ID, scope)
			}
		}
		k.byHash[hash] = gate.NewIdentity(gate.Identity{
			Principal: gate.Principal{Issuer: KeyIssuer, Tenant: key.Tenant, Subject: subject},
			Persona:   key.Persona, Groups: key.Groups, Scopes: key.Scopes, Plan: key.Plan, Credential: key.ID + ":" + key.SHA256[:8],
		})
	}
	return k, nil
}

// Authenticate implements the proxy's Authenticator. It looks a key up by its hash, so
// that the time it takes reveals nothing about existing keys.
func (k *Keys) Authenticate(r *http.Request) (*gate.Identity, error) {
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	id := k.Lookup(token)
	if id == nil {
		return nil, gate.ErrBadCredential
	}
	return id, nil
}

// Knows reports whether an identity still has its key: the same caller with the same
// text.
func (k *Keys) Knows(id *gate.Identity) bool {
	for _, known := range k.byHash {
		if known.Credential == id.Credential && known.Key() == id.Key() {
			return true
		}
	}
	return false
}

// Lookup returns the identity for a key's text, nil when there is none.
func (k *Keys) Lookup(text string) *gate.Identity {
	return k.byHash[sha256.Sum256([]byte(text))]
}

// Generate returns the text of a new key of 32 random bytes, and its SHA-256 for the
// configuration.
func Generate() (text, sum string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	text = keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(text))
	return text, hex.EncodeToString(hash[:])
}

// Identities returns the identities of all keys, sorted by credential.
func (k *Keys) Identities() []*gate.Identity {
	all := slices.Collect(maps.Values(k.byHash))
	slices.SortFunc(all, func(a, b *gate.Identity) int { return strings.Compare(a.Credential, b.Credential) })
	return all
}
