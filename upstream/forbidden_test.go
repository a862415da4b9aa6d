package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// narrowRights is a credential with which not everything may be done.
type narrowRights struct{}

func (narrowRights) Error() string    { return "this needs more rights" }
func (narrowRights) NeedsLogin() bool { return true }

func (narrowRights) Headers(context.Context, string) (http.Header, error) { return http.Header{}, nil }
func (narrowRights) Key(string) string                                    { return "narrow" }

func (c narrowRights) Refused(_ context.Context, _ string, _ http.Header, status int, _ http.Header) (bool, error) {
	return false, c
}

// A tool needs more rights than there are. Its calls are refused. Calls of the other tool
// go on over the same connection, and the lists are not read again.
func TestForbiddenCallsAreRefusedAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		era       mcp.Era
		transport Transport
	}{
		"modern": {mcp.Modern, Streamable}, "streamable": {mcp.Legacy, Streamable}, "sse": {mcp.Legacy, SSE},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tt.era)
			f.offer("admin", "echo")
			if tt.transport == SSE {
				f.oldSSE(nil)
			}
			f.guard = func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"name":"admin"`)) {
					w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="admin"`)
					w.WriteHeader(http.StatusForbidden)
				}
			}
			spec := f.spec()
			spec.Transport = tt.transport
			r := run(t, spec, func(o *Options) { o.Credential = narrowRights{} })
			r.state(mcp.Ready)
			before, lists := r.own(), len(f.requests(mcp.MethodToolsList))
			for range 3 {
				_, err := r.Call(t.Context(), tool("admin", `{}`))
				if failure, ok := errors.AsType[*mcp.Failure](err); !ok || failure.Kind != mcp.FailLogin || failure.Delivered {
					t.Errorf("the call that needs more is answered %v", err)
				}
				r.call(tool("echo", `{"n":1}`))
			}
			if _, status := r.Listing(); status.State != mcp.Ready || r.own() != before {
				t.Errorf("the server is %s", status.State)
			}
			if n := len(f.requests(mcp.MethodToolsList)); n != lists {
				t.Errorf("the tools were listed %d times more", n-lists)
			}
		})
	}
}

// A list needs more rights than there are. The other lists are read over the same
// connection.
func TestForbiddenListsAreLeftOutAlone(t *testing.T) {
	t.Parallel()
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, era)
			f.guard = func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"`+mcp.MethodResources+`"`)) {
					w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="files"`)
					w.WriteHeader(http.StatusForbidden)
				}
			}
			spec := f.spec()
			spec.Transport = Streamable
			r := run(t, spec, func(o *Options) { o.Credential = narrowRights{} })
			if reason := r.state(mcp.Degraded); !strings.Contains(reason, "resources/list: this needs more rights") {
				t.Errorf("the server is degraded because of %q", reason)
			}
			if got := r.tools(); !slices.Equal(got, []string{"echo"}) {
				t.Errorf("the tools are %q", got)
			}
			r.call(tool("echo", `{}`))
			if n := len(f.requests(mcp.MethodInitialize)); era == mcp.Legacy && n != 1 {
				t.Errorf("%d sessions were opened", n)
			}
		})
	}
}
