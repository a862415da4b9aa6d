package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/limit"
)

// knock sends a request with a credential from an address and returns its status.
func (r *rig) knock(from, credential string) *recorder {
	r.t.Helper()
	req := modernRequest(modernBody("1", mcp.MethodToolsList, "", ""), "Authorization", credential)
	req.RemoteAddr = from
	return r.do(req)
}

// asked counts how often a credential is verified.
type asked struct {
	Authenticator
	n int
}

func (a *asked) Authenticate(r *http.Request) (*gate.Identity, error) {
	a.n++
	return a.Authenticator.Authenticate(r)
}

// After too many invalid credentials, those of an address are not verified for a while.
// Other addresses, and callers who were valid from there before, are served.
func TestAuthFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var door *asked
		r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("a"))), bounded(limit.Rates{AuthFailures: 4}), func(o *Options, _ *Config) {
			door = &asked{Authenticator: o.Authenticator}
			o.Authenticator = door
		})
		const here, there = "192.0.2.1:1000", "192.0.2.2:1000"
		if w := r.knock(here, "Bearer alice"); w.code() != http.StatusOK {
			t.Fatalf("alice: status %d", w.code())
		}
		for i := range 4 {
			credential := []string{"Bearer mallory", "", "Basic x", "Bearer eve"}[i]
			if w := r.knock(fmt.Sprintf("192.0.2.1:%d", 2000+i), credential); w.code() != http.StatusUnauthorized {
				t.Fatalf("%q: status %d", credential, w.code())
			}
		}
		looked := door.n
		for _, credential := range []string{"Bearer mallory", "Bearer bob", ""} {
			w := r.knock(here, credential)
			if w.code() != http.StatusTooManyRequests || w.field("Retry-After") != "15" || !strings.Contains(w.text(), "limits.auth_failures_per_minute") ||
				w.field("WWW-Authenticate") != "" {
				t.Errorf("%q: status %d, Retry-After %q, %s", credential, w.code(), w.field("Retry-After"), w.text())
			}
		}
		if door.n != looked {
			t.Error("a credential was looked at while the address is not listened to")
		}
		if w := r.knock(here, "Bearer alice"); w.code() != http.StatusOK {
			t.Errorf("alice, who was let in before: status %d", w.code())
		}
		if w := r.knock(there, "Bearer bob"); w.code() != http.StatusOK {
			t.Errorf("another address: status %d", w.code())
		}
		time.Sleep(15 * time.Second)
		if w := r.knock(here, "Bearer bob"); w.code() != http.StatusOK {
			t.Errorf("when it is time: status %d", w.code())
		}
	})
}

// An error of the gateway itself does not count as a failure of the caller.
func TestAuthOutageIsNoFailure(t *testing.T) {
	r := newRig(t, nil, bounded(limit.Rates{AuthFailures: 2}), lending(&lender{err: errors.New("the issuer does not answer")}))
	for range 5 {
		if w := r.knock("192.0.2.1:1000", "Bearer alice"); w.code() == http.StatusTooManyRequests {
			t.Fatal("an outage of the issuer is held against its callers")
		}
	}
}

// Behind a trusted proxy, failures count for the client that the proxy names, and not for the
// proxy. What clients without such a proxy say of themselves does not count.
func TestFailuresBehindAProxy(t *testing.T) {
	proxies, err := limit.ParseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil, bounded(limit.Rates{AuthFailures: 3}), func(o *Options, _ *Config) { o.Proxies = proxies })
	from := func(remote, client string) int {
		req := modernRequest(modernBody("1", mcp.MethodToolsList, "", ""), "Authorization", "nobody's", "X-Forwarded-For", client)
		req.RemoteAddr = remote
		return r.do(req).code()
	}
	for range 4 {
		from("10.0.0.1:1", "invented, 198.51.100.7")
	}
	if status := from("10.0.0.2:1", "198.51.100.7"); status != http.StatusTooManyRequests {
		t.Errorf("the same client behind another proxy: status %d", status)
	}
	if status := from("10.0.0.1:1", "198.51.100.8"); status != http.StatusUnauthorized {
		t.Errorf("another client: status %d", status)
	}
	if status := from("192.0.2.1:1", "198.51.100.7"); status != http.StatusUnauthorized {
		t.Errorf("a client that is no proxy: status %d", status)
	}
}

// Refusals of other handlers count as failed authentications. An address with too many
// is answered before the handler runs.
func TestFailuresOfOtherDoorsCount(t *testing.T) {
	r := newRig(t, nil, bounded(limit.Rates{AuthFailures: 3}))
	asked := 0
	door := r.CountFailures(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(w, "served")
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	get := func(from, path string) int {
		w := newRecorder()
		req := httpRequest("GET", path, "", "Authorization", "")
		req.RemoteAddr = from + ":1"
		door.ServeHTTP(w, req)
		return w.code()
	}
	for range 10 {
		if get("192.0.2.1", "/good") != http.StatusOK || get("192.0.2.1", "/down") != http.StatusServiceUnavailable {
			t.Error("what is not a failure counts")
		}
	}
	for range 3 {
		get("192.0.2.1", "/x")
	}
	asked = 0
	if status := get("192.0.2.1", "/good"); status != http.StatusTooManyRequests || asked != 0 {
		t.Errorf("beyond the bound: status %d, asked %d times", status, asked)
	}
	if status := r.knock("192.0.2.1:1", "nobody's").code(); status != http.StatusTooManyRequests {
		t.Errorf("the protocol's own door: status %d", status)
	}
	if status := get("192.0.2.2", "/good"); status != http.StatusOK {
		t.Errorf("another address: status %d", status)
	}
}
