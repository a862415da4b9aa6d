package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Who selects a credential. The zero Who is the credential that all callers share, or, if
// each has their own, that of everyone on a gateway without authentication.
type Who struct {
	Issuer, Tenant, Subject string
}

// Login is one entry of who is signed in where, or has to sign in.
type Login struct {
	Server string `json:"server"`
	// Who is a person's name, or "everyone".
	Who    string `json:"who"`
	Tenant string `json:"tenant,omitempty"`
	Issuer string `json:"issuer,omitempty"`
	Mode   string `json:"mode"`
	// State is signed_in or needs_login; Why says why somebody has to sign in.
	State string     `json:"state"`
	Why   string     `json:"why,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	At    string     `json:"at,omitempty"` // the authorization server
}

// Begun is a login that waits for a person.
type Begun struct {
	Mode string `json:"mode"`
	// URL is the address to open in a browser, and Redirect where the browser returns.
	// Both are empty if a key is entered.
	URL      string `json:"url,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// Logins is a [Gateway] with servers to sign in to. Errors are for people.
type Logins interface {
	Logins(ctx context.Context) ([]Login, error)
	BeginLogin(ctx context.Context, server string, who Who) (Begun, error)
	// FinishLogin takes the address that a browser was redirected to.
	FinishLogin(ctx context.Context, address string) error
	EnterKey(ctx context.Context, server string, who Who, key string) error
	// Logout tells whether there was anything to delete.
	Logout(ctx context.Context, server string, who Who) (bool, error)
}

// headerSecret carries what must not be in an address.
const headerSecret = "Toolgate-Secret"

func handleLogins(mux *router, l Logins) {
	answer := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			writeJSON(w, http.StatusConflict, map[string]any{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
	who := func(r *http.Request) (string, Who) {
		q := r.URL.Query()
		return q.Get("server"), Who{q.Get("issuer"), q.Get("tenant"), q.Get("subject")}
	}
	mux.HandleFunc("GET /v1/logins", func(w http.ResponseWriter, r *http.Request) {
		list, err := l.Logins(r.Context())
		answer(w, list, err)
	})
	mux.HandleFunc("POST /v1/logins/begin", func(w http.ResponseWriter, r *http.Request) {
		server, as := who(r)
		begun, err := l.BeginLogin(r.Context(), server, as)
		answer(w, begun, err)
	})
	mux.HandleFunc("POST /v1/logins/finish", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{}, l.FinishLogin(r.Context(), r.Header.Get(headerSecret)))
	})
	mux.HandleFunc("POST /v1/logins/key", func(w http.ResponseWriter, r *http.Request) {
		server, as := who(r)
		answer(w, map[string]any{}, l.EnterKey(r.Context(), server, as, r.Header.Get(headerSecret)))
	})
	mux.HandleFunc("POST /v1/logins/end", func(w http.ResponseWriter, r *http.Request) {
		server, as := who(r)
		had, err := l.Logout(r.Context(), server, as)
		answer(w, had, err)
	})
}

func loginPath(what, server string, as Who) string {
	return "/v1/logins/" + what + "?" + url.Values{"server": {server}, "issuer": {as.Issuer}, "tenant": {as.Tenant}, "subject": {as.Subject}}.Encode()
}

// Logins returns who is signed in where, or has to sign in.
func (c *Client) Logins(ctx context.Context) ([]Login, error) {
	var out []Login
	err := c.do(ctx, http.MethodGet, "/v1/logins", &out)
	return out, err
}

// BeginLogin begins a login.
func (c *Client) BeginLogin(ctx context.Context, server string, who Who) (Begun, error) {
	var out Begun
	err := c.do(ctx, http.MethodPost, loginPath("begin", server, who), &out)
	return out, err
}

// FinishLogin takes the address that a browser was redirected to.
func (c *Client) FinishLogin(ctx context.Context, address string) error {
	return c.doWith(ctx, http.Header{headerSecret: {address}}, http.MethodPost, "/v1/logins/finish", nil)
}

// EnterKey stores a key for a server.
func (c *Client) EnterKey(ctx context.Context, server string, who Who, key string) error {
	return c.doWith(ctx, http.Header{headerSecret: {key}}, http.MethodPost, loginPath("key", server, who), nil)
}

// Logout deletes a credential and tells whether there was one.
func (c *Client) Logout(ctx context.Context, server string, who Who) (bool, error) {
	var had bool
	err := c.do(ctx, http.MethodPost, loginPath("end", server, who), &had)
	return had, err
}
