// Package seal encrypts and authenticates values that clients carry for the gateway,
// and values that the gateway stores on disk. A [Keyring] holds keys that all replicas
// share.
package seal

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

// Key is one of the gateway's keys: at least 32 random bytes.
type Key struct {
	ID     string // in the clear in every sealed value
	Secret []byte
}

// Keyring seals values that clients carry for the gateway: cursors, request states and
// ids. The first key seals, all keys open. The zero Keyring seals and opens nothing. It
// is safe for concurrent use.
type Keyring struct {
	keys    []Key
	carried map[purpose]*sealer // those of values that clients carry, which are many
	others  sync.Map            // those of other labels that were used: purpose to *sealer
}

// purpose is one label under one key.
type purpose struct {
	key   string
	label Label
}

// sealer is what seals and opens under one label.
type sealer struct {
	aead cipher.AEAD
	mac  []byte // the key of nonces
}

var (
	errSeal    = errors.New("not a value of this gateway")
	errNoKey   = errors.New("there is no key to seal with")
	sealCoding = base64.RawURLEncoding
)

// NewKeyring returns a keyring, newest key first.
func NewKeyring(keys ...Key) (*Keyring, error) {
	seen := map[string]bool{}
	for _, k := range keys {
		switch {
		case k.ID == "" || strings.ContainsAny(k.ID, ".") || len(k.ID) > 32:
			return nil, fmt.Errorf("the key id %q must have 1 to 32 characters and no dot", k.ID)
		case len(k.Secret) < 32:
			return nil, fmt.Errorf("the key %q has %d bytes and needs at least 32", k.ID, len(k.Secret))
		case seen[k.ID]:
			return nil, fmt.Errorf("the key id %q is used twice", k.ID)
		}
		seen[k.ID] = true
	}
	k := &Keyring{keys: keys, carried: make(map[purpose]*sealer)}
	for _, key := range keys {
		for _, l := range [...]Label{Cursor, Round, Event, Task} {
			of, err := newSealer(key, l)
			if err != nil {
				return nil, fmt.Errorf("derive from the key %q: %w", key.ID, err)
			}
			k.carried[purpose{key.ID, l}] = of
		}
	}
	return k, nil
}

// newSealer derives what seals under a label from a key.
func newSealer(key Key, l Label) (*sealer, error) {
	secret, err := subkey(key.Secret, l)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(secret[:32])
	if err != nil {
		return nil, err
	}
	return &sealer{aead, secret[32:]}, nil
}

// sealer returns what seals under a label. Those that were derived are kept: labels are constants
// of the program.
func (k *Keyring) sealer(key Key, l Label) (*sealer, error) {
	by := purpose{key.ID, l}
	if of := k.carried[by]; of != nil {
		return of, nil
	}
	if of, ok := k.others.Load(by); ok {
		return of.(*sealer), nil
	}
	made, err := newSealer(key, l)
	if err != nil {
		return nil, err
	}
	of, _ := k.others.LoadOrStore(by, made)
	return of.(*sealer), nil
}

// Label is the purpose of a sealed value. A value that was sealed for one purpose never
// opens for another.
type Label string

// Labels of values that clients carry.
const (
	Cursor Label = "cursor" // of a list
	Round  Label = "round"  // state of a call of several rounds
	Event  Label = "event"  // id of an event of a stream
	Task   Label = "task"   // id of a task
)

// Kept is the prefix of labels for values that the gateway stores.
const Kept Label = "kept:"

// Seal encrypts and authenticates text under a label and a context, such as the
// principal (XChaCha20-Poly1305). The nonce is derived from the text, so that all
// replicas return the same bytes for the same input.
func (k *Keyring) Seal(l Label, context string, text []byte) (string, error) {
	if len(k.keys) == 0 {
		return "", errNoKey
	}
	key := k.keys[0]
	of, err := k.sealer(key, l)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, of.mac)
	fmt.Fprintf(mac, "%d:%s", len(context), context)
	mac.Write(text)
	nonce := mac.Sum(nil)[:chacha20poly1305.NonceSizeX]
	sealed := of.aead.Seal(nonce, nonce, text, []byte(context))
	return key.ID + "." + sealCoding.EncodeToString(sealed), nil
}

// Open returns the text of a value sealed under the same label and context.
func (k *Keyring) Open(l Label, context, sealed string) ([]byte, error) {
	id, body, ok := strings.Cut(sealed, ".")
	if !ok || strings.ContainsAny(body, "\r\n") { // the decoder would skip line breaks
		return nil, errSeal
	}
	raw, err := sealCoding.DecodeString(body)
	if err != nil || sealCoding.EncodeToString(raw) != body || len(raw) < chacha20poly1305.NonceSizeX {
		return nil, errSeal
	}
	for _, key := range k.keys {
		if key.ID != id {
			continue
		}
		of, err := k.sealer(key, l)
		if err != nil {
			return nil, err
		}
		text, err := of.aead.Open(nil, raw[:chacha20poly1305.NonceSizeX], raw[chacha20poly1305.NonceSizeX:], []byte(context))
		if err != nil {
			return nil, errSeal
		}
		return text, nil
	}
	return nil, errSeal
}

// Derive returns a 64-byte secret for a purpose from each key, newest first. The
// secrets reveal nothing about the keys.
func (k *Keyring) Derive(purpose string) ([]Key, error) {
	derived := make([]Key, len(k.keys))
	for i, key := range k.keys {
		secret, err := subkey(key.Secret, Label("derive:"+purpose))
		if err != nil {
			return nil, err
		}
		derived[i] = Key{ID: key.ID, Secret: secret}
	}
	return derived, nil
}

// MAC authenticates data for a purpose with the first key.
func (k *Keyring) MAC(purpose string, data []byte) []byte {
	if len(k.keys) == 0 {
		return nil
	}
	return k.mac(k.keys[0], purpose, data)
}

// Verify reports whether a MAC was made by one of the keys.
func (k *Keyring) Verify(purpose string, data, mac []byte) bool {
	for _, key := range k.keys {
		if hmac.Equal(k.mac(key, purpose, data), mac) {
			return true
		}
	}
	return false
}

func (k *Keyring) mac(key Key, purpose string, data []byte) []byte {
	secret, err := subkey(key.Secret, Label("mac:"+purpose))
	if err != nil {
		return nil
	}
	h := hmac.New(sha256.New, secret)
	h.Write(data)
	return h.Sum(nil)
}

// subkey derives 64 bytes for one purpose from a key.
func subkey(secret []byte, l Label) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, nil, "toolgate/"+string(l), 64)
}
