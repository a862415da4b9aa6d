package upstream

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// A probe notices that the server has forgotten the session, which may be the first to do
// so. The session is renewed, and the next probe succeeds.
func TestProbeRenewsTheSession(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle("GET", func(x *exchange) { x.status(405, "", "") }) // no stream that could notice it
	r := run(t, f.spec())
	r.state(mcp.Ready)
	if err := r.Probe(within(t)); err != nil {
		t.Fatalf("a probe: %v", err)
	}
	f.forget()
	if err := r.Probe(within(t)); err == nil {
		t.Fatal("the session that is gone has answered")
	}
	testwait.Until(t, patience, "a new session", func() bool { return r.Probe(within(t)) == nil })
	if n := len(f.requests(mcp.MethodInitialize)); n != 2 {
		t.Errorf("%d sessions", n)
	}
}
