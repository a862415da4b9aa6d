package seal

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// KeySettings say where a [Key] is; exactly one of File and Env is set.
type KeySettings struct {
	// Name of the key, stored with everything that it encrypts. Required.
	ID string `config:"id" required:"true" format:"id"`
	// File with the 32 bytes of the key, raw or in hex or base64. Required unless env is set.
	File string `config:"file" format:"path"`
	// Environment variable with the 32 bytes of the key, in hex or base64. Required unless file is set.
	Env string `config:"env" format:"envname"`
}

// Read returns the key.
func (k *KeySettings) Read() (Key, error) {
	text := os.Getenv(k.Env)
	if k.Env != "" && text == "" {
		return Key{}, fmt.Errorf("the key %s: the variable %s is not set; set it, or name a file under toolgate.keys", k.ID, k.Env)
	}
	if k.File != "" {
		raw, err := os.ReadFile(k.File)
		if err != nil {
			return Key{}, fmt.Errorf("the key %s: %w; make the file, such as with `openssl rand -hex 32`, or name another under toolgate.keys", k.ID, err)
		}
		text = string(raw)
	}
	secret, err := decodeKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("the key %s: %w; make one such as with `openssl rand -hex 32`", k.ID, err)
	}
	return Key{ID: k.ID, Secret: secret}, nil
}

// decodeKey decodes a key of 32 raw bytes, or of at least 32 bytes in hexadecimal or
// base64. Short hexadecimal is neither raw nor base64: it would have half the bits.
func decodeKey(text string) ([]byte, error) {
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	switch {
	case err == nil && len(raw) >= 32:
		return raw, nil
	case err == nil:
		return nil, errShortKey
	case len(text) == 32:
		return []byte(text), nil
	}
	text = strings.TrimSpace(text)
	for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if raw, err := coding.DecodeString(text); err == nil && len(raw) >= 32 {
			return raw, nil
		}
	}
	return nil, errShortKey
}

var errShortKey = errors.New("needs 32 raw bytes, or at least 32 in hexadecimal or in base64")
