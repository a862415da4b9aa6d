package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/loopback"
)

// Methods by which a client authenticates at a token endpoint.
const (
	AuthNone  = "none"
	AuthBasic = "client_secret_basic"
	AuthPost  = "client_secret_post"
	AuthKey   = "private_key_jwt"
)

// Registration is a client as one authorization server knows it. It is good
// there alone, except where the client's id is the URL of its document.
type Registration struct {
	Issuer   string   `json:"issuer"` // empty for a document, which is of no issuer
	ID       string   `json:"id"`
	Secret   string   `json:"secret,omitempty"`
	Method   string   `json:"method,omitempty"` // empty leaves the choice
	Expires  int64    `json:"expires,omitempty"`
	Redirect []string `json:"redirect,omitempty"`

	// Key signs assertions; nil where the method is another.
	Key *Key `json:"-"`
}

// Document is a client's description of itself: what it registers with, and what
// its id leads to where that is a URL (OAuth Client ID Metadata Documents).
type Document struct {
	ClientID        string   `json:"client_id,omitempty"`
	ClientName      string   `json:"client_name"`
	ClientURI       string   `json:"client_uri,omitempty"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type,omitempty"`
	Scope           string   `json:"scope,omitempty"`
}

// NewDocument describes a client that people sign in with. What is served on this
// machine is a native application, all else a web one (2026-07-28
// basic/authorization/client-registration, Application Type).
func NewDocument(name, redirect string) Document {
	d := Document{
		ClientName: name, RedirectURIs: []string{redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		AuthMethod: AuthNone, ApplicationType: "web",
	}
	if u, err := url.Parse(redirect); err == nil && loopback.Host(u.Hostname()) {
		d.ApplicationType = "native"
	}
	return d
}

// IsDocument tells whether a URL may be the id of a client: https with a path.
func IsDocument(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.Path != "" && u.Path != "/" && u.Fragment == "" && u.User == nil
}

// Register makes a client known to an authorization server (RFC 7591).
func (c *Client) Register(ctx context.Context, m *Metadata, d Document) (*Registration, error) {
	to, err := c.endpoint("registration endpoint", m.RegistrationEndpoint)
	if err != nil {
		return nil, err
	}
	d.ClientID, d.AuthMethod = "", chooseMethod(m)
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write the registration: %w", err)
	}
	var got struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Method  string `json:"token_endpoint_auth_method"`
		Expires int64  `json:"client_secret_expires_at"`
	}
	if _, err := c.post(ctx, to, "application/json", body, nil, &got); err != nil {
		if refused, ok := errors.AsType[*Error](err); ok && refused.Code == "invalid_redirect_uri" {
			return nil, fmt.Errorf("the authorization server does not take a client that is reached at %s; register one there by hand and set auth.client_id: %w", strings.Join(d.RedirectURIs, ", "), err)
		}
		return nil, fmt.Errorf("register at the authorization server: %w", err)
	}
	if !visible(got.ID) || got.Secret != "" && !visible(got.Secret) {
		return nil, errors.New("the authorization server registered no usable client")
	}
	r := &Registration{Issuer: m.Issuer, ID: got.ID, Secret: got.Secret, Method: got.Method, Expires: got.Expires, Redirect: d.RedirectURIs}
	if r.Method == "" && r.Secret != "" {
		r.Method = d.AuthMethod
	}
	return r, nil
}

// chooseMethod is how a client of its own wishes to authenticate: as public as the
// server lets it.
func chooseMethod(m *Metadata) string {
	for _, method := range [...]string{AuthNone, AuthBasic, AuthPost} {
		if slices.Contains(m.AuthMethods, method) {
			return method
		}
	}
	return AuthBasic // RFC 8414 section 2, where nothing is said
}

// visible tells whether a text is one of visible ASCII characters, and not too
// long to be meant so.
func visible(text string) bool {
	return text != "" && len(text) <= 64<<10 && !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r >= 0x7f })
}

// method is how a registration authenticates at a token endpoint.
func (r *Registration) method(m *Metadata) (string, error) {
	if r.Method != "" {
		return r.Method, nil
	}
	if r.Key != nil {
		return AuthKey, nil
	}
	if r.Secret == "" {
		return AuthNone, nil
	}
	for _, method := range [...]string{AuthBasic, AuthPost} {
		if len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, method) {
			return method, nil
		}
	}
	return "", errors.New("the authorization server takes no secret of a client")
}

// authenticate puts what proves the client into a token request.
func (r *Registration) authenticate(m *Metadata, form url.Values, header http.Header) error {
	method, err := r.method(m)
	if err != nil {
		return err
	}
	switch method {
	case AuthNone:
		if r.ID != "" { // an assertion may be all that is known of who asks (RFC 7521 section 4.1)
			form.Set("client_id", r.ID)
		}
	case AuthPost:
		form.Set("client_id", r.ID)
		form.Set("client_secret", r.Secret)
	case AuthBasic:
		basic := &http.Request{Header: header}
		basic.SetBasicAuth(url.QueryEscape(r.ID), url.QueryEscape(r.Secret))
	case AuthKey:
		if r.Key == nil {
			return errors.New("the client has no key to sign with")
		}
		assertion, err := r.Key.assertion(r.ID, m.Issuer)
		if err != nil {
			return err
		}
		form.Set("client_id", r.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	default:
		return fmt.Errorf("the client authenticates by %.40q, which is not supported", method)
	}
	return nil
}
