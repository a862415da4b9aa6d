package build

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// A server gets the variables of proxies and certificates, unless its settings name
// others. A password in them is a secret.
func TestInheritedVariables(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://me:canary-of-a-proxy@proxy.example:3128")
	t.Setenv("SSL_CERT_FILE", "/etc/ca.pem")
	t.Setenv("MY_OWN", "mine")
	for settings, want := range map[string][]string{
		"{}":                  {"HTTPS_PROXY", "SSL_CERT_FILE"},
		"{ env_inherit: [] }": nil,
		"{ env_inherit: [MY_OWN, SSL_CERT_FILE] }": {"MY_OWN", "SSL_CERT_FILE"},
	} {
		c, err := config.Parse("toolgate.yaml", []byte("mcpServers: { a: { command: x } }\ntoolgate: { servers: { a: "+settings+" } }\n"), config.Options{LookupEnv: os.LookupEnv})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range UpstreamSpec(&c.Servers[0], c, false).Env {
			if name, _, _ := strings.Cut(entry, "="); slices.Contains([]string{"HTTPS_PROXY", "SSL_CERT_FILE", "MY_OWN"}, name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
		known := slices.Contains(KnownSecrets(c, c.Servers, os.LookupEnv), "canary-of-a-proxy")
		if known != slices.Contains(want, "HTTPS_PROXY") {
			t.Errorf("%s: the password of the proxy is known as a secret: %t", settings, known)
		}
	}
}
