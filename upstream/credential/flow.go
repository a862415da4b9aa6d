package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// loginTime is how long a person may be away.
const loginTime = 10 * time.Minute

// ErrNoLogin says that an answer belongs to no login that is under way.
var ErrNoLogin = errors.New("this login is not under way: it was finished, it took longer than 10 minutes, or it was not begun here")

// Flow brings people to authorization servers and back. It is safe for concurrent
// use.
type Flow struct {
	Options
	// Name is what people read of the gateway when it registers by itself.
	Name string
}

// Way is how a person comes back.
type Way struct {
	Redirect string // to where
	// Document is the URL of the gateway's own description with that redirect, empty
	// where authorization servers cannot read it.
	Document string
	// Browser is a secret of the browser that goes; empty for one that nothing is
	// known of, which is for those alone who may sign in for everybody.
	Browser string
}

// loginState is what is kept of a person who has gone to an authorization server.
type loginState struct {
	Server     string             `json:"server"`
	Principal  string             `json:"principal"`
	Browser    string             `json:"browser,omitempty"`
	Login      oauth.Login        `json:"login"`
	Client     oauth.Registration `json:"client"`
	Configured bool               `json:"configured,omitempty"`
}

// Begin returns the URL that a browser is to be sent to so that somebody signs in
// for a principal, and the state by which it comes back.
func (d *Flow) Begin(ctx context.Context, s *Source, principal string, w Way) (to, state string, err error) {
	if s.set.Mode != OAuth {
		return "", "", fmt.Errorf("%s needs no login: its auth.mode is %s", s.set.Server, s.set.Mode)
	}
	said, wider, err := s.wanted(ctx, principal)
	if err != nil {
		return "", "", err
	}
	p, err := s.locate(ctx, said, true)
	if err != nil {
		return "", "", fmt.Errorf("find where one signs in to %s: %w", s.set.Server, err)
	}
	client, configured, err := d.client(ctx, s, p.metadata, w)
	if err != nil {
		return "", "", err
	}
	of := p.of
	if len(s.set.Scopes) > 0 {
		of = nil
	}
	scopes := oauth.Union(oauth.Select(said, of, p.metadata, wider), s.set.Scopes)
	asks, err := s.bindsLogin(p)
	if err != nil {
		return "", "", err
	}
	login, to, err := asks.Begin(p.metadata, client, p.resource, w.Redirect, scopes)
	if err != nil {
		return "", "", err
	}
	j := loginState{Server: s.set.Server, Principal: s.owner(principal), Browser: w.Browser, Login: *login, Client: *client, Configured: configured}
	if configured {
		j.Client = oauth.Registration{ID: client.ID}
	}
	body, err := json.Marshal(&j)
	if err != nil {
		return "", "", fmt.Errorf("write a login: %w", err)
	}
	if err := d.Vault.KeepLogin(ctx, login.State, body, time.Now().Add(loginTime)); err != nil {
		return "", "", err
	}
	return to, login.State, nil
}

// wanted returns what the server said that it wants of a principal.
func (s *Source) wanted(ctx context.Context, principal string) (said oauth.Challenge, wider []string, err error) {
	h, release := s.acquire(principal)
	defer release()
	if err := h.take(ctx); err != nil {
		return said, nil, err
	}
	defer h.give()
	return h.said, h.wider, nil
}

// client returns as whom the gateway signs in at an authorization server: as it is
// registered by hand, by its own description, or as it registers itself.
func (d *Flow) client(ctx context.Context, s *Source, m *oauth.Metadata, w Way) (r *oauth.Registration, configured bool, err error) {
	if r, err = s.registered(m); r != nil || err != nil {
		return r, true, err
	}
	if m.ClientDocuments && oauth.IsDocument(w.Document) {
		return &oauth.Registration{ID: w.Document, Method: oauth.AuthNone}, false, nil
	}
	body, ok, err := d.Vault.Client(ctx, m.Issuer, w.Redirect)
	if err != nil {
		return nil, false, err
	}
	var kept oauth.Registration
	if ok && json.Unmarshal(body, &kept) == nil && kept.Issuer == m.Issuer && (kept.Expires == 0 || time.Now().Unix() < kept.Expires) {
		return &kept, false, nil
	}
	if m.RegistrationEndpoint == "" {
		return nil, false, fmt.Errorf("the authorization server of %s takes no client that it does not know; register toolgate there with the redirect URI %s and set toolgate.servers.%s.auth.client.id", s.set.Server, w.Redirect, s.set.Server)
	}
	if r, err = s.client.Register(ctx, m, oauth.NewDocument(d.Name, w.Redirect)); err != nil {
		return nil, false, err
	}
	if body, err = json.Marshal(r); err != nil {
		return nil, false, fmt.Errorf("write a registration: %w", err)
	}
	if err := d.Vault.KeepClient(ctx, m.Issuer, w.Redirect, body); err != nil {
		return nil, false, err
	}
	return r, false, nil
}

