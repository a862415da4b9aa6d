package signin

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// egressFor returns the client for URLs that a server or its authorization server
// provides. It reaches public addresses over https, this machine if the server is on
// it, too, and networks that the operator allows.
func egressFor(s *config.Server) (*oauth.Client, error) {
	policy, err := egressPolicy(s)
	if err != nil {
		return nil, err
	}
	return reaching(policy, nil)
}

func egressPolicy(s *config.Server) (egress.Policy, error) {
	policy := egress.Policy{HTTPSOnly: true, AnyPort: true}
	if u, err := url.Parse(s.URL); err == nil && loopback.Host(u.Hostname()) {
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

// reaching returns a client restricted by a policy. trust is for servers whose
// certificates the machine does not know; nil for none.
func reaching(policy egress.Policy, trust *tls.Config) (*oauth.Client, error) {
	guard, err := egress.New(policy)
	if err != nil {
		return nil, fmt.Errorf("auth.networks: %w", err)
	}
	transport := egress.NewClient(guard, egress.Limits{Timeout: 20 * time.Second, Body: 256 << 10}, trust).HTTP().Transport
	return &oauth.Client{HTTP: transport, Loopback: !policy.HTTPSOnly}, nil
}
