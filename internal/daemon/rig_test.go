//go:build !windows

package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-test.fuzzworker") { // runs no gateway
		os.Exit(m.Run())
	}
	if file := os.Getenv(guardVar); file != "" {
		playGuard(file) // until the gateway ends it
	}
	testwait.AtOnce(8, 24)
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the PostgreSQL of the tests:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// postgres is the PostgreSQL server of all tests.
var postgres storetest.Server

const patience = daemontest.Patience

type servers = daemontest.Servers

var sum, withKeys = daemontest.KeyHash, daemontest.WithKeys

func fake(args ...string) map[string]any { return daemontest.Fake(args...) }

// home is a folder with the configuration file of a gateway.
type home struct {
	*daemontest.Home
	dir, file string
}

func newHome(t testing.TB) *home {
	t.Helper()
	h := daemontest.NewHome(t)
	return &home{h, h.Dir, h.File}
}

func (h *home) path(name string) string { return h.Path(name) }

func (h *home) write(t testing.TB, s servers, toolgate map[string]any) {
	t.Helper()
	h.Write(t, s, toolgate)
}

func (h *home) writeText(t *testing.T, text string) {
	t.Helper()
	h.WriteText(t, text)
}

// running is a gateway of a home, with its parts.
type running struct {
	*daemontest.Running
	daemon.Parts
}

func (h *home) newRunning(t testing.TB) *running {
	t.Helper()
	r := daemontest.Run(t, h.Home)
	return &running{r, r.Daemon.Parts()}
}

func (r *running) settle(t testing.TB) {
	t.Helper()
	r.Running.Settle(t)
}

// client returns a client that the gateway takes for the owner of the key in the
// environment.
func (r *running) client(t *testing.T) *lineclient.Client {
	t.Helper()
	return r.Client(t, os.Getenv("TOOLGATE_API_KEY"))
}

func alive(pid int) bool { return daemontest.Alive(pid) }

func (h *home) text(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// response is what a client got.
type response struct {
	status int
	header http.Header
	body   string
}

// challenge returns a parameter of the challenge.
func (r *response) challenge(name string) string {
	_, rest, ok := strings.Cut(r.header.Get("WWW-Authenticate"), name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return value
}

func modernRequest(method, name, params string) (body string, headers []string) {
	body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%q:%q,%q:{}}}}`,
		method, params, mcp.MetaVersion, mcp.LatestModern, mcp.MetaCapabilities)
	headers = []string{mcp.HeaderVersion, string(mcp.LatestModern), mcp.HeaderMethod, method}
	if name != "" {
		headers = append(headers, mcp.HeaderName, name)
	}
	return body, headers
}

const legacyInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// modernServer is a server of 2026-07-28 over HTTP with one tool, given by its definition. call
// returns the result of a call of it; what is empty it has answered itself, or does not answer.
func modernServer(t testing.TB, tool string, call func(w http.ResponseWriter, r *http.Request, m *mcp.Message) (result string)) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a server notices that a client has gone once it has read everything
		m, err := mcp.Parse(body, mcp.Limits{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete"}`
		switch m.Method {
		case mcp.MethodDiscover:
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":60000,"cacheScope":"private"}`
		case mcp.MethodToolsList:
			result = `{"resultType":"complete","tools":[` + tool + `],"ttlMs":60000,"cacheScope":"private"}`
		case mcp.MethodToolsCall:
			if result = call(w, r, &m); result == "" {
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(mcp.AppendResult(nil, m.ID, []byte(result)))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
