package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// methods are the accepted signature algorithms. All are asymmetric, so that a public
// key is never mistaken for a secret. EdDSA and Ed25519 are two names of one (RFC 8037,
// RFC 9864).
var methods = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"PS256": jwt.SigningMethodPS256, "PS384": jwt.SigningMethodPS384, "PS512": jwt.SigningMethodPS512,
	"ES256": jwt.SigningMethodES256, "ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512,
	"EdDSA": jwt.SigningMethodEdDSA, "Ed25519": jwt.SigningMethodEdDSA,
}

// publicKey is a usable key of an issuer.
type publicKey struct {
	id   string   // empty when it has none
	algs []string // algorithms that it verifies
	key  crypto.PublicKey
}

// Limits of a key set.
const (
	setKeys     = 100
	rsaBitsLow  = 2048 // RFC 7518 section 3.3
	rsaBitsHigh = 8192
)

// parseKeySet parses a JWK Set (RFC 7517 section 5). Keys that cannot verify a token,
// such as encryption keys or unknown kinds, are left out. A set without usable keys is
// valid.
func parseKeySet(data []byte) ([]publicKey, error) {
	set, err := decodeObject(data)
	if err != nil {
		return nil, err
	}
	list, ok := set["keys"].([]any)
	switch {
	case !ok:
		return nil, errors.New("it has no list of keys")
	case len(list) > setKeys:
		return nil, fmt.Errorf("it has %d keys and may have %d", len(list), setKeys)
	}
	keys := make([]publicKey, 0, len(list))
	for _, item := range list {
		jwk, ok := item.(map[string]any)
		if !ok {
			return nil, errors.New("one of its keys is not an object")
		}
		if key, err := parseKey(jwk); err == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

var errNoUse = errors.New("the key does not verify tokens")

func parseKey(jwk map[string]any) (publicKey, error) {
	if !verifies(jwk) {
		return publicKey{}, errNoUse
	}
	id, _, err := member(jwk, "kid")
	if err != nil {
		return publicKey{}, err
	}
	k := publicKey{id: id}
	switch jwk["kty"] {
	case "RSA":
		k.algs = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		k.key, err = rsaKey(jwk)
	case "EC":
		k.algs, k.key, err = ecKey(jwk)
	case "OKP":
		k.algs = []string{"EdDSA", "Ed25519"}
		k.key, err = edKey(jwk)
	default: // includes symmetric keys
		return publicKey{}, errNoUse
	}
	if err != nil {
		return publicKey{}, err
	}
	alg, ok, err := member(jwk, "alg")
	switch {
	case err != nil:
		return publicKey{}, err
	case !ok || k.algs[0] == "EdDSA" && slices.Contains(k.algs, alg):
	case slices.Contains(k.algs, alg):
		k.algs = []string{alg}
	default:
		return publicKey{}, errNoUse
	}
	return k, nil
}

// verifies reports whether a key is meant for signatures (RFC 7517 sections 4.2 and
// 4.3).
func verifies(jwk map[string]any) bool {
	if use, ok := jwk["use"]; ok && use != "sig" {
		return false
	}
	ops, ok := jwk["key_ops"]
	if !ok {
		return true
	}
	list, _ := ops.([]any)
	return slices.Contains(list, any("verify"))
}

// keyBytes decodes a base64url member of a key.
func keyBytes(jwk map[string]any, name string) ([]byte, error) {
	s, _, err := member(jwk, name)
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

func rsaKey(jwk map[string]any) (*rsa.PublicKey, error) {
	n, err := keyBytes(jwk, "n")
	if err != nil {
		return nil, err
	}
	e, err := keyBytes(jwk, "e")
	if err != nil {
		return nil, err
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	bits := modulus.BitLen()
	switch {
	case bits < rsaBitsLow || bits > rsaBitsHigh:
		return nil, fmt.Errorf("an RSA key of %d bits", bits)
	case modulus.Bit(0) == 0 || exponent.BitLen() > 31 || exponent.Bit(0) == 0 || exponent.Int64() < 3:
		return nil, errors.New("not an RSA key")
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func ecKey(jwk map[string]any) ([]string, *ecdsa.PublicKey, error) {
	var curve elliptic.Curve
	var alg string
	switch jwk["crv"] {
	case "P-256":
		curve, alg = elliptic.P256(), "ES256"
	case "P-384":
		curve, alg = elliptic.P384(), "ES384"
	case "P-521":
		curve, alg = elliptic.P521(), "ES512"
	default:
		return nil, nil, errNoUse
	}
	point := []byte{4} // uncompressed
	for _, name := range []string{"x", "y"} {
		part, err := keyBytes(jwk, name)
		if err != nil {
			return nil, nil, err
		}
		if len(part) != (curve.Params().BitSize+7)/8 { // RFC 7518 section 6.2.1.2
			return nil, nil, errors.New("a coordinate of another length")
		}
		point = append(point, part...)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point) // refuses points off the curve
	return []string{alg}, key, err
}

func edKey(jwk map[string]any) (ed25519.PublicKey, error) {
	if jwk["crv"] != "Ed25519" {
		return nil, errNoUse
	}
	x, err := keyBytes(jwk, "x")
	if err != nil || len(x) != ed25519.PublicKeySize {
		return nil, errNoUse
	}
	return x, nil
}
