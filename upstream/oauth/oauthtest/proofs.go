package oauthtest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proofs checks the proofs of keys that come with requests (RFC 9449 section 4.3), and
// remembers them: none may come twice. It is safe for concurrent use.
type Proofs struct {
	// Nonce tells whether a nonce is good, and Next gives one, which goes with every
	// answer. Nil wants none.
	Nonce func(nonce string) bool
	Next  func() string

	mu    sync.Mutex
	seen  map[string]bool
	keys  map[string]bool
	wrong []string
}

// Nonces are single-use: each is good once, and every answer brings another.
func Nonces() *Proofs {
	var mu sync.Mutex
	good, n := map[string]bool{}, 0
	return &Proofs{
		Nonce: func(nonce string) bool {
			mu.Lock()
			defer mu.Unlock()
			was := good[nonce]
			delete(good, nonce)
			return was
		},
		Next: func() string {
			mu.Lock()
			defer mu.Unlock()
			n++
			nonce := fmt.Sprintf("nonce-%d", n)
			good[nonce] = true
			return nonce
		},
	}
}

// Wrong tells what no client may do and one did.
func (p *Proofs) Wrong() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

// Seen returns how many good proofs came, and of how many keys.
func (p *Proofs) Seen() (proofs, keys int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen), len(p.keys)
}

func (p *Proofs) blame(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// check returns whose key the proof of a request is of. The code is an error to answer
// with, empty for a good proof. at is where the request was sent to, token what it
// shows.
func (p *Proofs) check(r *http.Request, at, token string) (thumbprint, code string) {
	const bad = "invalid_dpop_proof"
	given := r.Header.Values("Dpop")
	if len(given) != 1 {
		p.blame("%s: %d proofs", r.Method, len(given))
		return "", bad
	}
	header, claims, thumbprint, err := readProof(given[0])
	if err != nil {
		p.blame("%s: %v", r.Method, err)
		return "", bad
	}
	ath := ""
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		ath = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	jti, _ := claims["jti"].(string)
	issued, _ := claims["iat"].(float64)
	said, _ := claims["ath"].(string)
	age := time.Since(time.Unix(int64(issued), 0)).Abs()
	p.mu.Lock()
	replayed := p.seen[jti]
	if p.seen == nil {
		p.seen, p.keys = map[string]bool{}, map[string]bool{}
	}
	p.seen[jti], p.keys[thumbprint] = true, true
	p.mu.Unlock()
	switch {
	case header["typ"] != "dpop+jwt":
		err = fmt.Errorf("typ is %v", header["typ"])
	case jti == "" || replayed:
		err = fmt.Errorf("the jti %q comes again", jti)
	case claims["htm"] != r.Method:
		err = fmt.Errorf("htm is %v", claims["htm"])
	case claims["htu"] != at:
		err = fmt.Errorf("htu is %v, want %s", claims["htu"], at)
	case age > time.Minute:
		err = fmt.Errorf("iat is %v ago", age)
	case said != ath:
		err = fmt.Errorf("ath is %q, want %q", said, ath)
	}
	if err != nil {
		p.blame("%s: %v", r.Method, err)
		return "", bad
	}
	if nonce, _ := claims["nonce"].(string); p.Nonce != nil && !p.Nonce(nonce) {
		return "", "use_dpop_nonce"
	}
	return thumbprint, ""
}

// readProof reads a proof and checks its signature, by the standard library alone.
func readProof(text string) (header, claims map[string]any, thumbprint string, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, nil, "", fmt.Errorf("the proof %.20q is not a JWT", text)
	}
	raw := make([][]byte, 3)
	for i, part := range parts {
		if raw[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return nil, nil, "", fmt.Errorf("part %d of the proof: %w", i, err)
		}
	}
	var jwk struct {
		JWK map[string]string `json:"jwk"`
	}
	if json.Unmarshal(raw[0], &header) != nil || json.Unmarshal(raw[0], &jwk) != nil || json.Unmarshal(raw[1], &claims) != nil {
		return nil, nil, "", fmt.Errorf("the proof is not of JSON")
	}
	if jwk.JWK["d"] != "" {
		return nil, nil, "", fmt.Errorf("the proof has the private key")
	}
	coordinate := func(name string) []byte {
		b, _ := base64.RawURLEncoding.DecodeString(jwk.JWK[name])
		return b
	}
	point := slices.Concat([]byte{4}, coordinate("x"), coordinate("y"))
	signed, good := []byte(parts[0]+"."+parts[1]), false
	signature, half := raw[2], len(raw[2])/2
	r, s := new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])
	switch header["alg"] {
	case "ES256":
		sum := sha256.Sum256(signed)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		good = err == nil && ecdsa.Verify(key, sum[:], r, s)
	case "ES384":
		sum := sha512.Sum384(signed)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P384(), point)
		good = err == nil && ecdsa.Verify(key, sum[:], r, s)
	case "EdDSA":
		public := coordinate("x")
		good = len(public) == ed25519.PublicKeySize && ed25519.Verify(public, signed, signature)
	}
	if !good {
		return nil, nil, "", fmt.Errorf("the signature of the proof is not good (%v)", header["alg"])
	}
	members := `{"crv":"` + jwk.JWK["crv"] + `","kty":"` + jwk.JWK["kty"] + `","x":"` + jwk.JWK["x"] + `"`
	if jwk.JWK["kty"] == "EC" {
		members += `,"y":"` + jwk.JWK["y"] + `"`
	}
	sum := sha256.Sum256([]byte(members + "}"))
	return header, claims, base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
