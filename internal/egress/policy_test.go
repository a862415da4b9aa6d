package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func guard(t testing.TB, p Policy) *Guard {
	t.Helper()
	g, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// rule returns the rule that an error names, empty when there is none.
func rule(err error) string {
	if err == nil {
		return ""
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Rule
	}
	return "not a refusal: " + err.Error()
}

// TestSpecial goes through the registries: the first and the last address of
// every block, and those beside it.
func TestSpecial(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "127.255.255.255",
		"169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.9",
		"192.0.0.170", "192.0.0.255", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.0", "192.168.255.255",
		"192.175.48.1", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.0",
		"255.255.255.254", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::a00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "64:ff9b:1:ffff::", "100::1", "100:0:0:1::1",
		"2001::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:1::1", "2001:1::2", "2001:1::3", "2001:2::1", "2001:3::1", "2001:4:112::1",
		"2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff:ffff::", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "2620:4f:8000::1",
		"3fff::1", "3fff:fff:ffff::", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1",
		"ff02::1", "ffff::", "1fff::1", "4000::1", "8000::1", "::2", "1::1",
	} {
		if Special(netip.MustParseAddr(text)) == "" {
			t.Errorf("%s may be reached", text)
		}
	}
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8",
		"2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2620:4f:8001::1", "3ffe::1", "2a00:1450::1",
	} {
		if what := Special(netip.MustParseAddr(text)); what != "" {
			t.Errorf("%s may not be reached: %s", text, what)
		}
	}
	if Special(netip.Addr{}) == "" {
		t.Error("no address may be reached")
	}
}

