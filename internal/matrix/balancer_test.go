//go:build e2e

package matrix

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/testbalancer"
)

// balance serves clients by a load balancer that takes each request to the next address.
func balance(to []string) (url string, end func()) {
	var next atomic.Uint64
	return testbalancer.Start(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", to[next.Add(1)%uint64(len(to))])
	})
}

// sealKey writes the key that gateways share.
func sealKey(t *testing.T, home *daemontest.Home) string {
	t.Helper()
	path := home.Path("seal.key")
	if err := os.WriteFile(path, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
