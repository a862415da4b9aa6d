package identity

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Asked is the identity that a question is about, and whether the caller is impersonated.
func (k *Keeper) Asked(as string, other *admin.Caller) (*gate.Identity, bool, error) {
	if other == nil {
		id, err := k.Caller(as)
		if err == nil || as == "" || len(k.tokenIssuers()) == 0 {
			return id, false, err
		}
		other = &admin.Caller{Subject: as} // who may well have a token
	}
	id, err := k.Impersonate(other)
	return id, true, err
}

// IsKnown tells whether a caller is described by nothing but the name of one who
// is known anyway.
func (k *Keeper) IsKnown(who *admin.Caller) bool {
	if who.Issuer+who.Tenant+who.Persona+who.Plan != "" || len(who.Groups)+len(who.Scopes) > 0 {
		return false
	}
	_, err := k.Caller(who.Subject)
	return err == nil
}

// Impersonate returns the identity of somebody who has shown nothing, for a question
// about them. Nothing is called by it.
func (k *Keeper) Impersonate(who *admin.Caller) (*gate.Identity, error) {
	if !k.InForce().Authenticated() {
		return nil, failure.Newf(failure.Usage, "without authentication everyone is %s; leave --as out, and what goes with it", gate.Local.Subject)
	}
	if who.Subject == "" {
		return nil, failure.Newf(failure.Usage, "say with --as SUBJECT whom you mean")
	}
	issuers := k.tokenIssuers()
	all := issuers
	if k.InForce().chain.Keys() != nil {
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

// Lasts tells whether the rights of a caller can be looked up at any time: those of the
// owner of an API key, and of everyone where nobody is asked who they are. What a token
// or a certificate says holds only while it is presented.
func (k *Keeper) Lasts(id *gate.Identity) bool {
	_, ok := k.Present(id.Key(), id.Credential)
	return ok
}

// Present returns the identity of a principal that was known by a credential before (see
// [gate.Identity]), with the rights that it has now. ok is false when nobody is let in by
// this credential any more.
func (k *Keeper) Present(principal, credential string) (id *gate.Identity, ok bool) {
	for _, id := range k.Callers() {
		if id.Key() == principal && id.Credential == credential {
			return id, true
		}
	}
	return nil, false
}

// tokenIssuers are the issuers of callers that are known by what they show alone.
func (k *Keeper) tokenIssuers() []string {
	known := k.InForce()
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

// Callers are all whom the gateway knows by name, sorted.
func (k *Keeper) Callers() []*gate.Identity {
	known := k.InForce()
	switch keys := known.chain.Keys(); {
	case !known.Authenticated():
		return []*gate.Identity{gate.NewIdentity(gate.Identity{Principal: gate.Local})}
	case keys != nil:
		return keys.Identities()
	}
	return nil
}

// Caller returns the identity that a person names by the id of an API key or by
// its subject.
func (k *Keeper) Caller(name string) (*gate.Identity, error) {
	all := k.Callers()
	if !k.InForce().Authenticated() {
		if name != "" && name != gate.Local.Subject {
			return nil, failure.Newf(failure.Usage, "without authentication everyone is %s; leave --as out", gate.Local.Subject)
		}
		return all[0], nil
	}
	var names []string
	for _, id := range all {
		key, _, _ := strings.Cut(id.Credential, ":")
		if name != "" && (name == key || name == id.Subject) {
			return id, nil
		}
		names = append(names, key)
	}
	if len(names) == 0 {
		return nil, failure.Newf(failure.Usage, "this gateway knows its callers by their tokens alone; say with --as SUBJECT whom you mean, and with --tenant, --groups and so on what the token would say")
	}
	return nil, failure.Newf(failure.Usage, "--as names nobody known; write one of %s", strings.Join(names, ", "))
}
