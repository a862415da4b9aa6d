package upstream

import (
	"errors"
	"fmt"
	"testing"

	"github.com/toolgate/toolgate/internal/child"
)

func TestLacksNetwork(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"request to https://npm.test/x failed, reason: getaddrinfo ENOTFOUND npm.test": true,
		"unable to get local issuer certificate":                                       true,
		"dns error: failed to lookup address information: Name or service not known":   true,
		"ERROR: No matching distribution found for mcp-server-time":                    true,
		"KeyError: 'API_TOKEN'": false,
		"":                      false,
	} {
		if got := lacksNetwork(fmt.Errorf("the process ended: %w", &child.ExitError{LastLine: line})); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	if !lacksNetwork(fmt.Errorf("initialize: %w of 30s", errNotReady)) || lacksNetwork(errors.New("find command")) {
		t.Error("what takes too long may wait for the network, and what is not there does not")
	}
	err := &withheldError{errors.New("it failed"), []string{"HTTPS_PROXY", "SSL_CERT_FILE"}}
	if got, want := err.Error(), "it failed; toolgate has HTTPS_PROXY, SSL_CERT_FILE and does not hand that on to this server: see its env_inherit"; got != want {
		t.Errorf("%s", got)
	}
}
