package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// HeaderProof carries a proof of a key (RFC 9449 section 4.1).
const HeaderProof = "Dpop"

// ProofAlgorithms are those that keys of proofs can have, the one that is preferred
// first.
var ProofAlgorithms = []string{"ES256", "EdDSA", "ES384"}

// ProofAlgorithm returns the best algorithm that is on all lists, empty for none. An
// empty list says nothing.
func ProofAlgorithm(lists ...[]string) string {
	for _, alg := range ProofAlgorithms {
		if !slices.ContainsFunc(lists, func(l []string) bool { return len(l) > 0 && !slices.Contains(l, alg) }) {
			return alg
		}
	}
	return ""
}

// ProofKey is a key pair that tokens are bound to: who sends one has to prove to hold
// the key, anew in every request (RFC 9449). As text it is the private key. It is safe
// for concurrent use.
type ProofKey struct {
	key        crypto.Signer
	method     jwt.SigningMethod
	public     map[string]string // JWK
	thumbprint string
}

// NewProofKey makes a key pair for one of [ProofAlgorithms].
func NewProofKey(algorithm string) (*ProofKey, error) {
	var key crypto.Signer
	var err error
	switch algorithm {
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("%.20q is not an algorithm for it", algorithm)
	}
	if err != nil {
		return nil, fmt.Errorf("make a key for proofs: %w", err)
	}
	k := &ProofKey{}
	return k, k.use(key)
}

// use takes a private key over.
func (k *ProofKey) use(key any) error {
	encode := base64.RawURLEncoding.EncodeToString
	switch own := key.(type) {
	case *ecdsa.PrivateKey:
		point, err := own.PublicKey.Bytes()
		if err != nil {
			return fmt.Errorf("encode a public key: %w", err)
		}
		switch own.Curve {
		case elliptic.P256():
			k.method = jwt.SigningMethodES256
		case elliptic.P384():
			k.method = jwt.SigningMethodES384
		default:
			return errors.New("the key of proofs is on neither P-256 nor P-384")
		}
		half := len(point) / 2 // behind the byte that says that both coordinates follow
		k.public = map[string]string{"kty": "EC", "crv": own.Params().Name, "x": encode(point[1 : half+1]), "y": encode(point[half+1:])}
		k.key = own
	case ed25519.PrivateKey:
		public, _ := own.Public().(ed25519.PublicKey)
		k.method, k.key = jwt.SigningMethodEdDSA, own
		k.public = map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(public)}
	default:
		return fmt.Errorf("a key of the type %T is not for proofs", key)
	}
	// The members that RFC 7638 wants are all that there are, and a map is written in
	// the order that it wants.
	text, err := json.Marshal(k.public)
	if err != nil {
		return fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(text)
	k.thumbprint = encode(sum[:])
	return nil
}

// Algorithm returns the one of [ProofAlgorithms] that the key is for.
func (k *ProofKey) Algorithm() string { return k.method.Alg() }

// Thumbprint returns by what the key is known (RFC 9449 section 6, jkt).
func (k *ProofKey) Thumbprint() string { return k.thumbprint }

// Prove returns a proof for one request, with the token that the request carries, empty
// for one that asks for a token, and the nonce that the server wants, empty for none.
func (k *ProofKey) Prove(method string, to *url.URL, token, nonce string) (string, error) {
	claims := jwt.MapClaims{"jti": rand.Text(), "htm": method, "htu": target(to), "iat": time.Now().Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	t := jwt.NewWithClaims(k.method, claims)
	t.Header["typ"], t.Header["jwk"] = "dpop+jwt", k.public
	text, err := t.SignedString(k.key)
	if err != nil {
		return "", fmt.Errorf("sign a proof: %w", err)
	}
	return text, nil
}

// MarshalText implements [encoding.TextMarshaler]. The text is the private key.
func (k *ProofKey) MarshalText() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return nil, fmt.Errorf("encode a key of proofs: %w", err)
	}
	return base64.StdEncoding.AppendEncode(nil, der), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *ProofKey) UnmarshalText(text []byte) error {
	der, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return errors.New("a key of proofs cannot be read")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return errors.New("a key of proofs cannot be read")
	}
	return k.use(key)
}

// String implements [fmt.Stringer]. It shows the key to nobody.
func (k *ProofKey) String() string { return "the key " + k.thumbprint }

// GoString implements [fmt.GoStringer].
func (k *ProofKey) GoString() string { return k.String() }

// target is what a proof says that a request is sent to: without query and fragment
// (RFC 9449 section 4.2), in the form by which two addresses are compared (RFC 3986
// section 6.2).
func target(to *url.URL) string {
	path := to.EscapedPath()
	if path == "" {
		path = "/"
	}
	return origin(to) + path
}

// origin is a scheme with a host, and a port that is not the scheme's own.
func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return scheme + "://" + host
}

const (
	headerNonce = "Dpop-Nonce"
	// wantsNonce is the error code by which a server asks for its nonce in a proof
	// (RFC 9449 sections 8 and 9).
	wantsNonce = "use_dpop_nonce"
	// maxNonce bounds a nonce, in bytes; they are times or counters, encrypted.
	maxNonce = 2 << 10
	// maxOrigins bounds of how many origins a nonce is remembered.
	maxOrigins = 64
)

// Nonces remember the newest nonce of each origin. Of more origins than there may be
// some are forgotten, which costs a request each. The zero value is empty, and nil
// remembers nothing. It is safe for concurrent use.
type Nonces struct {
	mu     sync.Mutex
	newest map[string]string
}

// Newest returns the nonce to send to an address first, empty where none is known.
func (n *Nonces) Newest(to *url.URL) string {
	if n == nil {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.newest) == 0 {
		return ""
	}
	return n.newest[origin(to)]
}

// GivenNonce returns the nonce that an answer brings, empty for none.
func GivenNonce(answer http.Header) string {
	if given := answer[headerNonce]; len(given) == 1 && isNonce(given[0]) {
		return given[0]
	}
	return ""
}

// Accepted takes the news that a server has looked at a request with a nonce, empty for
// none, and the header of its answer, which may bring the next one. The nonce of a
// refusal is for the request that was refused alone until then: it may be good once.
func (n *Nonces) Accepted(from *url.URL, nonce string, answer http.Header) {
	if given := GivenNonce(answer); given != "" {
		nonce = given
	}
	if n == nil || nonce == "" {
		return
	}
	at := origin(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.newest == nil {
		n.newest = make(map[string]string)
	}
	if _, known := n.newest[at]; !known && len(n.newest) >= maxOrigins {
		for other := range n.newest {
			delete(n.newest, other)
			break
		}
	}
	n.newest[at] = nonce
}

// isNonce tells whether a text is one by RFC 9449 section 8.1, and not too long to be
// meant so.
func isNonce(text string) bool {
	return text != "" && len(text) <= maxNonce &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' })
}

// Binding is what tokens are to be bound to. The zero value is nothing.
type Binding struct {
	Key *ProofKey
	// Required refuses tokens that are bound to nothing.
	Required bool
	// Nonces are those of authorization servers.
	Nonces *Nonces
}

// Bound returns a client that asks for tokens which are bound to a key.
func (c *Client) Bound(b Binding) *Client {
	bound := *c
	bound.binding = b
	return &bound
}
