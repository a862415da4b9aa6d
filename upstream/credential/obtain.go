package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// obtain reads the credential and renews it if it has to be: because its time is
// over, or because the server did not accept the token refused. What is forgotten
// meanwhile is read again. The caller has the turn.
func (h *holder) obtain(ctx context.Context, refused string) (*ready, error) {
	for range maxLooks {
		h.look()
		now, err := h.read(ctx, refused)
		if _, needed := errors.AsType[*LoginError](err); err != nil && !needed || !h.outdated() {
			return now, err
		}
	}
	return nil, fmt.Errorf("the credential of %s becomes another one again and again; make the call again", h.s.set.Server)
}

func (h *holder) read(ctx context.Context, refused string) (*ready, error) {
	if h.unsaved != nil { // what was not kept is not used
		if err := h.save(ctx, h.unsaved); err != nil {
			return nil, err
		}
	}
	if h.s.set.Key == nil {
		if err := h.find(ctx); err != nil {
			return nil, err
		}
	}
	if h.rec != nil && !h.good() {
		h.rec = nil
	}
	if h.rec != nil && h.fresh() && (refused == "" || refused != h.secret()) {
		return h.use(), nil
	}
	if time.Now().Before(h.restUntil) {
		return nil, h.restErr
	}
	now, err := h.renew(ctx)
	if err == nil {
		h.restErr = nil
		return now, nil
	}
	if _, needed := errors.AsType[*LoginError](err); !needed && ctx.Err() == nil {
		h.restUntil, h.restErr = time.Now().Add(restTime), err
	}
	return nil, err
}

// find reads what is kept.
func (h *holder) find(ctx context.Context) error {
	kept, ok, err := h.s.opts.Vault.Find(ctx, h.s.set.Server, h.s.owner(h.principal))
	if err != nil {
		return fmt.Errorf("read the credential of %s: %w", h.s.set.Server, err)
	}
	h.rec = nil
	if ok {
		if h.rec, err = open(kept); err != nil {
			h.s.opts.Logger.Warn("a credential cannot be read and is not used", "err", err)
		}
	}
	return nil
}

// good tells whether what is kept is of this configuration: another issuer, or
// another client, is another credential.
func (h *holder) good() bool {
	set := &h.s.set
	switch {
	case set.Mode == APIKey:
		return h.rec.APIKey != "" && h.rec.key.Issuer == ""
	case h.rec.APIKey != "" || h.rec.Token.Access == "":
		return false
	case !set.Binding.allows(&h.rec.content):
		return false
	case set.Issuer != "" && h.rec.key.Issuer != set.Issuer:
		return false
	case h.rec.Configured && (set.Client == nil || set.Client.ID != h.rec.Client.ID):
		return false
	}
	return resourceOf(set.URL, h.rec.key.Resource)
}

// resourceOf tells whether a token for a resource is for the server: its URL
// may have been changed in the configuration.
func resourceOf(server, resource string) bool {
	canonical, err := oauth.Canonical(server)
	return err == nil && (resource == canonical || strings.HasPrefix(canonical, strings.TrimSuffix(resource, "/")+"/") || strings.HasPrefix(canonical, strings.TrimSuffix(resource, "/")+"?"))
}

func (h *holder) secret() string {
	if h.s.set.Mode == APIKey {
		return h.s.set.Prefix + h.rec.APIKey
	}
	return h.rec.Token.Authorization()
}

// fresh tells whether the token's time is not about to end.
func (h *holder) fresh() bool {
	return h.rec.APIKey != "" || h.rec.Token.Expires.IsZero() || time.Now().Before(h.rec.Token.Expires.Add(-margin(&h.rec.Token)))
}

// margin is how long before its end a token is renewed.
func margin(t *oauth.Token) time.Duration {
	return min(early, max(0, time.Until(t.Expires)/10))
}

// use makes what is kept ready for requests.
func (h *holder) use() *ready {
	now := &ready{}
	h.hide(h.rec.APIKey, h.rec.Token.Access, h.rec.Token.Refresh)
	if h.s.set.Mode == APIKey {
		now.header = h.s.with(h.s.set.Header, h.s.set.Prefix+h.rec.APIKey)
	} else {
		now.header = h.s.with(headerAuthorization, h.rec.Token.Authorization())
		if h.rec.Token.Bound {
			now.token, now.key = h.rec.Token.Access, h.rec.Proof
		}
		now.until = time.Now().Add(unknownLife)
		if expires := h.rec.Token.Expires; !expires.IsZero() {
			now.until = expires.Add(-margin(&h.rec.Token))
		}
	}
	h.why.Store(nil)
	h.show(now)
	return now
}

