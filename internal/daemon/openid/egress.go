package openid

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/upstream/oauth"
)

var (
	thisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	private     = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
	}
	// cloudMetadata is the address in a private network at which cloud machines offer
	// credentials.
	cloudMetadata = []string{"fd00:ec2::254"}
)

// policy says where an endpoint of an issuer may be. The settings name the issuer, so its
// host may be in a private network. Other hosts are named by the issuer alone: they are
// public. Only an issuer on this machine has endpoints there.
func policy(issuer, endpoint string) egress.Policy {
	p := egress.Policy{HTTPSOnly: true, AnyPort: true, DenyHosts: cloudMetadata}
	from, err := url.Parse(issuer)
	if err != nil {
		return p
	}
	to, err := url.Parse(endpoint)
	switch {
	case loopback.Host(from.Hostname()):
		p.HTTPSOnly, p.Allow = false, thisMachine
	case err == nil && strings.EqualFold(from.Hostname(), to.Hostname()):
		p.Allow = private
	}
	return p
}

// checking returns a client that only checks addresses which browsers are sent to.
func checking(issuer string) *oauth.Client {
	return &oauth.Client{Loopback: !policy(issuer, issuer).HTTPSOnly}
}

// reaching returns a client for one endpoint of an issuer, and what ends it.
func reaching(issuer, endpoint string) (c *oauth.Client, end func(), err error) {
	p := policy(issuer, endpoint)
	guard, err := egress.New(p)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the issuer: %w", err)
	}
	out := egress.NewClient(guard, egress.Limits{Timeout: 10 * time.Second, Body: 256 << 10}, nil)
	return &oauth.Client{HTTP: out.HTTP().Transport, Loopback: !p.HTTPSOnly}, out.Close, nil
}
