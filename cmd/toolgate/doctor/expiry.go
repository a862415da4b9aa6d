package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Token checks a credential by its own claims: a signed token (RFC 7519) says until when
// it is valid. where names its place; no finding contains the credential itself.
func Token(subject, where, value string, now time.Time) []Finding {
	fields := strings.Fields(value)
	if len(fields) == 0 {
		return nil
	}
	parts := strings.Split(fields[len(fields)-1], ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Expires   float64 `json:"exp"`
		NotBefore float64 `json:"nbf"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return nil
	}
	if end := time.Unix(int64(claims.Expires), 0); claims.Expires > 0 && now.After(end) {
		return []Finding{Found(CodeExpired, subject, fmt.Sprintf("the token in %s expired at %s", where, end.UTC().Format(time.RFC3339)), "")}
	}
	if begin := time.Unix(int64(claims.NotBefore), 0); claims.NotBefore > 0 && now.Add(clockTolerance).Before(begin) {
		return []Finding{Found(CodeExpired, subject, fmt.Sprintf("the token in %s is not valid before %s", where, begin.UTC().Format(time.RFC3339)),
			"Check that this machine's clock is right, or get another token.")}
	}
	return nil
}

// soon is how long before its expiry a certificate is worth a warning.
const soon = 14 * 24 * time.Hour

// Certificate checks the gateway's own certificate.
func Certificate(certFile, keyFile string, now time.Time) []Finding {
	const subject = "listen.tls"
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return []Finding{Found(CodeCertUnusable, subject, err.Error(), "")}
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return []Finding{Found(CodeCertUnusable, subject, err.Error(), "")}
	}
	switch end := cert.NotAfter.UTC().Format(time.RFC3339); {
	case now.After(cert.NotAfter):
		return []Finding{Found(CodeCertExpired, subject, fmt.Sprintf("%s expired at %s", certFile, end), "")}
	case now.Before(cert.NotBefore):
		return []Finding{Found(CodeCertExpired, subject, fmt.Sprintf("%s is not valid before %s", certFile, cert.NotBefore.UTC().Format(time.RFC3339)), "")}
	case now.Add(soon).After(cert.NotAfter):
		return []Finding{Found(CodeCertSoon, subject, fmt.Sprintf("%s expires at %s", certFile, end), "")}
	}
	return nil
}
