package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// keyed is a credential whose every request has a proof: a number, method, address and
// nonce.
type keyed struct {
	proofs  atomic.Int64
	refused atomic.Int64
	newest  atomic.Pointer[string]
}

// stuckError is the error of a server that is never content.
type stuckError struct{}

func (stuckError) Error() string    { return "it wants another nonce with every request" }
func (stuckError) NeedsLogin() bool { return false }

func (*keyed) Headers(context.Context, string) (http.Header, error) {
	return http.Header{"Authorization": {"DPoP token"}}, nil
}

func (*keyed) Key(string) string { return "keyed" }

func (k *keyed) Prove(r *http.Request, _, nonce string) error {
	if known := k.newest.Load(); nonce == "" && known != nil {
		nonce = *known
	}
	r.Header["Dpop"] = []string{fmt.Sprintf("%d %s %s [%s]", k.proofs.Add(1), r.Method, r.URL.Path, nonce)}
	return nil
}

func (k *keyed) Answered(_ *http.Request, _ string, status int, answer http.Header) string {
	nonce := answer.Get("Dpop-Nonce")
	if status == http.StatusUnauthorized {
		return nonce
	}
	if nonce != "" {
		k.newest.Store(&nonce)
	}
	return ""
}

func (k *keyed) Refused(context.Context, string, http.Header, int, http.Header) (bool, error) {
	k.refused.Add(1)
	return false, stuckError{}
}

// lock lets no request in without a proof of its own, with a nonce that is good once.
type lock struct {
	t *testing.T

	mu      sync.Mutex
	n       int
	nonces  map[string]bool
	proofs  map[string]bool
	asked   map[string]int // requests by method
	content bool
}

func newLock(t *testing.T) *lock {
	return &lock{t: t, nonces: map[string]bool{}, proofs: map[string]bool{}, asked: map[string]int{}, content: true}
}

func (l *lock) guard(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	proof := r.Header.Values("Dpop")
	if len(proof) != 1 || l.proofs[proof[0]] || r.Header.Get("Authorization") != "DPoP token" {
		l.t.Errorf("%s %s comes with %q and %q", r.Method, r.URL.Path, r.Header.Get("Authorization"), proof)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	l.proofs[proof[0]] = true
	part := strings.Split(proof[0], " ")
	if part[1] != r.Method || part[2] != r.URL.Path {
		l.t.Errorf("%s %s comes with the proof %q", r.Method, r.URL.Path, proof)
	}
	l.asked[r.Method+" "+r.Header.Get(mcp.HeaderMethod)]++
	nonce := strings.Trim(part[3], "[]")
	good := l.nonces[nonce]
	delete(l.nonces, nonce)
	l.n++
	next := fmt.Sprintf("nonce-%d", l.n)
	l.nonces[next] = true
	w.Header().Set("DPoP-Nonce", next)
	if !good || !l.content {
		w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// times returns how many requests of a method came.
func (l *lock) times(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[method]
}

// Servers of all transports require a separate proof for every request: messages, streams
// and the end of a session.
func TestEveryRequestIsProven(t *testing.T) {
	for name, tt := range map[string]struct {
		era       mcp.Era
		transport Transport
		methods   []string
	}{
		"modern":     {mcp.Modern, Streamable, []string{"POST " + mcp.MethodToolsCall, "POST " + mcp.MethodListen}},
		"streamable": {mcp.Legacy, Streamable, []string{"POST ", "GET ", "DELETE "}},
		"sse":        {mcp.Legacy, SSE, []string{"POST ", "GET "}},
	} {
		t.Run(name, func(t *testing.T) {
			f, l, k := newFake(t, tt.era), newLock(t), &keyed{}
			if tt.transport == SSE {
				f.oldSSE(nil)
			}
			f.guard = l.guard
			spec := f.spec()
			spec.Transport = tt.transport
			r := run(t, spec, func(o *Options) { o.Credential = k })
			r.state(mcp.Ready)
			for i := range 3 {
				r.call(tool("echo", fmt.Sprintf(`{"n":%d}`, i)))
			}
			r.end()
			for _, method := range tt.methods {
				if l.times(method) == 0 {
					t.Errorf("there was no %q", method)
				}
			}
			if n := len(f.requests(mcp.MethodToolsCall)); n != 3 {
				t.Errorf("%d calls were run, want 3", n)
			}
			if n := k.refused.Load(); n != 0 {
				t.Errorf("%d refusals were of the token", n)
			}
		})
	}
}

// 50 concurrent calls share a nonce that is good for one of them. Each is run once and
// sent at most twice.
func TestNoncesUnderLoad(t *testing.T) {
	f, l, k := newFake(t, mcp.Modern), newLock(t), &keyed{}
	f.guard = l.guard
	r := run(t, f.spec(), func(o *Options) { o.Credential = k })
	r.state(mcp.Ready)
	const calls = 50
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			if answer, err := r.Call(t.Context(), tool("echo", fmt.Sprintf(`{"n":%d}`, i))); err != nil || answer.Fault != nil {
				t.Errorf("call %d: %v, %v", i, err, answer.Fault)
			}
		})
	}
	all.Wait()
	if n, sent := len(f.requests(mcp.MethodToolsCall)), l.times("POST "+mcp.MethodToolsCall); n != calls || sent > 2*calls {
		t.Errorf("%d calls were run and %d sent, want %d and twice as many at most", n, sent, calls)
	}
}

// A server wants another nonce with every request. A call is sent twice, is not run, and
// fails as one whose login is not accepted.
func TestNonceLoops(t *testing.T) {
	f, l, k := newFake(t, mcp.Modern), newLock(t), &keyed{}
	f.guard = l.guard
	r := run(t, f.spec(), func(o *Options) { o.Credential = k })
	r.state(mcp.Ready)
	l.mu.Lock()
	l.content = false
	l.mu.Unlock()
	failure := r.fails(tool("echo", `{}`))
	if failure.Kind != mcp.FailLogin || !strings.Contains(failure.Reason, "another nonce") {
		t.Errorf("%s: %s", failure.Kind, failure.Reason)
	}
	if n, sent := len(f.requests(mcp.MethodToolsCall)), l.times("POST "+mcp.MethodToolsCall); n != 0 || sent != 2 {
		t.Errorf("the call was sent %d times and run %d times, want 2 and none", sent, n)
	}
}

// Configured headers that name the scheme themselves are sent as they are.
func TestStaticHeadersNeedNoProof(t *testing.T) {
	f := newFake(t, mcp.Modern)
	spec := f.spec()
	spec.Headers = map[string]string{"Authorization": "DPoP of-the-file", "DPoP": "also"}
	r := run(t, spec)
	r.state(mcp.Ready)
	r.call(tool("echo", `{}`))
	for _, got := range f.requests(mcp.MethodToolsCall) {
		if got.Header.Get("Authorization") != "DPoP of-the-file" || got.Header.Get("Dpop") != "also" {
			t.Errorf("sent %v", got.Header)
		}
	}
}
