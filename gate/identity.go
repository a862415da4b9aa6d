package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// Principal is who a request belongs to: always all three parts. Budgets, pools,
// sessions, suspended calls, seals and audit entries have no other key.
type Principal struct {
	Issuer  string // who vouches for the subject
	Tenant  string
	Subject string
}

// Errors of whoever finds out who is calling. The first two are answered with
// HTTP 401 and differ in the challenge (RFC 6750 section 3.1).
var (
	ErrNoCredential  = errors.New("authentication is required")
	ErrBadCredential = errors.New("the token is not valid")
	// ErrForbidden is answered with HTTP 403: no token would help.
	ErrForbidden = errors.New("this gateway has no authentication and serves its own machine only")
)

// DefaultTenant is the tenant of an identity that names none.
const DefaultTenant = "default"

// Local is the principal of everyone on a gateway without authentication.
var Local = Principal{Issuer: "toolgate", Tenant: DefaultTenant, Subject: "local"}

// Key encodes the principal injectively: no two principals have the same key.
func (p Principal) Key() string {
	var b strings.Builder
	for _, part := range [...]string{p.Issuer, p.Tenant, p.Subject} {
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	return b.String()
}

// ParsePrincipal returns the principal of a key that [Principal.Key] made; ok is
// false for every other text.
func ParsePrincipal(key string) (p Principal, ok bool) {
	rest := key
	for _, part := range [...]*string{&p.Issuer, &p.Tenant, &p.Subject} {
		length, after, found := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if !found || err != nil || n < 0 || n > len(after) {
			return Principal{}, false
		}
		*part, rest = after[:n], after[n:]
	}
	if p.Key() != key {
		return Principal{}, false
	}
	return p, true
}

// Identity is what is known of the caller. It is not changed once made.
type Identity struct {
	Principal
	Persona string
	Groups  []string
	Scopes  []string
	Plan    string
	// Credential names what the caller authenticated with, such as the id of
	// an API key; never the secret.
	Credential string
	// Actor stands for whoever acts for the subject by the token (RFC 8693 section
	// 4.1) and for the client that the token was given to. It is compared and says
	// nothing else; empty for nobody.
	Actor string
	// Token stands for the very token that the caller presented, by which a server's
	// credential can be had for this request; never the token itself. It is empty
	// for what no issuer gave.
	Token string
	// Admin may use the administration.
	Admin bool
	// Agents are those that call for the caller, the last one called by the one before it;
	// nil where the caller itself calls.
	Agents []string
	// Capsules have to allow what the caller does as well, whoever holds them: the caller's
	// rights are narrowed to what is in each of them. nil narrows nothing.
	Capsules []string
	// Lent is a capsule that the operator has lent for one call of a tool with steps, and
	// that decides on this call in place of those that the caller holds. Only requests
	// within that capsule get something by it. Empty for none.
	Lent string

	key, fingerprint, rights string
}

// NewIdentity returns an identity with its key made and an empty tenant set to
// [DefaultTenant].
func NewIdentity(id Identity) *Identity {
	if id.Tenant == "" {
		id.Tenant = DefaultTenant
	}
	id.key = id.Principal.Key()
	id.fingerprint = id.encode()
	id.rights = id.digest()
	return &id
}

// Borrowing returns the caller with a capsule that is lent for one call; empty for none.
func (i *Identity) Borrowing(capsule string) *Identity {
	of := *i
	of.Lent = capsule
	return NewIdentity(of)
}

// Narrowed returns the identity of an agent that calls for this one, with rights that a
// capsule narrows. Agent and capsule may each be empty for none. What is lent to the caller
// is not lent to it.
func (i *Identity) Narrowed(agent, capsule string) *Identity {
	of := *i
	of.Lent = ""
	if agent != "" {
		of.Agents = append(slices.Clip(i.Agents), agent)
	}
	if capsule != "" && !slices.Contains(i.Capsules, capsule) {
		of.Capsules = append(slices.Clip(i.Capsules), capsule)
	}
	return NewIdentity(of)
}

// Agent is the agent that calls for the caller; empty where the caller itself calls.
func (i *Identity) Agent() string {
	if len(i.Agents) == 0 {
		return ""
	}
	return i.Agents[len(i.Agents)-1]
}

// Rights is a digest of the principal and of everything else that decisions may depend
// on. Two requests with the same Rights may share what was fetched for one of them, even
// if they came with different tokens. The order of groups and scopes does not matter, nor
// does the name of the credential.
func (i *Identity) Rights() string {
	if i.rights == "" {
		return i.digest()
	}
	return i.rights
}

func (i *Identity) digest() string {
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	of := Identity{
		Principal: i.Principal, Persona: i.Persona, Plan: i.Plan, Actor: i.Actor, Admin: i.Admin,
		Groups: set(i.Groups), Scopes: set(i.Scopes), Agents: i.Agents, Capsules: set(i.Capsules), Lent: i.Lent,
	}
	sum := sha256.Sum256([]byte(of.encode()))
	return hex.EncodeToString(sum[:16])
}

// Fingerprint encodes everything that is known of the caller injectively: no two
// identities that differ in anything have the same.
func (i *Identity) Fingerprint() string {
	if i.fingerprint == "" {
		return i.encode()
	}
	return i.fingerprint
}

func (i *Identity) encode() string {
	var b strings.Builder
	part := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	for _, s := range [...]string{i.Issuer, i.Tenant, i.Subject, i.Persona, i.Plan, i.Credential, i.Actor, i.Token, strconv.FormatBool(i.Admin)} {
		part(s)
	}
	lists := [][]string{i.Groups, i.Scopes}
	if i.Agents != nil || len(i.Capsules) > 0 { // rare, and rights are compared with those of earlier versions
		lists = append(lists, i.Agents, i.Capsules)
	}
	for _, list := range lists {
		b.WriteString(strconv.Itoa(len(list)))
		b.WriteByte('#')
		for _, s := range list {
			part(s)
		}
	}
	if i.Lent != "" {
		part("lent")
		part(i.Lent)
	}
	return b.String()
}

// Key returns the key of the principal.
func (i *Identity) Key() string {
	if i.key == "" {
		return i.Principal.Key()
	}
	return i.key
}

// LogValue implements slog.LogValuer.
func (i *Identity) LogValue() slog.Value {
	return slog.GroupValue(slog.String("issuer", i.Issuer), slog.String("tenant", i.Tenant), slog.String("subject", i.Subject))
}