// renew has a new token where nobody needs to sign in for one, by one of all who
// share the vault.
func (h *holder) renew(ctx context.Context) (*ready, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime+renewTime)
	defer cancel()
	switch h.s.set.Mode {
	case ClientCredentials, Exchange, Workload:
		rec, err := h.fetch(ctx)
		if errors.Is(err, oauth.ErrNotProtected) && h.said.ResourceMetadata == "" {
			now := &ready{header: h.s.with("", "")} // its challenge may say more
			h.show(now)
			return now, nil
		}
		if err != nil {
			return nil, err
		}
		if err := h.save(ctx, rec); err != nil {
			return nil, err
		}
		return h.use(), nil
	case Static, OAuth, APIKey:
	}
	if h.rec == nil || h.rec.Token.Refresh == "" {
		return h.absent()
	}
	before := h.rec
	for {
		ok, err := h.s.opts.Vault.Lease(ctx, before.key, before.version, h.s.self, time.Now().Add(leaseTime))
		if err != nil {
			return nil, fmt.Errorf("renew the credential of %s: %w", h.s.set.Server, err)
		}
		if ok {
			break
		}
		kept, found, err := h.s.opts.Vault.Find(ctx, h.s.set.Server, h.s.owner(h.principal))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the credential of %s: %w", h.s.set.Server, err)
		case !found:
			h.rec = nil
			return h.absent()
		case kept.Version != before.version || kept.Key != before.key:
			if h.rec, err = open(kept); err != nil {
				return nil, err
			}
			if !h.good() { // but a gateway with another configuration
				h.rec = nil
				return h.absent()
			}
			return h.use(), nil // another has renewed it
		}
		select {
		case <-time.After(leasePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("renew the credential of %s: %w", h.s.set.Server, context.Cause(ctx))
		}
	}
	// Who waits may leave; the renewal is brought to its end, because its refresh
	// token may be good for one use alone.
	own, stop := context.WithTimeout(context.WithoutCancel(ctx), renewTime)
	defer stop()
	rec, err := h.refresh(own, before)
	if err != nil {
		_ = h.s.opts.Vault.Release(own, before.key, h.s.self) // or it ends by itself
		if oauth.Refused(err) {
			h.s.opts.Logger.Info("a refresh token is not accepted any more", "err", err)
			return nil, h.needs("the login is not valid any more", false)
		}
		return nil, fmt.Errorf("renew the credential of %s: %w", h.s.set.Server, err)
	}
	if err := h.save(own, rec); err != nil {
		return nil, err
	}
	return h.use(), nil
}

// absent is the answer where there is no credential: requests go without until the
// server asks for one.
func (h *holder) absent() (*ready, error) {
	if why := h.why.Load(); why != nil {
		return nil, why
	}
	if h.s.set.Mode == APIKey {
		return nil, h.needs("nobody has entered a key", false)
	}
	if h.rec != nil {
		return nil, h.needs("the login has expired", false)
	}
	if !h.s.set.Shared {
		return nil, h.needs("this caller has not signed in", false)
	}
	now := &ready{header: h.s.with("", "")}
	h.show(now)
	return now, nil
}

// needs notes that somebody has to sign in.
func (h *holder) needs(why string, final bool) error {
	e := &LoginError{Server: h.s.set.Server, Why: why, Final: final}
	h.why.Store(e)
	h.show(nil)
	return e
}

// refresh trades the refresh token, at the authorization server that gave it and
// at no other.
func (h *holder) refresh(ctx context.Context, before *record) (*record, error) {
	m, err := h.s.client.FindServer(ctx, before.key.Issuer)
	if err != nil {
		return nil, err
	}
	client := before.Client
	if before.Configured {
		own, err := h.s.registered(m)
		if err != nil || own == nil {
			return nil, errors.Join(err, errors.New("the client that signed in is not configured any more"))
		}
		client = *own
	}
	asks := h.s.client.Bound(oauth.Binding{Key: before.Proof, Required: before.Token.Bound, Nonces: &h.s.asNonces})
	t, err := asks.Refresh(ctx, m, &client, before.Token.Refresh, before.key.Resource)
	if err != nil {
		return nil, err
	}
	next := *before
	if t.Scopes == nil {
		t.Scopes = before.Token.Scopes
	}
	next.Token = *t
	return &next, nil
}

// save keeps a token before it is used. Where that fails it is tried again when
// the credential is next needed.
func (h *holder) save(ctx context.Context, rec *record) error {
	if h.s.set.Key != nil { // it is worth nothing without the token that it was had for
		h.rec = rec
		return nil
	}
	body, err := rec.seal()
	if err != nil {
		return err
	}
	h.unsaved = rec
	if rec.version > 0 {
		next, ok, err := h.s.opts.Vault.Renew(ctx, rec.key, rec.version, body)
		if err != nil {
			return fmt.Errorf("keep the credential of %s: %w", h.s.set.Server, err)
		}
		h.unsaved = nil
		if !ok { // revoked, or signed in anew
			h.giveBack(ctx, rec)
			return h.needs("the credential was changed or revoked", false)
		}
		rec.version = next
	} else {
		if rec.version, err = h.s.opts.Vault.Put(ctx, rec.key, body); err != nil {
			return fmt.Errorf("keep the credential of %s: %w", h.s.set.Server, err)
		}
		h.unsaved = nil
	}
	h.rec = rec
	return nil
}

