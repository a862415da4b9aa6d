package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// bindingClaim returns the SHA-256 of the certificate that a token is bound to (RFC
// 8705 section 3.1), nil for an unbound token. A token that is bound in another way,
// such as by DPoP (RFC 9449), is refused: otherwise it would be accepted from anyone
// who holds it.
func bindingClaim(claims map[string]any) ([]byte, error) {
	v, ok := claims["cnf"]
	if !ok {
		return nil, nil
	}
	cnf, _ := v.(map[string]any)
	thumbprint, ok := cnf["x5t#S256"].(string)
	if !ok || len(cnf) != 1 {
		return nil, badCredentialf("it is bound in a way that is not supported")
	}
	sum, err := decodeBase64(thumbprint)
	if err != nil || len(sum) != sha256.Size {
		return nil, badCredentialf("it is bound to something that is not a certificate")
	}
	return sum, nil
}

// checkBinding checks that the request came over a connection with the certificate that
// the token is bound to. The TLS handshake proved that the client has the key. The
// issuer of the certificate does not matter here (RFC 8705 section 3).
func checkBinding(r *http.Request, bound []byte) error {
	if bound == nil {
		return nil
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return badCredentialf("it is bound to a certificate and came without one")
	}
	sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	if subtle.ConstantTimeCompare(sum[:], bound) != 1 {
		return badCredentialf("it is bound to another certificate")
	}
	return nil
}