func TestParse(t *testing.T) {
	plain := Policy{}
	for _, tc := range []struct {
		url, want string // want is the address, or the rule that refuses it
		policy    Policy
	}{
		{url: "https://example.com/a?b=c#d", want: "https://example.com/a?b=c"},
		{url: "http://EXAMPLE.com.:80/", want: "http://example.com:80/"},
		{url: "https://[2606:4700::1111]/", want: "https://[2606:4700::1111]/"},
		{url: "https://[::ffff:8.8.8.8]/", want: "https://8.8.8.8/"},
		{url: "https://b\u00fccher.example/", want: "https://xn--bcher-kva.example/"},
		{url: "https://my_host.example/", want: "https://my_host.example/"},
		{url: "https://example\u3002com/", want: "https://example.com/"},
		{url: "https://\uff45xample.com/", want: "https://example.com/"},

		{url: "ftp://example.com/", want: "scheme"},
		{url: "file:///etc/passwd", want: "scheme"},
		{url: "gopher://x/", want: "scheme"},
		{url: "javascript:alert(1)", want: "scheme"},
		{url: "//example.com/", want: "scheme"},
		{url: "example.com", want: "scheme"},
		{url: "", want: "scheme"},
		{url: "http:example.com", want: "url"},
		{url: "http:///x", want: "url"},
		{url: "http://exa mple.com/", want: "url"},
		{url: "http://a\x00b/", want: "url"},
		{url: "http://example.com/\r\nX: y", want: "url"},
		{url: "http://[::1", want: "url"},
		{url: "http://" + strings.Repeat("a", 9000), want: "url"},
		{url: "http://u@example.com/", want: "credentials"},
		{url: "http://u:p@example.com/", want: "credentials"},
		{url: "https://ok@10.0.0.1/", want: "credentials"},
		{url: "http://example.com:22/", want: "port"},
		{url: "http://example.com:0/", want: "port"},
		{url: "http://example.com:/", want: "port"},
		{url: "http://example.com:99999/", want: "port"},
		{url: "http://example.com:8080/", want: "port"},
		{url: "http://127.0.0.1/", want: "address"},
		{url: "http://10.0.0.1/", want: "address"},
		{url: "http://0.0.0.0/", want: "address"},
		{url: "http://169.254.169.254/latest/meta-data/", want: "address"},
		{url: "http://[::1]/", want: "address"},
		{url: "http://[::]/", want: "address"},
		{url: "http://[::ffff:127.0.0.1]/", want: "address"},
		{url: "http://[::ffff:7f00:1]/", want: "address"},
		{url: "http://[fd00:ec2::254]/", want: "address"},
		{url: "http://[64:ff9b::7f00:1]/", want: "address"},
		{url: "http://[2002:7f00:1::]/", want: "address"},
		{url: "http://[fe80::1%25eth0]/", want: "address"},
		{url: "http://[2606:4700::1111%25eth0]/", want: "address"},
		{url: "http://2130706433/", want: "host"},
		{url: "http://127.1/", want: "host"},
		{url: "http://0x7f.1/", want: "host"},
		{url: "http://0177.0.0.1/", want: "host"},
		{url: "http://0x7f000001/", want: "host"},
		{url: "http://127.0.0.1./", want: "host"},
		{url: "http://\u2460\u2461\u2466.0.0.1/", want: "host"},
		{url: "http://a..b/", want: "host"},
		{url: "http://./", want: "host"},
		{url: "http://%31%32%37.0.0.1/", want: "url"},
		{url: "http://a%00b/", want: "url"},

		{url: "http://example.com/", policy: Policy{HTTPSOnly: true}, want: "scheme"},
		{url: "http://example.com:8080/", policy: Policy{Ports: []uint16{8080}}, want: "http://example.com:8080/"},
		{url: "http://example.com/", policy: Policy{Ports: []uint16{8080}}, want: "port"},
		{url: "http://example.com:9/", policy: Policy{AnyPort: true}, want: "http://example.com:9/"},
		{url: "http://127.0.0.1/", policy: Policy{Allow: Loopback()}, want: "http://127.0.0.1/"},
		{url: "http://[::ffff:127.0.0.1]/", policy: Policy{Allow: Loopback()}, want: "http://127.0.0.1/"},
		{url: "http://10.0.0.1/", policy: Policy{Allow: Loopback()}, want: "address"},
		{url: "http://10.0.0.1/", policy: Policy{Allow: private()}, want: "http://10.0.0.1/"},
		{url: "http://169.254.169.254/", policy: Policy{Allow: private()}, want: "address"},
		{url: "http://Evil.Example./", policy: Policy{DenyHosts: []string{"evil.example"}}, want: "deny_hosts"},
		{url: "http://evil.example/", policy: Policy{DenyHosts: []string{"EVIL.example."}}, want: "deny_hosts"},
		{url: "http://b\u00fccher.example/", policy: Policy{DenyHosts: []string{"xn--bcher-kva.example"}}, want: "deny_hosts"},
		{url: "http://xn--bcher-kva.example/", policy: Policy{DenyHosts: []string{"B\u00dcCHER.example"}}, want: "deny_hosts"},
		{url: "http://a.evil.example/", policy: Policy{DenyHosts: []string{"*.evil.example"}}, want: "deny_hosts"},
		{url: "http://notevil.example/", policy: Policy{DenyHosts: []string{"*.evil.example"}}, want: "http://notevil.example/"},
		{url: "http://8.8.8.8/", policy: Policy{DenyHosts: []string{"8.8.0.0/16"}}, want: "deny_hosts"},
		{url: "http://[::ffff:8.8.8.8]/", policy: Policy{DenyHosts: []string{"8.8.8.8"}}, want: "deny_hosts"},
		{url: "http://8.8.8.8/", policy: Policy{DenyHosts: []string{"::ffff:8.8.8.8"}}, want: "deny_hosts"},
		{url: "http://127.0.0.1/", policy: Policy{DenyHosts: []string{"127.0.0.1"}, Allow: Loopback()}, want: "deny_hosts"},
		{url: "http://a.example/", policy: Policy{AllowHosts: []string{"a.example"}}, want: "http://a.example/"},
		{url: "http://b.example/", policy: Policy{AllowHosts: []string{"a.example"}}, want: "allow_hosts"},
		{url: "http://a.example.evil.example/", policy: Policy{AllowHosts: []string{"a.example", "*.a.example"}}, want: "allow_hosts"},
		{url: "http://8.8.8.8/", policy: Policy{AllowHosts: []string{"a.example"}}, want: "allow_hosts"},
		{url: "http://a.example/", policy: Policy{AllowHosts: []string{"a.example"}, DenyHosts: []string{"a.example"}}, want: "deny_hosts"},
		{url: "http://127.0.0.1/", policy: Policy{AllowHosts: []string{"127.0.0.1"}}, want: "address"},
	} {
		got := ""
		u, err := guard(t, tc.policy).Parse(tc.url)
		if got = rule(err); err == nil {
			got = u.String()
		}
		if got != tc.want {
			t.Errorf("%q: %s; want %s", tc.url, got, tc.want)
		}
	}
	for _, secret := range []string{"http://user:hunter2@10.0.0.1/?key=hunter2", "http://10.0.0.1/hunter2", "http://exa mple/hunter2", "ftp://x/hunter2"} {
		if _, err := guard(t, plain).Parse(secret); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v repeats what the address holds", err)
		}
	}
}

func TestEntriesThatAreNoHosts(t *testing.T) {
	for _, text := range []string{"", "*", "*.", "a b", "http://a", "a:80", "a/b", "127.1", "10.0.0.0/33"} {
		if _, err := New(Policy{DenyHosts: []string{text}}); err == nil {
			t.Errorf("%q is taken as a host", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"https://example.com/a", "http://[::ffff:127.0.0.1]:80/", "http://127.1/", "http://a@b/", "http://\uff11\uff12\uff17.0.0.1/", "http://%31/"} {
		f.Add(seed)
	}
	g := guard(f, Policy{DenyHosts: []string{"denied.example"}})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.Parse(raw)
		if err != nil {
			if rule(err) == "" {
				t.Fatalf("%q: %v is not a refusal", raw, err)
			}
			return
		}
		again, err := g.Parse(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q: %v is not its own form: %v, %v", raw, u, again, err)
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && Special(a) != "" {
			t.Fatalf("%q leads to %v", raw, a)
		}
		if strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "denied.example") {
			t.Fatalf("%q leads to what is denied", raw)
		}
	})
}

// private returns the addresses of private networks, without this machine's and
// link-local ones, for [Policy.Allow].
func private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
	}
}
