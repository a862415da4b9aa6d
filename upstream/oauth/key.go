package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// assertionTime is how long an assertion is good.
const assertionTime = 2 * time.Minute

// Key is the private key with which a client proves itself (RFC 7523 section 2.2).
type Key struct {
	id     string
	key    crypto.PrivateKey
	method jwt.SigningMethod
}

// ParseKey reads a private key in PEM: RSA of at least 2048 bits, ECDSA on P-256
// or P-384, or Ed25519. id is the key's id in assertions, empty for none.
func ParseKey(text []byte, id string) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it holds no key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if rsaKey, rsaErr := x509.ParsePKCS1PrivateKey(block.Bytes); rsaErr == nil {
			parsed, err = rsaKey, nil
		} else if ecKey, ecErr := x509.ParseECPrivateKey(block.Bytes); ecErr == nil {
			parsed, err = ecKey, nil
		}
	}
	if err != nil {
		return nil, errors.New("it holds no private key that can be read")
	}
	k := &Key{id: id, key: parsed}
	switch own := parsed.(type) {
	case *rsa.PrivateKey:
		if k.method = jwt.SigningMethodRS256; own.N.BitLen() < 2048 {
			return nil, errors.New("the RSA key is shorter than 2048 bits")
		}
	case *ecdsa.PrivateKey:
		switch own.Curve {
		case elliptic.P256():
			k.method = jwt.SigningMethodES256
		case elliptic.P384():
			k.method = jwt.SigningMethodES384
		default:
			return nil, errors.New("the ECDSA key is on neither P-256 nor P-384")
		}
	case ed25519.PrivateKey:
		k.method = jwt.SigningMethodEdDSA
	default:
		return nil, fmt.Errorf("a key of the type %T is not supported", parsed)
	}
	return k, nil
}

// assertion proves a client to one authorization server, once.
func (k *Key) assertion(client, audience string) (string, error) {
	now := time.Now()
	t := jwt.NewWithClaims(k.method, jwt.MapClaims{
		"iss": client, "sub": client, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	if k.id != "" {
		t.Header["kid"] = k.id
	}
	text, err := t.SignedString(k.key)
	if err != nil {
		return "", fmt.Errorf("sign an assertion: %w", err)
	}
	return text, nil
}
