package upstream

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// changing is a credential that is another one after each refusal, with a header by
// which net/http would send requests again.
type changing struct{ refused atomic.Int64 }

func (c *changing) Headers(context.Context, string) (http.Header, error) {
	token := "Bearer old"
	if c.refused.Load() > 0 {
		token = "Bearer new"
	}
	return http.Header{"Authorization": {token}, "Idempotency-Key": {"1"}, "X-Idempotency-Key": {"1"}}, nil
}

func (*changing) Key(string) string { return "changing" }

func (c *changing) Refused(context.Context, string, http.Header, int, http.Header) (bool, error) {
	c.refused.Add(1)
	return true, nil
}

// Neither a request nor its repetition with another token has the headers that make
// net/http repeat it.
func TestNothingIsSentAgainByTheLibrary(t *testing.T) {
	f, c := newFake(t, mcp.Modern), &changing{}
	f.guard = func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if len(r.Header.Values(name)) > 0 {
				t.Errorf("%s with %q carries %s", r.Method, r.Header.Get("Authorization"), name)
			}
		}
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	r := run(t, f.spec(), func(o *Options) { o.Credential = c })
	r.state(mcp.Ready)
	r.call(tool("echo", `{}`))
	if c.refused.Load() == 0 {
		t.Error("nothing was sent a second time")
	}
}
