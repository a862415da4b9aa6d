package signin

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
	"github.com/toolgate/toolgate/upstream/oauth"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Credential makes the credential of a server: the headers in the file, or a
// credential from an authorization server or a person. The error describes a problem
// in its configuration.
func (s *Service) Credential(of *config.Server, spec *upstream.Spec) (transport.Credential, error) {
	if of.AuthMode() == credential.Static {
		return upstream.NewStatic(spec.Headers), nil
	}
	client, err := egressFor(of)
	if err != nil {
		return nil, err
	}
	set := credential.Settings{
		Server: of.Key, URL: of.URL, Mode: of.AuthMode(), Shared: of.AuthPer() == credential.PerShared,
		Headers: http.Header(upstream.NewStatic(spec.Headers)), Issuer: of.Auth.Issuer, Scopes: of.Auth.Scopes,
		Header: "Authorization", Prefix: "Bearer ", Binding: of.Auth.DPoP, Assertion: of.Auth.Assertion,
	}
	if of.Auth.Header != "" {
		set.Header, set.Prefix = of.Auth.Header, ""
	}
	if of.Auth.Prefix != nil {
		set.Prefix = *of.Auth.Prefix
	}
	if set.Client, err = of.Auth.Client.Registration(of.Auth.Issuer); err != nil {
		return nil, fmt.Errorf("auth.client: %w", err)
	}
	if set.Mode == credential.Exchange {
		x := &of.Auth.Exchange
		set.IDP, set.Audience, set.Grant = x.Issuer, x.Audience, oauth.TypeAccess
		if set.IDPClient, err = x.Client.Registration(x.Issuer); err != nil {
			return nil, fmt.Errorf("auth.exchange.client: %w", err)
		}
		if x.Grant == "id_jag" {
			set.Grant = oauth.TypeIDJAG
		}
		set.Subject = s.subject(x)
		if spec.PerRights {
			set.Key = s.o.Callers.Tokens.Key(spec)
		}
	}
	return credential.New(set, client, credential.Options{
		Vault: vault{s.o.Store, s.o.Keys, s.o.Log}, Logger: s.o.Log, Changed: s.o.Changed, Hide: s.o.Hide,
	}), nil
}

// subject returns a function that provides the proof of a caller for an identity
// provider.
func (s *Service) subject(x *credential.ExchangeSettings) func(principal string) (string, string, bool) {
	kind := map[string]string{"access_token": oauth.TypeAccess, "id_token": oauth.TypeID, "jwt": oauth.TypeJWT}[x.SubjectType]
	if kind == "" {
		if kind = oauth.TypeAccess; x.Grant == "id_jag" {
			kind = oauth.TypeID
		}
	}
	return func(principal string) (string, string, bool) {
		if x.Subject == "" {
			token, ok := s.o.Callers.Tokens.Text(principal)
			return token, kind, ok
		}
		text, err := os.ReadFile(x.Subject)
		if err != nil {
			s.o.Log.Warn("the token to be traded cannot be read", "err", err)
			return "", "", false
		}
		return strings.TrimSpace(string(text)), kind, true
	}
}
