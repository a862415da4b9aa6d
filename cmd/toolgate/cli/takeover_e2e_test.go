//go:build e2e && !windows

package cli

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/internal/testwait"
)

// Of three clients the one whose process is the gateway ends; then the next
// such process is killed. The last one goes on through both.
func TestClientsOutliveTheirGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	var clients []*stdioClient
	for range 3 {
		clients = append(clients, h.stdioClient(t))
	}
	first := clients[0].pid(t)
	for _, c := range clients[1:] {
		if got := c.pid(t); got != first {
			t.Fatalf("two server processes: %d and %d", first, got)
		}
	}
	if got := h.owner(t); got != clients[0].cmd.Process.Pid {
		t.Fatalf("process %d is the gateway", got)
	}
	clients[0].in.Close()
	if code := clients[0].wait(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	second := clients[1].pid(t)
	if got := clients[2].pid(t); got != second || second == first {
		t.Errorf("server processes %d and %d, before %d", second, got, first)
	}
	testwait.Until(t, patience, "the first server has ended", func() bool { return !alive(first) })
	owner, last := clients[1], clients[2]
	if h.owner(t) == last.cmd.Process.Pid {
		owner, last = last, owner
	}
	// A call is in flight when the gateway is killed: it may have run.
	began := h.path("began")
	last.write(t, `{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"a__slow","arguments":{"file":"`+began+`","wait":"`+h.path("never")+`"}}}`+"\n")
	testwait.Until(t, patience, "the call is at the server", func() bool { _, err := os.Stat(began); return err == nil })
	owner.stop(t, syscall.SIGKILL)

	lost := last.says(t, last.out, `(?m)^.*"id":"slow".*$`)[0]
	if want := regexp.MustCompile(`"error":\{"code":1001,"message":"[^"]*may have run[^"]*","data":\{"kind":"gateway_lost",.*"may_have_run":true\}\}`); !want.MatchString(lost) {
		t.Errorf("the call in flight: %s", lost)
	}
	third := last.pid(t)
	if third == second {
		t.Errorf("the server of a killed gateway answers: %d", third)
	}
	if got := h.owner(t); got != last.cmd.Process.Pid {
		t.Errorf("process %d is the gateway, not the last client %d", got, last.cmd.Process.Pid)
	}
	// Others find it.
	late := h.stdioClient(t)
	if got := late.pid(t); got != third {
		t.Errorf("a late client has server %d, not %d", got, third)
	}
	for _, c := range []*stdioClient{late, last} {
		c.in.Close()
		if code := c.wait(t); code != exitOK {
			t.Errorf("exit code %d\n%s", code, c.err)
		}
		onlyMCP(t, c.out.String())
	}
	if n := strings.Count(last.out.String(), `"id":0,`); n != 1 {
		t.Errorf("%d answers to one initialize:\n%s", n, last.out)
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// When all clients end at once, none of them starts a gateway for nothing.
func TestClientsThatEndTogether(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	var clients []*stdioClient
	for range 4 {
		clients = append(clients, h.stdioClient(t))
	}
	for _, c := range clients {
		c.in.Close()
	}
	for i, c := range clients {
		if code := c.wait(t); code != exitOK || strings.Contains(c.err.String(), "this client continues") {
			t.Errorf("client %d: exit code %d\n%s", i, code, c.err)
		}
	}
}

// `toolgate up` takes the place of a gateway that serves only clients of
// `toolgate stdio`, and these go on with it.
func TestUpTakesThePlaceOfStdio(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	one, two := h.stdioClient(t), h.stdioClient(t)
	before := one.pid(t)
	up, _ := h.up(t)
	after := one.pid(t)
	if got := two.pid(t); got != after || after == before || got != h.pid(t, "a") {
		t.Errorf("servers: %d, then %d and %d", before, after, got)
	}
	if got := h.owner(t); got != up.cmd.Process.Pid {
		t.Errorf("process %d is the gateway, not %d", got, up.cmd.Process.Pid)
	}
	// It is restarted: the clients help themselves meanwhile, and make room again.
	up.stop(t, syscall.SIGTERM)
	if got := one.pid(t); got == after {
		t.Errorf("still server %d", got)
	}
	up, _ = h.up(t)
	if a, b := one.pid(t), two.pid(t); a != b || h.owner(t) != up.cmd.Process.Pid {
		t.Errorf("servers %d and %d, gateway %d", a, b, h.owner(t))
	}
	for _, c := range []*stdioClient{one, two} {
		c.in.Close()
		if code := c.wait(t); code != exitOK {
			t.Errorf("exit code %d\n%s", code, c.err)
		}
	}
}

// Nobody asks for a takeover, so that it starts nothing that a person has not
// started or reloaded; what a person has reloaded stays.
func TestTakeoverStartsNothingNew(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	one, two, three := h.stdioClient(t), h.stdioClient(t), h.stdioClient(t)
	h.write(t, servers{"a": fake("one"), "asked": fake("one")}, nil)
	h.ok(t, "reload", h.file)
	end := func(c *stdioClient) {
		t.Helper()
		c.in.Close()
		if code := c.wait(t); code != exitOK {
			t.Errorf("exit code %d\n%s", code, c.err)
		}
	}
	end(one)
	two.pid(t)
	three.pid(t)
	if s := h.servers(t)["asked"]; s.State != "ready" && s.State != "starting" {
		t.Errorf("what a person reloaded is gone: %+v", s)
	}
	owner, last := two, three
	if h.owner(t) == three.cmd.Process.Pid {
		owner, last = three, two
	}
	h.write(t, servers{"a": fake("one"), "asked": fake("one"), "sneaked": fake("one")}, nil)
	end(owner)
	last.pid(t)
	testwait.Until(t, patience, "what is new waits", func() bool { return h.servers(t)["sneaked"].State == "pending" })
	end(last)
}

// Whose key is taken away is not served by its own gateway either.
func TestStdioWhoseKeyIsTakenAway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, withKeys("alice", "bob"))
	h.env["TOOLGATE_API_KEY"] = "bob"
	bob := h.stdioClient(t)
	h.env["TOOLGATE_API_KEY"] = "alice"
	alice := h.stdioClient(t)
	before := alice.pid(t)
	h.write(t, servers{"a": fake("one")}, withKeys("alice"))
	if code := bob.wait(t); code != exitAuth || !strings.Contains(bob.err.String(), "does not know the API key") {
		t.Errorf("exit code %d: %s", code, bob.err)
	}
	// Its process was the gateway; the other client goes on.
	if after := alice.pid(t); after == before {
		t.Errorf("server %d goes on", before)
	}
	alice.in.Close()
	if code := alice.wait(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, alice.err)
	}
}
