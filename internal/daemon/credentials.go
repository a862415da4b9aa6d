package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// Purposes of what is sealed here.
const (
	sealCredential = seal.Kept + "credential"
	sealLogin      = seal.Kept + "login"
	sealClient     = seal.Kept + "oauth client"
)

// vault keeps credentials in the store, sealed with the gateway's keys. What is
// sealed for one row opens for no other.
type vault struct {
	store *store.Store
	keys  *seal.Keyring
	log   *slog.Logger
}

// Find implements credential.Vault.
func (v vault) Find(ctx context.Context, server, principal string) (credential.Sealed, bool, error) {
	r, ok, err := v.store.Credentials().Find(ctx, server, principal)
	if err != nil || !ok {
		return credential.Sealed{}, false, err
	}
	k := credential.Key(r.CredentialKey)
	body, err := v.keys.Open(sealCredential, sealContext(k), string(r.Body))
	if err != nil {
		v.log.Warn("a credential was sealed with other keys and is not used; somebody has to sign in again", "server", server)
	}
	return credential.Sealed{Key: k, Version: r.Version, Body: body}, err == nil, nil
}

// sealContext is what a credential is bound to.
func sealContext(k credential.Key) string {
	var out strings.Builder
	for _, part := range [...]string{k.Server, k.Principal, k.Issuer, k.Resource, k.Scopes} {
		fmt.Fprintf(&out, "%d:%s", len(part), part)
	}
	return out.String()
}

// Put implements credential.Vault.
func (v vault) Put(ctx context.Context, k credential.Key, body []byte) (int64, error) {
	sealed, err := v.keys.Seal(sealCredential, sealContext(k), body)
	if err != nil {
		return 0, fmt.Errorf("seal a credential: %w", err)
	}
	return v.store.Credentials().Put(ctx, store.CredentialRecord{CredentialKey: store.CredentialKey(k), Body: []byte(sealed)})
}

// Lease implements credential.Vault.
func (v vault) Lease(ctx context.Context, k credential.Key, version int64, holder string, until time.Time) (bool, error) {
	return v.store.Credentials().Lease(ctx, store.CredentialKey(k), version, holder, until)
}

// Release implements credential.Vault.
func (v vault) Release(ctx context.Context, k credential.Key, holder string) error {
	return v.store.Credentials().Release(ctx, store.CredentialKey(k), holder)
}

// Renew implements credential.Vault.
func (v vault) Renew(ctx context.Context, k credential.Key, version int64, body []byte) (int64, bool, error) {
	sealed, err := v.keys.Seal(sealCredential, sealContext(k), body)
	if err != nil {
		return 0, false, fmt.Errorf("seal a credential: %w", err)
	}
	return v.store.Credentials().Renew(ctx, store.CredentialKey(k), version, []byte(sealed))
}

// Delete implements credential.Vault.
func (v vault) Delete(ctx context.Context, server, principal string) (bool, error) {
	return v.store.Credentials().Delete(ctx, server, principal)
}

// stateID is under what a journey is kept: who reads the store cannot come back
// for anybody.
func stateID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// KeepLogin implements credential.Vault.
func (v vault) KeepLogin(ctx context.Context, state string, body []byte, expires time.Time) error {
	sealed, err := v.keys.Seal(sealLogin, stateID(state), body)
	if err != nil {
		return fmt.Errorf("seal a login: %w", err)
	}
	return v.store.Logins().Keep(ctx, stateID(state), []byte(sealed), expires)
}

// TakeLogin implements credential.Vault.
func (v vault) TakeLogin(ctx context.Context, state string) ([]byte, bool, error) {
	sealed, ok, err := v.store.Logins().Take(ctx, stateID(state))
	if err != nil || !ok {
		return nil, false, err
	}
	body, err := v.keys.Open(sealLogin, stateID(state), string(sealed))
	return body, err == nil, nil
}

// Client implements credential.Vault.
func (v vault) Client(ctx context.Context, issuer, redirect string) ([]byte, bool, error) {
	sealed, ok, err := v.store.Logins().Client(ctx, issuer, redirect)
	if err != nil || !ok {
		return nil, false, err
	}
	body, err := v.keys.Open(sealClient, issuer+"\x00"+redirect, string(sealed))
	return body, err == nil, nil
}

// KeepClient implements credential.Vault.
func (v vault) KeepClient(ctx context.Context, issuer, redirect string, body []byte) error {
	if body == nil {
		return v.store.Logins().KeepClient(ctx, issuer, redirect, nil)
	}
	sealed, err := v.keys.Seal(sealClient, issuer+"\x00"+redirect, body)
	if err != nil {
		return fmt.Errorf("seal a registration: %w", err)
	}
	return v.store.Logins().KeepClient(ctx, issuer, redirect, []byte(sealed))
}

