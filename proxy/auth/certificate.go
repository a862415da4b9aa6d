package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// CertificateIssuer is the default issuer of identities from client certificates.
const CertificateIssuer = "toolgate:certificates"

// Field is a field of a client certificate.
type Field string

// The fields. Subject names are as in RFC 4519.
const (
	FieldURI   Field = "uri"   // of the subject alternative names, as with SPIFFE
	FieldDNS   Field = "dns"   // of the subject alternative names
	FieldEmail Field = "email" // of the subject alternative names
	FieldCN    Field = "cn"
	FieldO     Field = "o"
	FieldOU    Field = "ou"
)

// values returns the values of the field in a certificate. The empty field has none.
func (f Field) values(c *x509.Certificate) []string {
	switch f {
	case FieldURI:
		out := make([]string, len(c.URIs))
		for i, u := range c.URIs {
			out[i] = u.String()
		}
		return out
	case FieldDNS:
		return c.DNSNames
	case FieldEmail:
		return c.EmailAddresses
	case FieldCN:
		if c.Subject.CommonName == "" {
			return nil
		}
		return []string{c.Subject.CommonName}
	case FieldO:
		return c.Subject.Organization
	case FieldOU:
		return c.Subject.OrganizationalUnit
	default:
		return nil
	}
}

func (f Field) known() bool {
	switch f {
	case FieldURI, FieldDNS, FieldEmail, FieldCN, FieldO, FieldOU:
		return true
	default:
		return false
	}
}

// CertificateOptions map client certificates to identities. An empty field reads
// nothing.
type CertificateOptions struct {
	// CertificateSettings are the operator's. Subject is required.
	CertificateSettings

	// Issuer of the principals; [CertificateIssuer] when empty. All the
	// authorities that the listener trusts count as this one issuer.
	Issuer string
}

// Certificates authenticates clients by the certificate of their connection. The
// listener must verify certificates (tls.VerifyClientCertIfGiven or
// tls.RequireAndVerifyClientCert): unverified ones are refused. The zero Certificates,
// and nil, refuse everyone. It is safe for concurrent use.
type Certificates struct {
	options CertificateOptions
}

// NewCertificates returns the authenticator.
func NewCertificates(o CertificateOptions) (*Certificates, error) {
	switch o.Subject {
	case FieldURI, FieldDNS, FieldEmail, FieldCN:
	default:
		return nil, fmt.Errorf("the subject of a client certificate must be one of uri, dns, email and cn, not %q", o.Subject)
	}
	for _, f := range []Field{o.Tenant, o.Persona, o.Groups, o.Plan} {
		if f != "" && !f.known() {
			return nil, fmt.Errorf("a client certificate has no %q; use uri, dns, email, cn, o or ou", f)
		}
	}
	for _, s := range o.Scopes {
		if !scopeToken(s) {
			return nil, fmt.Errorf("%q is not a scope", s)
		}
	}
	switch o.Issuer {
	case "":
		o.Issuer = CertificateIssuer
	case KeyIssuer, gate.Local.Issuer:
		return nil, fmt.Errorf("the issuer %q is toolgate's own", o.Issuer)
	}
	return &Certificates{options: o}, nil
}

// Authenticate implements the proxy's Authenticator.
func (c *Certificates) Authenticate(r *http.Request) (*gate.Identity, error) {
	g, err := c.Identify(r)
	return g.Identity, err
}

// Identify returns the identity of the certificate on a request's connection. Errors
// are those of package gate. The validity is checked at every request, because
// connections live long.
func (c *Certificates) Identify(r *http.Request) (Grant, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return Grant{}, gate.ErrNoCredential
	}
	if c == nil || c.options.Subject == "" {
		return Grant{}, badCredentialf("client certificates are not accepted")
	}
	if len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return Grant{}, badCredentialf("the client certificate was not verified")
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return Grant{}, badCredentialf("the client certificate has expired")
	}
	id, err := c.identity(leaf)
	if err != nil {
		return Grant{}, badCredentialf("%v", err)
	}
	return Grant{Identity: id, Expires: leaf.NotAfter, Until: leaf.NotAfter}, nil
}

var errNoSubject = errors.New("the client certificate names nobody")

func (c *Certificates) identity(leaf *x509.Certificate) (*gate.Identity, error) {
	o := &c.options
	id := gate.Identity{
		Principal: gate.Principal{Issuer: o.Issuer},
		Scopes:    o.Scopes, Credential: fmt.Sprintf("certificate:%.40s", leaf.SerialNumber.Text(16)),
	}
	for _, f := range []struct {
		field Field
		into  *string
	}{{o.Subject, &id.Subject}, {o.Tenant, &id.Tenant}, {o.Persona, &id.Persona}, {o.Plan, &id.Plan}} {
		values := f.field.values(leaf)
		switch {
		case len(values) == 0:
			continue
		case len(values) > 1:
			return nil, fmt.Errorf("the client certificate has more than one %s", f.field)
		}
		var err error
		if *f.into, err = text(string(f.field), values[0]); err != nil {
			return nil, err
		}
	}
	if id.Subject == "" {
		return nil, errNoSubject
	}
	for _, g := range o.Groups.values(leaf) {
		group, err := text(string(o.Groups), g)
		if err != nil {
			return nil, err
		}
		id.Groups = append(id.Groups, group)
	}
	return gate.NewIdentity(id), nil
}
