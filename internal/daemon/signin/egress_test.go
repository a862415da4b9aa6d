package signin

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// TestMetadataLeadsNowhereInside has a server and its authorization server name
// addresses that are nobody's business: no connection is made, and nothing of an
// answer is in the error.
func TestMetadataLeadsNowhereInside(t *testing.T) {
	var reached atomic.Int64
	inside := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "canary", http.StatusTeapot)
	}))
	inside.Config.ConnState = func(net.Conn, http.ConnState) { reached.Add(1) }
	inside.Start()
	t.Cleanup(inside.Close)
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := egressFor(&config.Server{URL: "https://mcp.example/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"127.0.0.1:" + port, "localhost:" + port, "localhost.:" + port, "[::1]:" + port, "0.0.0.0:" + port, "[::]:" + port, "2130706433:" + port,
		"127.1:" + port, "0x7f.1:" + port, "[::ffff:127.0.0.1]:" + port, "[::ffff:10.0.0.1]", "169.254.169.254", "[fd00:ec2::254]", "100.64.0.1",
		"[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "10.0.0.1", "192.168.1.1", "ok@10.0.0.1",
	} {
		for _, scheme := range []string{"https://", "http://"} {
			address := scheme + host
			if _, err := client.FindServer(t.Context(), address); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s as an issuer: %v", address, err)
			}
			if _, err := client.FindResource(t.Context(), "https://mcp.example/mcp", oauth.Challenge{ResourceMetadata: address}); err == nil {
				t.Errorf("%s as resource metadata is asked", address)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	own, err := egressFor(&config.Server{URL: inside.URL + "/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.FindServer(t.Context(), inside.URL); err == nil || reached.Load() == 0 {
		t.Errorf("a server on this machine cannot have its authorization server here: %v", err)
	}
}
