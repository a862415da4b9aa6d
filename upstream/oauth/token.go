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
	"time"
)

// Token is what an authorization server gave. The texts are secrets.
type Token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero where it was not said
	Scopes  []string  `json:"scopes,omitempty"` // granted; nil where it was not said
	Bound   bool      `json:"bound,omitempty"`  // to the key that was proven when it was asked for
	ID      string    `json:"-"`                // says who signed in (OpenID Connect Core section 2); not checked here
}

// Authorization is the value of the header that shows the token.
func (t *Token) Authorization() string {
	if t.Bound {
		return SchemeBound + t.Access
	}
	return "Bearer " + t.Access
}

// SchemeBound begins the header that shows a token which is bound to a key.
const SchemeBound = "DPoP "

// Types of tokens and grants (RFC 8693 section 3, RFC 7523 section 2.1, the
// identity assertion of enterprise-managed authorization).
const (
	TypeAccess = "urn:ietf:params:oauth:token-type:access_token"
	TypeID     = "urn:ietf:params:oauth:token-type:id_token"
	TypeJWT    = "urn:ietf:params:oauth:token-type:jwt"
	TypeIDJAG  = "urn:ietf:params:oauth:token-type:id-jag"

	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

// maxLife bounds how long a token is taken for good, whatever is said of it.
const maxLife = 365 * 24 * time.Hour

// Redeem trades a code for a token (RFC 6749 section 4.1.3, RFC 7636).
func (c *Client) Redeem(ctx context.Context, m *Metadata, r *Registration, l *Login, code string) (*Token, error) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {l.Redirect}, "code_verifier": {l.Verifier},
	}
	if l.Resource != "" {
		form.Set("resource", l.Resource)
	}
	return c.token(ctx, m, r, form)
}

// Refresh trades a refresh token for a token (RFC 6749 section 6). Where the
// answer has no refresh token the one that was given stays good.
func (c *Client) Refresh(ctx context.Context, m *Metadata, r *Registration, refresh, resource string) (*Token, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "resource": {resource}}
	t, err := c.token(ctx, m, r, form)
	if err == nil && t.Refresh == "" {
		t.Refresh = refresh
	}
	return t, err
}

// ClientCredentials has a token for the client itself (RFC 6749 section 4.4).
func (c *Client) ClientCredentials(ctx context.Context, m *Metadata, r *Registration, resource string, scopes []string) (*Token, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}
	setScope(form, scopes)
	return c.token(ctx, m, r, form)
}

// Exchange is one token exchange (RFC 8693 section 2.1).
type Exchange struct {
	Subject, SubjectType string
	Wanted               string // type of the token that is wanted
	Audience, Resource   string
	Scopes               []string
}

// Exchange trades what proves an identity for another token. Its type is the one
// that was wanted.
func (c *Client) Exchange(ctx context.Context, m *Metadata, r *Registration, x Exchange) (*Token, error) {
	form := url.Values{
		"grant_type": {grantExchange}, "subject_token": {x.Subject}, "subject_token_type": {x.SubjectType}, "requested_token_type": {x.Wanted},
	}
	for name, value := range map[string]string{"audience": x.Audience, "resource": x.Resource} {
		if value != "" {
			form.Set(name, value)
		}
	}
	setScope(form, x.Scopes)
	return c.token(ctx, m, r, form)
}

// Bearer trades an assertion of somebody's identity for a token (RFC 7523 section
// 2.1).
func (c *Client) Bearer(ctx context.Context, m *Metadata, r *Registration, assertion, resource string, scopes []string) (*Token, error) {
	form := url.Values{"grant_type": {grantBearer}, "assertion": {assertion}, "resource": {resource}}
	setScope(form, scopes)
	return c.token(ctx, m, r, form)
}

// Revoke tells an authorization server that a token is not used any more (RFC
// 7009). One that has no such endpoint is told nothing.
func (c *Client) Revoke(ctx context.Context, m *Metadata, r *Registration, token, hint string) error {
	if m.RevocationEndpoint == "" || token == "" {
		return nil
	}
	to, err := c.endpoint("revocation endpoint", m.RevocationEndpoint)
	if err != nil {
		return err
	}
	form, header := url.Values{"token": {token}, "token_type_hint": {hint}}, make(http.Header)
	if err := r.authenticate(m, form, header); err != nil {
		return err
	}
	if _, err := c.post(ctx, to, "application/x-www-form-urlencoded", []byte(form.Encode()), header, nil); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	return nil
}

func setScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// token makes a token request.
func (c *Client) token(ctx context.Context, m *Metadata, r *Registration, form url.Values) (*Token, error) {
	if r.Issuer != "" && r.Issuer != m.Issuer {
		return nil, errors.New("the client is registered at another authorization server")
	}
	to, err := c.endpoint("token endpoint", m.TokenEndpoint)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	got, err := c.ask(ctx, m, r, to, form)
	if err != nil {
		return nil, fmt.Errorf("ask for a token: %w", err)
	}
	wanted := form.Get("requested_token_type")
	grant := wanted == TypeIDJAG || wanted == TypeJWT // which no request carries, so that it has no scheme
	bound := c.binding.Key != nil && strings.EqualFold(got.Type, "DPoP")
	switch {
	case !visible(got.Access) || strings.Contains(got.Access, " "):
		return nil, errors.New("the authorization server gave no usable token")
	case c.binding.Required && !bound && strings.EqualFold(got.Type, "Bearer"):
		return nil, errors.New("the authorization server gave a token that anybody could use, although it has to be bound to a key; it is not used")
	case !bound && !strings.EqualFold(got.Type, "Bearer") && !(grant && strings.EqualFold(got.Type, "N_A")):
		return nil, fmt.Errorf("the authorization server gave a token of the type %.20q, which is not supported", got.Type)
	case wanted != "" && got.Issued != "" && got.Issued != wanted:
		return nil, errors.New("the authorization server gave another type of token than was asked for")
	case got.Refresh != "" && !visible(got.Refresh):
		return nil, errors.New("the authorization server gave no usable refresh token")
	}
	t := &Token{Access: got.Access, Refresh: got.Refresh, Scopes: Scopes(got.Scope), Bound: bound, ID: got.ID}
	if life, ok := seconds(got.Expires); ok {
		t.Expires = began.Add(life)
	}
	return t, nil
}

// tokenAnswer is the answer to a token request (RFC 6749 section 5.1).
type tokenAnswer struct {
	Access  string          `json:"access_token"`
	Type    string          `json:"token_type"`
	Issued  string          `json:"issued_token_type"`
	Refresh string          `json:"refresh_token"`
	Expires json.RawMessage `json:"expires_in"`
	Scope   string          `json:"scope"`
	ID      string          `json:"id_token"`
}

// ask sends a token request: once more where the authorization server wants its nonce
// in the proof, before which it has not looked at what it is given.
func (c *Client) ask(ctx context.Context, m *Metadata, r *Registration, to *url.URL, form url.Values) (got tokenAnswer, err error) {
	nonce := ""
	if c.binding.Key != nil {
		nonce = c.binding.Nonces.Newest(to)
	}
	for challenged := false; ; challenged = true {
		header := make(http.Header)
		if err := r.authenticate(m, form, header); err != nil {
			return got, err
		}
		if c.binding.Key != nil {
			proof, err := c.binding.Key.Prove(http.MethodPost, to, "", nonce)
			if err != nil {
				return got, err
			}
			header[HeaderProof] = []string{proof}
		}
		heard, err := c.post(ctx, to, "application/x-www-form-urlencoded", []byte(form.Encode()), header, &got)
		refused, ok := errors.AsType[*Error](err)
		if wants := ok && c.binding.Key != nil && refused.Code == wantsNonce; !wants || challenged || GivenNonce(heard) == "" {
			if !wants && c.binding.Key != nil && heard != nil {
				c.binding.Nonces.Accepted(to, nonce, heard)
			}
			return got, err
		}
		nonce = GivenNonce(heard)
	}
}

// seconds reads a number of seconds, which some servers write as a text. What is no
// life of a token says nothing of it: a token that was over when it was given would be
// asked for again with every call.
func seconds(raw json.RawMessage) (time.Duration, bool) {
	var n json.Number
	if err := json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &n); err != nil {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || f <= 0 {
		return 0, false
	}
	return time.Duration(min(f, maxLife.Seconds()) * float64(time.Second)), true
}

// Refused tells whether an error is an authorization server's final word on what
// was presented, so that asking again would change nothing.
func Refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client", "access_denied", "invalid_scope", "unsupported_grant_type", "invalid_target"}, e.Code)
}

// Rejected tells whether an error is an authorization server's answer to what it was
// given, whatever it says: neither that it could not be asked now, nor that it did not
// look at it for want of a proof.
func Rejected(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout && !aboutProof(e.Code)
}
