package limit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/proxy/limit"
)

func TestProxiesClient(t *testing.T) {
	trusted, err := limit.ParseProxies([]string{"10.0.0.0/8", "fd00::/8", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limit.ParseProxies([]string{"10.0.0.0/8", "ten"}); err == nil {
		t.Error("a range that is none is accepted")
	}
	for name, tt := range map[string]struct {
		proxies limit.Proxies
		remote  string
		headers []string
		want    string
	}{
		"nobody is trusted":        {nil, "10.0.0.1:5", []string{"198.51.100.7"}, "10.0.0.1"},
		"not a proxy":              {trusted, "192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1"},
		"a proxy":                  {trusted, "10.0.0.1:5", []string{"198.51.100.7"}, "198.51.100.7"},
		"a proxy of IPv6":          {trusted, "[fd00::1]:5", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		"an address in IPv6":       {trusted, "[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		"no header":                {trusted, "10.0.0.1:5", nil, "10.0.0.1"},
		"two proxies":              {trusted, "10.0.0.1:5", []string{"198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		"two headers":              {trusted, "10.0.0.1:5", []string{"198.51.100.7", "10.0.0.2"}, "198.51.100.7"},
		"what a client invents":    {trusted, "10.0.0.1:5", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"in a header of its own":   {trusted, "10.0.0.1:5", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7"},
		"it calls itself loopback": {trusted, "10.0.0.1:5", []string{"127.0.0.1, 198.51.100.7"}, "198.51.100.7"},
		"proxies alone":            {trusted, "10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"no address":               {trusted, "10.0.0.1:5", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		"an address with a port":   {trusted, "10.0.0.1:5", []string{"198.51.100.7:80"}, "10.0.0.1"},
		"nothing between commas":   {trusted, "10.0.0.1:5", []string{"198.51.100.7,,10.0.0.2"}, "10.0.0.2"},
		"an empty header":          {trusted, "10.0.0.1:5", []string{""}, "10.0.0.1"},
		"too many":                 {trusted, "10.0.0.1:5", []string{"198.51.100.7" + strings.Repeat(",10.0.0.2", 100)}, "10.0.0.2"},
		"not an address at all":    {trusted, "@", []string{"198.51.100.7"}, "@"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{"X-Forwarded-For": tt.headers}}
			if got := tt.proxies.Client(r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
