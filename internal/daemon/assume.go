package daemon

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy/auth"
)

// asked is the identity that a question is about, and whether it is assumed.
func (in *Daemon) asked(as string, assumed *admin.Caller) (*gate.Identity, bool, error) {
	if assumed == nil {
		id, err := in.Caller(as)
		if err == nil || as == "" || len(in.tokenIssuers()) == 0 {
			return id, false, err
		}
		assumed = &admin.Caller{Subject: as} // who may well have a token
	}
	id, err := in.assume(assumed)
	return id, true, err
}

// isKnown tells whether a caller is described by nothing but the name of one who
// is known anyway.
func (in *Daemon) isKnown(who *admin.Caller) bool {
	if who.Issuer+who.Tenant+who.Persona+who.Plan != "" || len(who.Groups)+len(who.Scopes) > 0 {
		return false
	}
	_, err := in.Caller(who.Subject)
	return err == nil
}

// assume is the identity of somebody who has shown nothing.
func (in *Daemon) assume(who *admin.Caller) (*gate.Identity, error) {
	if !in.Identities.Load().Authenticated() {
		return nil, failure.Newf(failure.Usage, "without authentication everyone is %s; leave --as out, and what goes with it", gate.Local.Subject)
	}
	if who.Subject == "" {
		return nil, failure.Newf(failure.Usage, "say with --as SUBJECT whom you mean")
	}
	issuers := in.tokenIssuers()
	all := issuers
	if in.Identities.Load().chain.Keys() != nil {
		all = append(slices.Clone(issuers), auth.KeyIssuer)
	}
	issuer := who.Issuer
	switch {
	case issuer == "" && len(issuers) > 1:
		return nil, failure.Newf(failure.Usage, "there are several issuers; write --issuer with one of %s", strings.Join(all, ", "))
	case issuer == "":
		issuer = all[0] // someone is let in, or there would be no authentication
	case !slices.Contains(all, issuer):
		return nil, failure.Newf(failure.Usage, "no token of the issuer %q is taken; write one of %s", issuer, strings.Join(all, ", "))
	}
	return gate.NewIdentity(gate.Identity{
		Principal: gate.Principal{Issuer: issuer, Tenant: who.Tenant, Subject: who.Subject},
		Persona:   who.Persona, Groups: who.Groups, Scopes: who.Scopes, Plan: who.Plan,
	}), nil
}

// tokenIssuers are the issuers of callers that are known by what they show alone.
func (in *Daemon) tokenIssuers() []string {
	known := in.Identities.Load()
	var issuers []string
	for i := range known.auth.JWT {
		issuers = append(issuers, known.auth.JWT[i].Issuer)
	}
	if own := known.auth.Introspection.Issuer; own != "" && !slices.Contains(issuers, own) {
		issuers = append(issuers, own)
	}
	if known.listen.TLS.ClientCA != "" {
		issuers = append(issuers, auth.CertificateIssuer)
	}
	return issuers
}