// giveBack revokes what was had for somebody who has left meanwhile. What others have
// put in its place is of the same login where a lease has ended, and stays.
func (h *holder) giveBack(ctx context.Context, rec *record) {
	if _, found, err := h.s.opts.Vault.Find(ctx, rec.key.Server, rec.key.Principal); found || err != nil {
		return
	}
	if err := h.s.revoke(ctx, rec); err != nil {
		h.s.opts.Logger.Info("an authorization server was not told that a login ended", "server", rec.key.Server, "err", err)
	}
}

// revoke tells the authorization server that a credential is not used any more.
func (s *Source) revoke(ctx context.Context, rec *record) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	m, err := s.client.FindServer(ctx, rec.key.Issuer)
	if err != nil {
		return err
	}
	client := &rec.Client
	if rec.Configured {
		if client, err = s.registered(m); err != nil || client == nil {
			return err
		}
	}
	if rec.Token.Refresh != "" {
		return s.client.Revoke(ctx, m, client, rec.Token.Refresh, "refresh_token")
	}
	return s.client.Revoke(ctx, m, client, rec.Token.Access, "access_token")
}

// fetch has a token of the modes in which nobody signs in.
func (h *holder) fetch(ctx context.Context) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	p, err := h.s.locate(ctx, h.said, false)
	if err != nil {
		return nil, fmt.Errorf("find where %s signs in: %w", h.s.set.Server, err)
	}
	client, err := h.s.registered(p.metadata)
	if err != nil {
		return nil, err
	}
	scopes := oauth.Union(h.wider, h.s.set.Scopes)
	if len(h.s.set.Scopes) == 0 {
		scopes = oauth.Select(h.said, p.of, nil, h.wider)
	}
	rec := &record{key: Key{
		Server: h.s.set.Server, Principal: h.s.owner(h.principal), Issuer: p.issuer, Resource: p.resource, Scopes: scopesKey(scopes),
	}}
	rec.Requested = scopes
	if client != nil { // for an exchange of access tokens there need not be one
		rec.Configured, rec.Client.ID = true, client.ID
	}
	var t *oauth.Token
	switch h.s.set.Mode {
	case ClientCredentials:
		var asks *oauth.Client
		if asks, rec.Proof, err = h.binding(p, p.metadata); err == nil {
			t, err = asks.ClientCredentials(ctx, p.metadata, client, p.resource, scopes)
		}
	case Workload:
		t, rec.Proof, err = h.federate(ctx, p, client, scopes)
	case Exchange, OAuth, APIKey:
		t, rec.Proof, err = h.exchange(ctx, p, client, scopes)
	case Static:
		err = errors.New("the headers of the file are the credential: there is no token to ask for")
	}
	if err != nil {
		if oauth.Refused(err) {
			h.s.opts.Logger.Warn("no token is given", "err", err)
		}
		return nil, err
	}
	rec.Token = *t
	return rec, nil
}

// exchange trades what proves the principal for a token (RFC 8693), or for an
// assertion that the server's authorization server takes (enterprise-managed
// authorization).
func (h *holder) exchange(ctx context.Context, p *place, client *oauth.Registration, scopes []string) (*oauth.Token, *oauth.ProofKey, error) {
	set := &h.s.set
	subject, kind, ok := set.Subject(h.principal)
	if !ok {
		return nil, nil, h.needs("the gateway has no token of this caller that could be traded", true)
	}
	idp, err := h.s.client.FindServer(ctx, set.IDP)
	if err != nil {
		return nil, nil, fmt.Errorf("the identity provider: %w", err)
	}
	at := *set.IDPClient
	at.Issuer = idp.Issuer
	x := oauth.Exchange{Subject: subject, SubjectType: kind, Wanted: set.Grant, Audience: set.Audience, Resource: p.resource, Scopes: scopes}
	gives := p.metadata
	if set.Grant != oauth.TypeIDJAG {
		gives = idp
	}
	asks, key, err := h.binding(p, gives)
	if err != nil {
		return nil, nil, err
	}
	if set.Grant != oauth.TypeIDJAG {
		t, err := asks.Exchange(ctx, idp, &at, x)
		return t, key, err
	}
	x.Audience = p.issuer
	assertion, err := h.s.client.Exchange(ctx, idp, &at, x)
	if err != nil {
		return nil, nil, fmt.Errorf("the identity provider: %w", err)
	}
	t, err := asks.Bearer(ctx, p.metadata, client, assertion.Access, p.resource, scopes)
	return t, key, err
}
