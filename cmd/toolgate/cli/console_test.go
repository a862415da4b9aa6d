//go:build !windows

package cli

import (
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"syscall"
	"testing"
)

// The link of the command signs a browser in, over the real listener, once.
func TestConsole(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["TOOLGATE_LISTEN_CONSOLE"] = "127.0.0.1:0"
	h.write(t, servers{"a": fake("one")}, nil)
	p, _ := h.up(t)
	at := p.says(t, p.out, `(?m)^console  (http://127\.0\.0\.1:\d+)/$`)[1]
	link := strings.TrimSpace(h.ok(t, "console", "--no-browser", "-c", h.file))
	if !strings.HasPrefix(link, at+"/open/") {
		t.Fatalf("link %s", link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	client.Jar = jar
	if status, text := get(t, client, link); status != http.StatusOK || !strings.Contains(text, "<h1>Now</h1>") || !strings.Contains(text, "<bdi>a</bdi>") {
		t.Errorf("the link: %d %s", status, text)
	}
	if status, _ := get(t, client, link); status != http.StatusForbidden {
		t.Errorf("the link again: %d", status)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if all := p.out.String() + p.err.String(); strings.Contains(all, "/open/") {
		t.Errorf("the link is in the log: %s", all)
	}
}

// An address that was asked for has to be free, and one beyond this machine needs TLS.
func TestConsoleAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	h := newHome(t)
	h.write(t, servers{}, nil)
	for address, want := range map[string]int{taken.Addr().String(): exitUnreachable, "0.0.0.0:0": exitConfig} {
		h.env["TOOLGATE_LISTEN_CONSOLE"] = address
		if o := h.run(t, "up", h.file); o.code != want || !strings.Contains(o.stderr, "listen.console") {
			t.Errorf("%s: %+v", address, o)
		}
	}
}