// credentialOf is the credential of a server: the headers of the file, or what is
// had of an authorization server or a person. The error says what is wrong with
// the configuration of the latter.
func (in *Daemon) credentialOf(s *config.Server, spec *upstream.Spec) (upstream.Credential, error) {
	if s.AuthMode() == config.AuthStatic {
		return upstream.NewStatic(spec.Headers), nil
	}
	client, err := egressFor(s)
	if err != nil {
		return nil, err
	}
	set := credential.Settings{
		Server: s.Key, URL: s.URL, Mode: credential.Mode(s.AuthMode()), Shared: s.AuthPer() == config.PerShared,
		Headers: http.Header(upstream.NewStatic(spec.Headers)), Issuer: s.Auth.Issuer, Scopes: s.Auth.Scopes,
		Header: "Authorization", Prefix: "Bearer ", Binding: credential.Binding(s.Auth.DPoP), Assertion: s.Auth.Assertion,
	}
	if s.Auth.Header != "" {
		set.Header, set.Prefix = s.Auth.Header, ""
	}
	if s.Auth.Prefix != nil {
		set.Prefix = *s.Auth.Prefix
	}
	if set.Client, err = registration(&s.Auth.Client, s.Auth.Issuer); err != nil {
		return nil, fmt.Errorf("auth.client: %w", err)
	}
	if set.Mode == credential.Exchange {
		x := &s.Auth.Exchange
		set.IDP, set.Audience, set.Grant = x.Issuer, x.Audience, oauth.TypeAccess
		if set.IDPClient, err = registration(&x.Client, x.Issuer); err != nil {
			return nil, fmt.Errorf("auth.exchange.client: %w", err)
		}
		if x.Grant == "id_jag" {
			set.Grant = oauth.TypeIDJAG
		}
		set.Subject = in.subject(x)
		if spec.PerRights {
			set.Key = in.presented.key(spec)
		}
	}
	return credential.New(set, client, credential.Options{
		Vault: vault{in.Store, in.keys, in.Log}, Logger: in.Log, Changed: in.credentialChanged, Hide: in.Hidden.Learn,
	}), nil
}

// registration is a client of the configuration, nil where there is none.
func registration(c *config.AuthClient, issuer string) (*oauth.Registration, error) {
	if c.ID == "" {
		return nil, nil
	}
	r := &oauth.Registration{Issuer: issuer, ID: c.ID, Secret: c.Secret.Reveal(), Method: c.Auth}
	if c.Key != "" {
		text, err := os.ReadFile(c.Key)
		if err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		if r.Key, err = oauth.ParseKey(text, c.KeyID); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Key, err)
		}
		if r.Method == "" {
			r.Method = oauth.AuthKey
		}
	}
	return r, nil
}

// egressFor is the client for what a server, or its authorization server, names:
// public addresses over https, this machine where the server is on it too, and
// networks that the operator names.
func egressFor(s *config.Server) (*oauth.Client, error) {
	policy, err := egressPolicy(s)
	if err != nil {
		return nil, err
	}
	return reaching(policy, nil)
}

func egressPolicy(s *config.Server) (egress.Policy, error) {
	policy := egress.Policy{HTTPSOnly: true, AnyPort: true}
	if u, err := url.Parse(s.URL); err == nil && oauth.ThisMachine(u.Hostname()) {
		policy.HTTPSOnly = false
		policy.Allow = append(policy.Allow, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	for _, text := range s.Auth.Networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return policy, fmt.Errorf("auth.networks: %w", err)
		}
		policy.Allow = append(policy.Allow, p)
		policy.HTTPSOnly = policy.HTTPSOnly && !p.Addr().IsLoopback()
	}
	return policy, nil
}

// reaching is a client that reaches what a policy allows. trust is for servers whose
// certificates the machine does not know, nil for none.
func reaching(policy egress.Policy, trust *tls.Config) (*oauth.Client, error) {
	guard, err := egress.New(policy)
	if err != nil {
		return nil, fmt.Errorf("auth.networks: %w", err)
	}
	transport := egress.NewClient(guard, egress.Limits{Timeout: 20 * time.Second, Body: 256 << 10}, trust).HTTP().Transport
	return &oauth.Client{HTTP: transport, Loopback: !policy.HTTPSOnly}, nil
}

// subject returns what proves a caller to an identity provider.
func (in *Daemon) subject(x *config.AuthExchange) func(principal string) (string, string, bool) {
	kind := map[string]string{"access_token": oauth.TypeAccess, "id_token": oauth.TypeID, "jwt": oauth.TypeJWT}[x.SubjectType]
	if kind == "" {
		if kind = oauth.TypeAccess; x.Grant == "id_jag" {
			kind = oauth.TypeID
		}
	}
	return func(principal string) (string, string, bool) {
		if x.Subject == "" {
			token, ok := in.presented.text(principal)
			return token, kind, ok
		}
		text, err := os.ReadFile(x.Subject)
		if err != nil {
			in.Log.Warn("the token to be traded cannot be read", "err", err)
			return "", "", false
		}
		return strings.TrimSpace(string(text)), kind, true
	}
}

// credentialChanged takes the news of another credential.
func (in *Daemon) credentialChanged(server, principal string) {
	for _, s := range in.List() {
		if s.Name() == server && s.source != nil {
			s.upstream.Renewed(principal)
		}
	}
}

// credentialsChanged takes the news of other credentials, of whoever.
func (in *Daemon) credentialsChanged() {
	for _, s := range in.List() {
		if s.source != nil {
			s.source.ForgetAll()
			s.upstream.Wake()
		}
	}
}