// Finish takes the answer that a person came back with, of the browser that it
// went with, and keeps the token that it is worth. find returns the source of a
// server, nil where there is none any more.
func (d *Flow) Finish(ctx context.Context, query url.Values, browser string, find func(server string) *Source) (server string, err error) {
	answer, err := oauth.ParseAnswer(query)
	if err != nil {
		return "", err
	}
	body, ok, err := d.Vault.TakeLogin(ctx, answer.State)
	if err != nil {
		return "", err
	}
	var j loginState
	if !ok || answer.State == "" || json.Unmarshal(body, &j) != nil {
		return "", ErrNoLogin
	}
	if j.Browser != "" && j.Browser != browser {
		return j.Server, errors.New("this login was begun in another browser")
	}
	s := find(j.Server)
	if s == nil || s.set.Mode != OAuth || s.owner(j.Principal) != j.Principal {
		return j.Server, errors.New("the server is not there any more, or its configuration has changed")
	}
	if err := j.Login.Check(answer); err != nil {
		return j.Server, err
	}
	// The login goes on at the very authorization server at which it began.
	m, err := s.client.FindServer(ctx, j.Login.Issuer)
	if err != nil {
		return j.Server, err
	}
	client := &j.Client
	if j.Configured {
		if client, err = s.registered(m); err != nil || client == nil || client.ID != j.Client.ID {
			return j.Server, errors.Join(err, errors.New("the client of the configuration has changed"))
		}
	}
	asks := s.client.Bound(oauth.Binding{Key: j.Login.Proof, Required: s.set.Binding == BindRequired, Nonces: &s.asNonces})
	t, err := asks.Redeem(ctx, m, client, &j.Login, answer.Code)
	if err != nil {
		if refused, ok := errors.AsType[*oauth.Error](err); ok && refused.Code == "invalid_client" && !j.Configured {
			_ = d.Vault.KeepClient(ctx, m.Issuer, j.Login.Redirect, nil) // the next login registers anew
		}
		return j.Server, err
	}
	c := content{Token: *t, Client: j.Client, Configured: j.Configured, Requested: j.Login.Scopes, Proof: j.Login.Proof}
	if body, err = c.seal(); err != nil {
		return j.Server, err
	}
	k := Key{Server: j.Server, Principal: j.Principal, Issuer: j.Login.Issuer, Resource: j.Login.Resource, Scopes: scopesKey(j.Login.Scopes)}
	if _, err := d.Vault.Put(ctx, k, body); err != nil {
		return j.Server, err
	}
	d.renewed(s, j.Principal)
	return j.Server, nil
}

// maxKey bounds an API key, in bytes.
const maxKey = 8 << 10

// Enter keeps a key that a principal entered.
func (d *Flow) Enter(ctx context.Context, s *Source, principal, key string) error {
	key = strings.TrimSpace(key)
	switch {
	case s.set.Mode != APIKey:
		return fmt.Errorf("%s takes no API key: its auth.mode is %s", s.set.Server, s.set.Mode)
	case key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r >= 0x7f }):
		return errors.New("that is no key: one has visible ASCII characters, in one line")
	}
	resource, err := oauth.Canonical(s.set.URL)
	if err != nil {
		return err
	}
	c := content{APIKey: key}
	body, err := c.seal()
	if err != nil {
		return err
	}
	if _, err := d.Vault.Put(ctx, Key{Server: s.set.Server, Principal: s.owner(principal), Resource: resource}, body); err != nil {
		return err
	}
	d.renewed(s, s.owner(principal))
	return nil
}

// Leave forgets the credential of a principal, and tells the authorization server
// that its tokens are not used any more. It returns false when there was none.
func (d *Flow) Leave(ctx context.Context, s *Source, principal string) (bool, error) {
	owner := s.owner(principal)
	kept, found, err := d.Vault.Find(ctx, s.set.Server, owner)
	if err != nil {
		return false, err
	}
	had, err := d.Vault.Delete(ctx, s.set.Server, owner)
	if err != nil {
		return false, err
	}
	d.renewed(s, owner)
	if found && kept.Issuer != "" {
		rec, err := open(kept)
		if err == nil {
			err = s.revoke(ctx, rec)
		}
		if err != nil { // it is forgotten all the same
			d.Logger.Info("an authorization server was not told that a login ended", "server", s.set.Server, "err", err)
		}
	}
	return had, nil
}

// renewed has a credential read again.
func (d *Flow) renewed(s *Source, principal string) {
	s.Forget(principal)
	d.Changed(s.set.Server, principal)
}

// State is what is known of a principal's credential.
type State struct {
	Server string
	// Needed tells that somebody has to sign in, Why for what reason.
	Needed bool
	Why    string
}

// State returns whether a principal has to sign in, as far as it is known without
// asking the server.
func (s *Source) State(ctx context.Context, principal string) (State, error) {
	st := State{Server: s.set.Server}
	h := s.known(principal)
	if h != nil {
		if missing := h.why.Load(); missing != nil {
			st.Needed, st.Why = true, missing.Why
			return st, nil //nolint:nilerr // it is what is asked for
		}
	}
	if s.set.Mode != APIKey && (s.set.Mode != OAuth || s.set.Shared) || h != nil && h.ready.Load() != nil {
		return st, nil
	}
	_, ok, err := s.opts.Vault.Find(ctx, s.set.Server, s.owner(principal))
	if st.Needed = !ok && err == nil; st.Needed {
		st.Why = "this caller has not signed in"
	}
	return st, err
}

// Where returns at which authorization server a principal signs in, and what for.
func (s *Source) Where(ctx context.Context, principal string) (host string, scopes []string, err error) {
	said, wider, err := s.wanted(ctx, principal)
	if err != nil {
		return "", nil, err
	}
	p, err := s.locate(ctx, said, false)
	if err != nil {
		return "", nil, fmt.Errorf("find where one signs in to %s: %w", s.set.Server, err)
	}
	of := p.of
	if len(s.set.Scopes) > 0 {
		of = nil
	}
	u, err := url.Parse(p.metadata.AuthorizationEndpoint)
	if err != nil {
		return "", nil, fmt.Errorf("the authorization endpoint is not a URL: %w", err)
	}
	return u.Host, oauth.Union(oauth.Select(said, of, p.metadata, wider), s.set.Scopes), nil
}
