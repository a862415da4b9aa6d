package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/internal/loopback"
)

// wellKnown returns the possible addresses of an issuer's metadata, in the order of MCP
// 2026-07-28 authorization server discovery (RFC 8414 sections 3.1 and 5, OpenID
// Connect Discovery 1.0 section 4).
func wellKnown(issuer *url.URL) []string {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	origin := issuer.Scheme + "://" + issuer.Host
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{origin + oauth, origin + oidc}
	}
	return []string{origin + oauth + path, origin + oidc + path, origin + path + oidc}
}

// discover returns the address of an issuer's keys from its metadata.
func (f *fetcher) discover(ctx context.Context, issuer string) (string, error) {
	u, err := serverURL(issuer)
	if err != nil {
		return "", err
	}
	var tried []error
	for _, at := range wellKnown(u) {
		document, err := f.object(ctx, at)
		if err == nil {
			var keys string
			if keys, err = keysOf(document, issuer, loopback.Host(u.Hostname())); err == nil {
				return keys, nil
			}
			err = fmt.Errorf("GET %s: %w", at, err)
		}
		tried = append(tried, err)
	}
	return "", fmt.Errorf("no usable metadata: %w", errors.Join(tried...))
}

// keysOf returns jwks_uri from a metadata document. The document must be the issuer's
// own, byte for byte (RFC 8414 section 3.3). Only an issuer on this machine may have
// its keys on this machine.
func keysOf(document map[string]any, issuer string, local bool) (string, error) {
	if named, _, err := member(document, "issuer"); err != nil || named != issuer {
		return "", errors.New("the document is that of another issuer")
	}
	address, ok, err := member(document, "jwks_uri")
	if err != nil || !ok {
		return "", errors.New("the document names no jwks_uri")
	}
	u, err := serverURL(address)
	if err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	if !local && loopback.Host(u.Hostname()) {
		return "", errors.New("jwks_uri leads to this machine, where the issuer is not")
	}
	return address, nil
}
