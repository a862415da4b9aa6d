package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Login is the way of one person to an authorization server and back. It is
// kept while they are away; what it holds is secret but for the issuer.
type Login struct {
	State    string   `json:"state"`
	Verifier string   `json:"verifier"`
	Issuer   string   `json:"issuer"` // of validated metadata
	Named    bool     `json:"named"`  // the answer has to name its issuer
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"` // asked for; nil asks for none by name
	Redirect string   `json:"redirect"`
	// Nonce has to be in the ID token of somebody who signs in here; empty for none.
	Nonce string `json:"nonce,omitempty"`
	// Proof is the key that the code and its token are bound to, nil for none.
	Proof *ProofKey `json:"proof,omitempty"`
}

// ErrNoProof means that an authorization server does not say that codes are safe there.
var ErrNoProof = errors.New("the authorization server does not say that it supports PKCE with S256, without which codes are not safe")

// Begin returns a login and the URL that a browser is sent to.
func (c *Client) Begin(m *Metadata, r *Registration, resource, redirect string, scopes []string) (*Login, string, error) {
	if !slices.Contains(m.ChallengeMethods, "S256") {
		return nil, "", ErrNoProof
	}
	return c.begin(m, r, resource, redirect, scopes)
}

// begin is [Client.Begin] without a look at what is said of PKCE.
func (c *Client) begin(m *Metadata, r *Registration, resource, redirect string, scopes []string) (*Login, string, error) {
	to, err := c.endpoint("authorization endpoint", m.AuthorizationEndpoint)
	switch {
	case err != nil:
		return nil, "", err
	case r.Issuer != "" && r.Issuer != m.Issuer:
		return nil, "", errors.New("the client is registered at another authorization server")
	}
	l := &Login{
		State: rand.Text(), Verifier: rand.Text() + rand.Text(), Issuer: m.Issuer, Named: m.IssuerInResponse,
		Resource: resource, Scopes: scopes, Redirect: redirect, Proof: c.binding.Key,
	}
	sum := sha256.Sum256([]byte(l.Verifier))
	query := to.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": r.ID, "redirect_uri": redirect, "state": l.State,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	if resource != "" {
		query.Set("resource", resource)
	}
	if len(scopes) > 0 {
		query.Set("scope", strings.Join(scopes, " "))
	}
	if l.Proof != nil {
		query.Set("dpop_jkt", l.Proof.Thumbprint()) // RFC 9449 section 10
	}
	if slices.Contains(scopes, offline) {
		query.Set("prompt", "consent") // OpenID Connect Core section 11
	}
	to.RawQuery = query.Encode()
	return l, to.String(), nil
}

// BeginOpenID is [Client.Begin] for somebody who signs in to the gateway itself (OpenID
// Connect Core section 3.1.2.1). The answer's ID token has to hold the nonce of the login,
// which makes a code of somebody else worthless here even where PKCE is not looked at
// (RFC 9700 section 2.1.1). So a server that says nothing of PKCE is used, with S256: some
// support it without saying so, such as Microsoft Entra ID.
func (c *Client) BeginOpenID(m *Metadata, r *Registration, redirect string, scopes []string) (*Login, string, error) {
	if len(m.ChallengeMethods) > 0 && !slices.Contains(m.ChallengeMethods, "S256") {
		return nil, "", ErrNoProof
	}
	l, address, err := c.begin(m, r, "", redirect, Union([]string{openID}, scopes))
	if err != nil {
		return nil, "", err
	}
	to, err := url.Parse(address)
	if err != nil {
		return nil, "", fmt.Errorf("authorization endpoint: %w", err)
	}
	l.Nonce = rand.Text()
	query := to.Query()
	query.Set("nonce", l.Nonce)
	to.RawQuery = query.Encode()
	return l, to.String(), nil
}

// Answer is what an authorization server sent a person back with.
type Answer struct {
	Code, State, Issuer, Error string
	HasIssuer                  bool
}

// ErrForeignAnswer is wrapped by the errors of answers that are not of the login which was
// begun.
var ErrForeignAnswer = errors.New("it is not used")

// ParseAnswer reads the query of a redirect. A parameter that is there twice is
// refused.
func ParseAnswer(query url.Values) (Answer, error) {
	for _, name := range [...]string{"code", "state", "iss", "error"} {
		if len(query[name]) > 1 {
			return Answer{}, fmt.Errorf("the answer has %s twice; %w", name, ErrForeignAnswer)
		}
	}
	_, named := query["iss"]
	return Answer{Code: query.Get("code"), State: query.Get("state"), Issuer: query.Get("iss"), Error: query.Get("error"), HasIssuer: named}, nil
}

// Check refuses an answer that is not of this login's authorization server, or
// that brings no code (2026-07-28 basic/authorization, Authorization Response
// Validation; RFC 9207 section 2.4). Of one of another issuer nothing is told.
func (l *Login) Check(a Answer) error {
	switch {
	case l.State == "" || a.State != l.State:
		return fmt.Errorf("the answer belongs to no login that was begun here; %w", ErrForeignAnswer)
	case l.Named && !a.HasIssuer:
		return fmt.Errorf("the answer does not name its authorization server, which it must; %w", ErrForeignAnswer)
	case a.HasIssuer && a.Issuer != l.Issuer:
		return fmt.Errorf("the answer is of another authorization server; %w", ErrForeignAnswer)
	case a.Error != "":
		return &Error{Code: errorCode(a.Error), Host: hostOf(l.Issuer), Status: 200}
	case !visible(a.Code):
		return errors.New("the answer brings no code")
	}
	return nil
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the authorization server"
	}
	return u.Hostname()
}

// CheckBrowserURL refuses what no browser of a person may be sent to: all but https,
// and http on this machine, and characters that a program which opens addresses
// could take for something else.
func CheckBrowserURL(address string) error {
	c := Client{Loopback: true}
	_, err := c.endpoint("address", address)
	return err
}
