package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Resource is what a server says of itself as a protected resource (RFC 9728
// section 2).
type Resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	// Proofs are the algorithms with which tokens that are bound to a key are taken,
	// ProofsOnly tells that no others are.
	Proofs     []string `json:"dpop_signing_alg_values_supported"`
	ProofsOnly bool     `json:"dpop_bound_access_tokens_required"`
}

// Metadata is what an authorization server says of itself (RFC 8414 section 2).
type Metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Scopes                []string `json:"scopes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	Proofs                []string `json:"dpop_signing_alg_values_supported"` // with which tokens can be bound to a key
	ClientDocuments       bool     `json:"client_id_metadata_document_supported"`
	IssuerInResponse      bool     `json:"authorization_response_iss_parameter_supported"`
}

// maxServers bounds how many authorization servers of one resource are looked at.
const maxServers = 8

// ErrNotProtected tells that a server says nothing of an authorization server.
var ErrNotProtected = errors.New("the server does not say where one signs in")

// Canonical returns the resource identifier of a server's URL (2026-07-28
// basic/authorization, Canonical Server URI): scheme and host in lower case, no
// fragment, no user information, no trailing slash of an empty path.
func Canonical(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || u.Scheme == "" {
		return "", errors.New("the URL of the server has no host")
	}
	out := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	if out.Path == "/" {
		out.Path, out.RawPath = "", ""
	}
	return out.String(), nil
}

// FindResource reads what a server says of itself: where its challenge tells,
// else at the well-known places of its path and of its root, in this order. The
// error is [ErrNotProtected] where nothing is said anywhere.
func (c *Client) FindResource(ctx context.Context, server string, said Challenge) (*Resource, error) {
	canonical, err := Canonical(server)
	if err != nil {
		return nil, err
	}
	places := []string{said.ResourceMetadata}
	if said.ResourceMetadata == "" {
		u, _ := url.Parse(canonical)
		root := url.URL{Scheme: u.Scheme, Host: u.Host}
		places = places[:0]
		if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
			places = append(places, root.String()+"/.well-known/oauth-protected-resource"+path)
		}
		places = append(places, root.String()+"/.well-known/oauth-protected-resource")
	}
	for _, place := range places {
		u, err := c.endpoint("address of the resource metadata", place)
		if err != nil {
			return nil, err
		}
		var r Resource
		switch err := c.document(ctx, u, &r); {
		case errors.Is(err, errAbsent):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the resource metadata: %w", err)
		case !covers(r.Resource, canonical):
			return nil, errors.New("the resource metadata is of another resource than this server")
		case len(r.Servers) == 0:
			return nil, errors.New("the resource metadata names no authorization server")
		}
		r.Servers = r.Servers[:min(len(r.Servers), maxServers)]
		r.Scopes = Union(r.Scopes)
		return &r, nil
	}
	return nil, ErrNotProtected
}

// covers tells whether a resource is a server or what the server is below.
func covers(resource, server string) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.User != nil {
		return false
	}
	s, err := url.Parse(server)
	if err != nil || !strings.EqualFold(r.Scheme, s.Scheme) || !strings.EqualFold(r.Host, s.Host) || r.RawQuery != "" && r.RawQuery != s.RawQuery {
		return false
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	path := strings.TrimSuffix(s.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}

// FindServer reads what an authorization server says of itself, at the well-known
// places in the order of 2026-07-28 basic/authorization, Authorization Server
// Metadata Discovery. What it says counts only if it names itself by the very
// issuer.
func (c *Client) FindServer(ctx context.Context, issuer string) (*Metadata, error) {
	u, err := c.endpoint("issuer", issuer)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" {
		return nil, errors.New("the issuer has a query")
	}
	root := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, root+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		at, err := url.Parse(place)
		if err != nil {
			return nil, fmt.Errorf("the issuer is not a URL: %w", err)
		}
		var m Metadata
		switch err := c.document(ctx, at, &m); {
		case errors.Is(err, errAbsent):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the metadata of the authorization server: %w", err)
		}
		if err := c.check(&m, issuer); err != nil {
			return nil, err
		}
		return &m, nil
	}
	return nil, fmt.Errorf("the authorization server %s publishes no metadata", u.Hostname())
}

// check refuses metadata of another issuer, or with an endpoint that nobody may be
// sent to.
func (c *Client) check(m *Metadata, issuer string) error {
	if m.Issuer != issuer {
		return errors.New("the metadata of the authorization server is of another issuer; it is not used")
	}
	for _, e := range []struct {
		what, url string
		needed    bool
	}{
		{"token endpoint", m.TokenEndpoint, true},
		{"authorization endpoint", m.AuthorizationEndpoint, false},
		{"registration endpoint", m.RegistrationEndpoint, false},
		{"revocation endpoint", m.RevocationEndpoint, false},
	} {
		if e.url == "" && !e.needed {
			continue
		}
		if _, err := c.endpoint(e.what, e.url); err != nil {
			return fmt.Errorf("metadata of the authorization server: %w", err)
		}
	}
	return nil
}

// Origin is the issuer of a server that says nothing of an authorization server,
// as 2025-03-26 had it: its own origin.
func Origin(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("the URL of the server has no host")
	}
	return (&url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host)}).String(), nil
}

// Takes tells whether an authorization server takes a grant type. One that names
// none takes those of RFC 8414 section 2.
func (m *Metadata) Takes(grant string) bool {
	if len(m.GrantTypes) == 0 {
		return grant == "authorization_code" || grant == "implicit"
	}
	return slices.Contains(m.GrantTypes, grant)
}
