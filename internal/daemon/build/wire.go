package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/limit"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// This file turns a configuration, which is plain data, into the parts of a gateway.
// No other package knows both.

// inherited returns the names of the variables that a server gets from the gateway's own
// environment.
func inherited(s *config.Server) []string {
	if s.EnvOnly {
		return s.EnvInherit
	}
	return append(upstream.Inherited(), s.EnvInherit...)
}

// withheld returns the variables of the gateway's environment that servers get by default
// and this one does not, except those that its entry sets.
func withheld(s *config.Server, lookup func(string) (string, bool)) []string {
	if !s.EnvOnly {
		return nil
	}
	return slices.DeleteFunc(upstream.Inherited(), func(name string) bool {
		_, has := lookup(name)
		_, set := s.Env[name]
		return !has || set || slices.Contains(s.EnvInherit, name) || strings.HasPrefix(name, "LC_") || name == "TZ"
	})
}

// UpstreamSpec converts a configured server to the spec for package upstream.
func UpstreamSpec(s *config.Server, c *config.Config, authenticated bool) upstream.Spec {
	limits := &c.Toolgate.Limits
	spec := upstream.Spec{
		Key:        s.Key,
		Transport:  s.Transport,
		Command:    s.Command,
		Args:       s.Args,
		Dir:        s.Cwd,
		Env:        upstream.Environment(secret.Reveal(s.Env), inherited(s), os.LookupEnv),
		Withheld:   withheld(s, os.LookupEnv),
		URL:        s.URL,
		Headers:    secret.Reveal(s.Headers),
		Credential: credentialName(s),
		Era:        s.Protocol.Era(),
		Isolation:  s.Isolation,
		Without:    s.PlainCatalog,
		Copies:     s.Copies,
		Exclusive:  s.Exclusive,
		PerRights:  TradesCallers(s),
		Off:        s.Disabled,
		Questions: upstream.Questions{
			Sampling:    s.ClientRequests.Samples(),
			Elicitation: s.ClientRequests.Elicitation.Allowed(),
			Roots:       s.ClientRequests.Roots.Allowed(),
		},
		Timeouts: s.Timeouts,
		Limits: upstream.Limits{
			ServerLimits: limits.ServerLimits, Depth: limits.Depth, Concurrency: s.Concurrency, Conns: s.Processes,
		},
	}
	spec.Sandbox = Sandbox(s)
	if s.Refused != nil {
		spec.Refused = s.Refused.Error()
	}
	if !authenticated {
		spec.Local = gate.Local.Key()
	}
	return spec
}

// mount returns the mount of a configured server.
func mount(s *config.Server, b proxy.Backend, limits *config.Limits) proxy.Mount {
	m := proxy.Mount{
		Backend:     b,
		Added:       s.Added,
		Namespace:   s.Namespace,
		Include:     s.Include,
		Exclude:     s.Exclude,
		Concurrency: s.Concurrency,
		Queue:       limits.Queue,
		Hard:        s.Timeouts.Hard,
		Result:      int(limits.Result),
		PerSession:  s.Isolation == upstream.IsolateSession,
		PerRights:   TradesCallers(s),
		Questions: proxy.Questions{
			Sampling:    s.ClientRequests.Samples(),
			Elicitation: s.ClientRequests.Elicitation.Allowed(),
			Roots:       s.ClientRequests.Roots.Allowed(),
		},
		URLHosts:         s.ClientRequests.URLHosts,
		QuestionsPerHour: s.ClientRequests.PerHour,
	}
	for name, t := range s.Tools {
		shape := t.ToolShape
		if t.Cache != nil {
			shape.Reuse = t.Cache.TTL
		}
		if m.Tools == nil {
			m.Tools = make(map[string]proxy.ToolShape)
		}
		m.Tools[name] = shape
	}
	return m
}

// GatewayOptions returns the gateway's options from the file.
func GatewayOptions(c *config.Config) proxy.Options {
	l := &c.Toolgate.Limits
	o := proxy.Options{
		Version:   version.Version,
		NameHash:  opa.KeyHash,
		PublicURL: c.Toolgate.Listen.PublicURL,
		Hosts:     c.Toolgate.Listen.Hosts,
		Origins:   c.Toolgate.Listen.Origins,
		Proxies:   Proxies(c),
		Limits:    proxy.Limits{ClientLimits: l.ClientLimits, StoreLimits: l.StoreLimits},
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		o.Hosts = append([]string{u.Host}, o.Hosts...)
	}
	return o
}

// Proxies are the reverse proxies that a configuration trusts. The decoder has checked them.
func Proxies(c *config.Config) limit.Proxies {
	all, err := limit.ParseProxies(c.Toolgate.Listen.TrustedProxies)
	if err != nil {
		return nil
	}
	return all
}

// ServerURL returns the URL at which clients reach a listener.
func ServerURL(c *config.Config, address net.Addr) string {
	if u := c.Toolgate.Listen.PublicURL; u != "" {
		return u
	}
	return ListenerURL(c.Toolgate.Listen.TLS, address)
}

// ListenerURL returns the URL of a listener that serves with a certificate, if there is one.
func ListenerURL(tls config.TLS, address net.Addr) string {
	scheme := "http"
	if tls.Cert != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, address)
}

// Reachable is a URL of the gateway that a client of this machine can use: a listener on
// every address is reached by the loopback one, among others.
func Reachable(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}

// credentialName identifies how the gateway gets a server's credential, empty for
// headers in the file. A change makes it a different server.
func credentialName(s *config.Server) string {
	if s.AuthMode() == credential.Static {
		return ""
	}
	own := s.Auth
	text, _ := json.Marshal(own) // it holds only texts; secrets are left out
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s", s.AuthMode(), s.AuthPer(), text)
	for _, own := range [...]secret.Text{own.Client.Secret, own.Exchange.Client.Secret} {
		sum := sha256.Sum256([]byte(own.Reveal()))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TradesCallers tells whether callers' own tokens are exchanged for tokens to a
// server.
func TradesCallers(s *config.Server) bool {
	return s.AuthMode() == credential.Exchange && s.Auth.Exchange.Subject == ""
}
