package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Authenticates tells whether callers are asked who they are.
func (t *Toolgate) Authenticates() bool {
	return len(t.Auth.Keys) > 0 || t.TakesTokens() || t.Listen.TLS.ClientCA != ""
}

// TakesTokens tells whether the tokens of some authorization server are taken.
func (t *Toolgate) TakesTokens() bool {
	return len(t.Auth.JWT) > 0 || t.Auth.Introspection.Endpoint != ""
}

// PublicURL is where clients reach the gateway as far as the file tells: the
// public URL, or the listener's own address where only this machine reaches it.
// It is empty where neither is known.
func (t *Toolgate) PublicURL() string {
	if t.Listen.PublicURL != "" {
		return strings.TrimRight(t.Listen.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(t.Listen.HTTP)
	if err != nil || port == "0" || !loopback.Host(host) {
		return ""
	}
	scheme := "http://"
	if t.Listen.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + t.Listen.HTTP
}

// checkAuth reports what only several values together can have wrong in who
// callers are.
func checkAuth(p *tree.Problems, section *tree.Node, t *Toolgate) {
	auth := section.Get("auth")
	for _, key := range [...]string{"keys", "jwt"} {
		if n := auth.Get(key); n.IsList() && len(n.Items) == 0 && !t.Authenticates() {
			p.At(n, "auth."+key, "name somebody, or remove auth if everyone on this machine may call", "is empty, so that nobody would be asked who they are")
		}
	}
	checkKeys(p, auth.Get("keys"), t.Auth.Keys)
	issuers := map[string]int{}
	for i := range t.Auth.JWT {
		own, path := &t.Auth.JWT[i], fmt.Sprintf("auth.jwt[%d]", i)
		n := auth.Get("jwt").OrItem(i)
		p.Unique(n, path, "issuer", own.Issuer, issuers)
		checkAudience(p, n, path, own.Audience, t)
		if client := n.Get("console"); own.Console.ClientID == "" && client.IsMap() && len(client.Fields) > 0 {
			p.At(client, path+".console.client_id", "add client_id: ..., as the issuer knows the console", "is missing")
		}
	}
	checkIntrospection(p, auth.Get("introspection"), t)
	checkCertificates(p, section, t)
	checkScopes(p, auth.Get("scopes"), t)
	checkAdmins(p, auth, "admins", t.Auth.Admins, t)
	checkAdmins(p, auth, "auditors", t.Auth.Auditors, t)
	checkAdmins(p, auth, "viewers", t.Auth.Viewers, t)
	checkPublicURL(p, section, t)
	checkSubjectTemplate(p, section.Get("spicedb"), t)
}

func checkKeys(p *tree.Problems, list *tree.Node, keys []auth.Key) {
	ids, hashes := map[string]int{}, map[string]int{}
	for i, k := range keys {
		n, path := list.Item(i), fmt.Sprintf("auth.keys[%d]", i)
		p.Unique(n, path, "id", k.ID, ids)
		p.Unique(n, path, "sha256", k.SHA256, hashes)
	}
}

// checkAudience refuses a token's way in that is open to the tokens for other
// services.
func checkAudience(p *tree.Problems, n *tree.Node, path string, audience []string, t *Toolgate) {
	if slices.Contains(audience, "") {
		p.At(n.Get("audience"), path+".audience", "", "an audience is empty")
	}
	if len(audience) == 0 && t.Listen.PublicURL == "" {
		p.At(n, path+".audience", "add audience: ..., or listen.public_url, whose endpoints are audiences then",
			"is missing, so that tokens for any other service would be taken")
	}
}

func checkIntrospection(p *tree.Problems, n *tree.Node, t *Toolgate) {
	x, path := &t.Auth.Introspection, "auth.introspection"
	if x.Endpoint == "" {
		if n.IsMap() && len(n.Fields) > 0 {
			p.At(n, path+".endpoint", "add endpoint: https://...", "is missing")
		}
		return
	}
	for _, f := range [...]struct{ key, value string }{
		{"client_id", x.ClientID}, {"client_secret", x.ClientSecret.Reveal()}, {"issuer", x.Issuer},
	} {
		if f.value == "" {
			p.At(n, path+"."+f.key, "add "+f.key+": ...", "is missing")
		}
	}
	checkAudience(p, n, path, x.Audience, t)
	if x.Clients != nil && len(x.Clients) == 0 {
		p.At(n.Get("clients"), path+".clients", "name one, or leave it out, so that the tokens of all count", "no client is named, so that nobody's token would count")
	}
}

func checkCertificates(p *tree.Problems, section *tree.Node, t *Toolgate) {
	tls, n := section.Get("listen").Get("tls"), section.Get("auth").Get("mtls")
	if t.Listen.TLS.ClientCA != "" && t.Listen.TLS.Cert == "" {
		p.At(tls.Get("client_ca"), "listen.tls.client_ca", "add cert: and key:", "clients show certificates over TLS only, which needs a certificate of ours")
	}
	if t.Listen.TLS.ClientCA == "" && n.IsMap() && len(n.Fields) > 0 {
		p.At(n, "auth.mtls", "add listen.tls.client_ca, the authorities whose certificates count", "no client is asked for a certificate")
	}
}

// maxChallenge bounds the scopes of a challenge, so that every client takes the
// header.
const maxChallenge = 2048

func checkScopes(p *tree.Problems, n *tree.Node, t *Toolgate) {
	s := &t.Auth.Scopes
	if n.IsMap() && len(n.Fields) > 0 && !t.Authenticates() {
		p.At(n, "auth.scopes", "add auth.jwt, auth.introspection, auth.keys or listen.tls.client_ca", "nobody is asked who they are, so that nobody has scopes")
	}
	for i, rule := range s.Required {
		path := fmt.Sprintf("auth.scopes.required[%d]", i)
		if len(rule.Scopes) == 0 && n.Get("required").Item(i).Get("scopes") != nil {
			p.At(n.Get("required").Item(i), path+".scopes", "name at least one scope, or remove the rule", "a rule without scopes protects nothing")
		}
	}
	if len(strings.Join(s.Challenge, " ")) > maxChallenge {
		p.At(n.Get("challenge"), "auth.scopes.challenge", "name the few that a client begins with", "are longer than %d bytes", maxChallenge)
	}
	for _, broad := range slices.Sorted(maps.Keys(s.Hierarchy)) {
		at := n.Get("hierarchy").Get(broad)
		if _, hint, err := decode.Format("scope", broad, ""); err != nil {
			p.At(at, "auth.scopes.hierarchy", hint, "%v", err)
		}
		if implies(s.Hierarchy, broad, broad, map[string]bool{}) {
			p.At(at, "auth.scopes.hierarchy."+broad, "remove one of the circle", "the scope implies itself")
		}
	}
}

// implies tells whether a scope implies another, directly or not.
func implies(hierarchy map[string][]string, from, to string, seen map[string]bool) bool {
	for _, narrow := range hierarchy[from] {
		if narrow == to {
			return true
		}
		if !seen[narrow] {
			seen[narrow] = true
			if implies(hierarchy, narrow, to, seen) {
				return true
			}
		}
	}
	return false
}

// checkPublicURL asks for the address that clients with tokens need: they learn
// from what is published there which issuer to get one from.
func checkPublicURL(p *tree.Problems, section *tree.Node, t *Toolgate) {
	if !t.TakesTokens() {
		return
	}
	n := section.Get("listen").Get("public_url")
	host, _, err := net.SplitHostPort(t.Listen.HTTP)
	switch {
	case decode.CheckURL(t.Listen.PublicURL) == nil:
		if _, hint, err := decode.Format("authority", t.Listen.PublicURL, ""); err != nil {
			p.At(n, "listen.public_url", hint, "tokens are sent there: %v", err)
		} else if strings.Contains(t.Listen.PublicURL, "?") {
			p.At(n, "listen.public_url", "write it without a query", "has a query, which no resource identifier has")
		}
	case t.Listen.PublicURL == "" && err == nil && !loopback.Host(host):
		p.At(section.Get("auth"), "listen.public_url", "add listen.public_url, such as https://tools.example.com",
			"is missing: clients with tokens learn from it where to get one")
	}
}

// checkSubjectTemplate refuses a template of SpiceDB subjects by which two
// callers become one: where several issuers vouch for callers it must carry the
// issuer, where callers have tenants the tenant.
func checkSubjectTemplate(p *tree.Problems, n *tree.Node, t *Toolgate) {
	if t.SpiceDB.Endpoint == "" && t.SpiceDB.Builtin == nil {
		return
	}
	for _, part := range [...]struct {
		name, why string
		needed    bool
	}{
		{"{issuer}", "several issuers vouch for callers, and the same subject of two is two callers", severalIssuers(t)},
		{"{tenant}", "callers have tenants, and the same subject in two is two callers", haveTenants(t)},
	} {
		if part.needed && !strings.Contains(t.SpiceDB.SubjectID, part.name) {
			at := n
			if own := n.Get("subject_id"); own != nil {
				at = own
			}
			p.At(at, "spicedb.subject_id", `write it with `+part.name+`, such as "`+subjectTemplate(t)+`"`, "lacks %s: %s", part.name, part.why)
		}
	}
}

// subjectTemplate is the shortest template that keeps all callers apart.
func subjectTemplate(t *Toolgate) string {
	template := ""
	if severalIssuers(t) {
		template += "{issuer}/"
	}
	if haveTenants(t) {
		template += "{tenant}/"
	}
	return template + "{subject}"
}

// severalIssuers tells whether more than one authority vouches for callers.
func severalIssuers(t *Toolgate) bool {
	issuers := map[string]bool{}
	for i := range t.Auth.JWT {
		issuers[t.Auth.JWT[i].Issuer] = true
	}
	if t.Auth.Introspection.Endpoint != "" {
		issuers[t.Auth.Introspection.Issuer] = true
	}
	n := len(issuers)
	if len(t.Auth.Keys) > 0 {
		n++
	}
	if t.Listen.TLS.ClientCA != "" {
		n++
	}
	return n > 1
}

// haveTenants tells whether callers may be of different tenants.
func haveTenants(t *Toolgate) bool {
	for i := range t.Auth.JWT {
		if t.Auth.JWT[i].Claims.Tenant != "" {
			return true
		}
	}
	for i := range t.Auth.Keys {
		if t.Auth.Keys[i].Tenant != t.Auth.Keys[0].Tenant {
			return true
		}
	}
	return t.Auth.Introspection.Endpoint != "" && t.Auth.Introspection.Claims.Tenant != "" ||
		t.Listen.TLS.ClientCA != "" && t.Auth.MTLS.Tenant != ""
}
