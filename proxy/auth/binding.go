package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// bindingClaim returns the SHA-256 of the certificate that a token is bound to
// (RFC 8705 section 3.1), nil where it is bound to nothing. A token that is
// bound in another way, such as by DPoP (RFC 9449), is refused: it would be
// taken from whoever holds it.
func bindingClaim(claims map[string]any) ([]byte, error) {
	v, ok := claims["cnf"]
	if !ok {
		return nil, nil
	}
	cnf, _ := v.(map[string]any)
	thumbprint, ok := cnf["x5t#S256"].(string)
	if !ok || len(cnf) != 1 {
		return nil, badf("it is bound in a way that is not supported")
	}
	sum, err := decodeBase64(thumbprint)
	if err != nil || len(sum) != sha256.Size {
		return nil, badf("it is bound to what is no certificate")
	}
	return sum, nil
}

// checkBinding tells whether the request came over a connection with the
// certificate that the token is bound to. The handshake proved that the client
// has its key; who issued it does not matter here (RFC 8705 section 3).
func checkBinding(r *http.Request, bound []byte) error {
	if bound == nil {
		return nil
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return badf("it is bound to a certificate and came without one")
	}
	sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	if subtle.ConstantTimeCompare(sum[:], bound) != 1 {
		return badf("it is bound to another certificate")
	}
	return nil
}
