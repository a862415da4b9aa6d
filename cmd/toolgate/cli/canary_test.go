//go:build e2e && !windows

package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolgate/toolgate/internal/fakeserver"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// canaries are secrets by what they are. Each is longer than anything that is too
// short to be looked for, and some hold what is written differently elsewhere.
var canaries = map[string]string{
	"env":      `canary-env-"quoted\\ö<&>-0001`,
	"header":   "canary-header-0002",
	"query":    "canary-query-0003",
	"key":      "canary-api-key-0004",
	"jwt":      "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.Y2FuYXJ5LTAwMDU",
	"feedback": "canary-feedback-secret-0006-" + strings.Repeat("s", 16),
	"otlp":     "canary-otlp-header-0007",
	"tool":     "canary-declared-0008",
	"argument": "canary-argument-0009",
	"result":   "canary-result-0010",
	"shape":    "ghp_" + strings.Repeat("Canary", 6),
	"command":  "canary-command-0011",
	"userinfo": "canary-userinfo%2B0012",
	"webhook":  "canary-webhook-secret-0013-" + strings.Repeat("w", 16),
	"issuer":   "canary-issuer-secret-0014",
	"opaque":   "canary-opaque-token-0015",
	"basic":    base64.StdEncoding.EncodeToString([]byte("gw:canary-issuer-secret-0014")), // as it is sent
}

// watch looks for canaries.
type watch struct {
	t       *testing.T
	secrets map[string]string
	looked  int
}

// look searches a text for all canaries but those that belong there.
func (w *watch) look(where string, text []byte, belong ...string) {
	w.t.Helper()
	w.looked++
	for name, secret := range w.secrets {
		if slices.Contains(belong, name) {
			continue
		}
		quoted := string(mcp.Quote(secret))
		for _, spelling := range []string{secret, quoted[1 : len(quoted)-1]} {
			if at := bytes.Index(text, []byte(spelling)); at >= 0 {
				w.t.Errorf("%s has the secret %s: %q", where, name, text[max(0, at-120):min(len(text), at+len(spelling)+20)])
			}
		}
	}
}

// folder looks through every file of a folder.
func (w *watch) folder(dir string, skip ...string) {
	w.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || slices.Contains(skip, filepath.Base(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) { // files of the store come and go
			return nil
		}
		w.look(path, text)
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}

// receiver keeps all that it is sent.
func receiver(t *testing.T) (url string, got func() []byte) {
	t.Helper()
	var mu sync.Mutex
	var all []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(append(all, body...), '\n')
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// tellingServers are a server whose tools fail with what they were sent, and one that
// answers every request so.
func tellingServers(t *testing.T) (tells, broken string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "tells", Version: "1"}, nil)
	empty := map[string]any{"type": "object"}
	server.AddTool(&sdk.Tool{Name: "result", InputSchema: empty}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: canaries["result"]}}}, nil
	})
	server.AddTool(&sdk.Tool{Name: "error", InputSchema: empty}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, fmt.Errorf("refused %v with %s", r.Extra.Header, canaries["shape"])
	})
	good := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(good.Close)
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid", error_description="`+r.URL.String()+` `+r.Header.Get("X-Key")+`"`)
		http.Error(w, fmt.Sprintf("failed: %s %v", r.URL, r.Header), http.StatusInternalServerError)
	}))
	t.Cleanup(bad.Close)
	return good.URL, bad.URL
}

// tellingIssuer is an issuer of tokens, and one that is asked about them: it knows
// one, and answers with all that it was sent; about others it fails.
func tellingIssuer(t *testing.T) (issuer *authority, introspection string) {
	t.Helper()
	issuer = newAuthority(t, "i1")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("token") != canaries["opaque"] {
			http.Error(w, fmt.Sprintf("failed: %v %v", r.Header, r.Form), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(issuer.claims("https://gw.example", map[string]any{
			"iss": "https://issuer.example", "active": true, "client_id": "ide", "sent": r.Header, "form": r.Form,
		}))
	}))
	t.Cleanup(s.Close)
	return issuer, s.URL
}

// control asks everything that can be asked on the control side, without a token,
// with one, and with bodies and parameters that are refused.
func (w *watch) control(client *http.Client, url, token string) {
	w.t.Helper()
	files, err := filepath.Glob("../../../internal/admin/*.go")
	if err != nil {
		w.t.Fatal(err)
	}
	asked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, route := range regexp.MustCompile(`mux\.HandleFunc\("(GET|POST) (/v1/[^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			asked++
			path := strings.NewReplacer("{id}", "none", "{name}", "none").Replace(route[2])
			w.request(client, route[1], url+path, "", "")
			w.request(client, route[1], url+path, "wrong", "{}")
			for query, body := range map[string]string{
				"?server=prints&name=prints__pid&tool=pid&mode=NONE&limit=1000&q=tool~_": "{",
				"?server=broken&name=broken__x&limit=x&q=%25&since=x&state=x&reason=x":   `{"name":"x"}`,
			} {
				w.request(client, route[1], url+path+query, token, body)
			}
		}
	}
	if asked < 30 {
		w.t.Errorf("%d routes were found", asked)
	}
}

// request looks at the raw answer of the control side.
func (w *watch) request(client *http.Client, method, url, token, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Toolgate-Token", token)
	resp, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := httputil.DumpResponse(resp, true)
	if err != nil {
		w.t.Error(err)
	}
	if token != w.secrets["admin token"] && resp.StatusCode != http.StatusUnauthorized && r.URL.Path != "/v1/stdio" { // which is on the socket alone
		w.t.Errorf("%s %s without the token: %s", method, url, resp.Status)
	}
	w.look(method+" "+url, raw)
}

// Secrets of every kind go through a gateway with everything switched on, past
// servers that print and tell them, and stand nowhere but where they belong.
func TestCanaries(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	traces, traced := receiver(t)
	hook, hooked := receiver(t)
	tells, broken := tellingServers(t)
	issuer, introspection := tellingIssuer(t)
	for name, secret := range canaries {
		h.env["CANARY_"+strings.ToUpper(name)] = secret
	}
	metrics, control := testport.Address(t), testport.Address(t)
	h.env["TOOLGATE_LISTEN_METRICS"] = metrics
	started := func(name string) string { return `env >>environ-` + name + `.txt; ` }
	h.write(t, servers{
		"prints": {"command": "/bin/sh", "args": []any{"-c", started("prints") + `printf '%s\n' "it is $API_TOKEN" >&2; exec ` + os.Args[0] + ` ` + fakeserver.Command + ` prints`}, "env": map[string]any{"API_TOKEN": "${CANARY_ENV}"}},
		"dies":   {"command": "/bin/sh", "args": []any{"-c", started("dies") + `printf '%s\n' "no use: $API_TOKEN" >&2; exit 3`}, "env": map[string]any{"API_TOKEN": "${CANARY_ENV}"}},
		"other":  {"command": "/bin/sh", "args": []any{"-c", started("other") + `exec ` + os.Args[0] + ` ` + fakeserver.Command + ` other`}},
		"tells":  {"url": tells + "/?api_key=${CANARY_QUERY}", "headers": map[string]any{"X-Key": "${CANARY_HEADER}"}},
		"broken": {"url": strings.Replace(broken, "http://", "http://me:${CANARY_USERINFO}@", 1) + "/?api_key=${CANARY_QUERY}", "headers": map[string]any{"X-Key": "${CANARY_HEADER}"}},
		"closed": {"url": "http://127.0.0.1:1/?api_key=${CANARY_QUERY}", "headers": map[string]any{"X-Key": "${CANARY_HEADER}"}},
	}, map[string]any{
		"auth": map[string]any{
			"keys": []any{map[string]any{"id": "one", "subject": "me", "sha256": sum(canaries["key"])}},
			"jwt":  []any{map[string]any{"issuer": issuer.issuer, "audience": "https://gw.example"}},
			// It tells what it was sent, whether it judges by it or fails.
			"introspection": map[string]any{"endpoint": introspection + "/introspect", "client_id": "gw", "client_secret": "${CANARY_ISSUER}", "issuer": "https://issuer.example", "audience": "https://gw.example"},
		},
		"gate":      map[string]any{"open": true},
		"listen":    map[string]any{"admin": control},
		"log":       map[string]any{"level": "debug"},
		"audit":     map[string]any{"mode": "required", "decision_inputs": true},
		"telemetry": map[string]any{"otlp": traces, "sample": 1, "headers": map[string]any{"X-Key": "${CANARY_OTLP}"}},
		"feedback":  map[string]any{"webhook": hook, "secret": "${CANARY_FEEDBACK}"},
		"tools": []any{
			map[string]any{"name": "web", "type": "http", "url": broken + "/x", "headers": map[string]any{"X-Key": "${CANARY_TOOL}"}, "query": map[string]any{"token": "${CANARY_TOOL}"}},
			map[string]any{"name": "closed", "type": "http", "url": "http://127.0.0.1:1/x", "query": map[string]any{"token": "${CANARY_TOOL}"}},
			map[string]any{"name": "run", "type": "command", "sandbox": "auto", "args": []any{"sh", "-c", `env >&2; echo "with $MY_TOKEN" >&2; exit 4`}, "env": map[string]any{"MY_TOKEN": "${CANARY_COMMAND}"}},
		},
	})
	good := issuer.token(t, "i1", "https://gw.example", nil)
	expired := issuer.token(t, "i1", "https://gw.example", map[string]any{"exp": 1})
	w := &watch{t: t, secrets: maps.Clone(canaries)}
	for name, token := range map[string]string{"good": good, "expired": expired} {
		w.secrets["token "+name] = token[strings.LastIndexByte(token, '.')+1:] // what it is worth nothing without
	}
	p, url := h.up(t)
	client := newClient(t)
	call := func(key, tool, args string, belong ...string) string {
		t.Helper()
		quoted, _ := json.Marshal(tool)
		_, body := post(t, client, url, key, mcp.MethodToolsCall, tool, `"name":`+string(quoted)+`,"arguments":`+args+`,`)
		w.look("the answer of "+tool, body, belong...)
		return string(body)
	}
	key, argument := canaries["key"], `{"text":"`+canaries["argument"]+`"}`
	for _, tool := range []string{"prints__pid", "prints__fail", "prints__fault", "other__pid", "dies__pid", "broken__x", "closed__x", "none__x"} {
		call(key, tool, argument)
	}
	call(key, "prints__echo", argument, "argument", "env") // a result is the caller's
	call(key, "tells__result", argument, "result")
	call(key, "tells__error", argument, "header", "shape", "query", "jwt") // so is the error that a tool answers
	call(key, canaries["shape"], argument, "shape")                        // which the caller wrote
	call(key, "tells__"+canaries["shape"], argument, "shape")
	call(key, "tools__web", `{}`, "tool")
	call(key, "tools__closed", `{}`)
	if got := call(key, "tools__run", `{}`, "command"); !strings.Contains(got, "PATH=") || strings.Contains(got, "CANARY_") {
		t.Errorf("the environment of a command: %s", got)
	}
	call(canaries["jwt"], "other__pid", argument)
	call("tgk_"+canaries["argument"], "other__pid", argument)
	call(expired, "other__pid", argument)
	for _, token := range []string{good, canaries["opaque"]} {
		if code, body := post(t, client, url, token, mcp.MethodToolsCall, "other__pid", `"name":"other__pid","arguments":{},`); code != http.StatusOK || !bytes.Contains(body, []byte(`"result"`)) {
			t.Errorf("a token that holds good: %d %s", code, body)
		}
		call(token, "none__x", argument)
		call(token, "tells__error", argument, "header", "shape", "query")
	}
	post(t, client, url, key, "resources/read", "file:///"+canaries["shape"], `"uri":"file:///`+canaries["shape"]+`",`)

	h.env["TOOLGATE_API_KEY"] = key
	for _, args := range [][]string{
		{"ls"},
		{"ls", "-o", "json"},
		{"ls", "-o", "wide"},
		{"status"},
		{"status", "-o", "json"},
		{"config", "show"},
		{"validate"},
		{"doctor"},
		{"doctor", "-o", "json"},
		{"reload"},
		{"mode"},
		{"approvals", "ls"},
		{"catalog", "ls"},
		{"budget", "ls"},
		{"breaker", "ls"},
		{"usage"},
		{"lint"},
		{"why", "prints__pid"},
		{"why", "broken__x"},
		{"logs", "prints"},
		{"logs", "dies"},
		{"logs", "broken"},
		{"tools"},
	} {
		o := h.run(t, append(args, "--config", h.file)...)
		w.look("toolgate "+strings.Join(args, " "), []byte(o.stdout+o.stderr))
	}
	resp, err := client.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Contains(text, []byte("tool_execution_total")) {
		t.Errorf("the metrics: %v", err)
	}
	w.look("the metrics", text)
	token := strings.TrimSpace(h.text(t, h.stateFile(t, "admin.token")))
	w.secrets["admin token"], w.secrets["sealing key"] = token, strings.TrimSpace(h.text(t, h.stateFile(t, "seal.key")))
	w.control(client, "http://"+control, token)
	w.children(p.cmd.Process.Pid)
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, args := range [][]string{
		{"audit", "search", "--limit", "0", "-o", "json"},
		{"audit", "search", "-o", "wide"},
		{"audit", "tail", "-o", "yaml"},
		{"audit", "verify", "-o", "json"},
		{"audit", "export"},
		{"audit", "export", "--format", "csv"},
		{"audit", "export", "--format", "ocsf"},
		{"audit", "show", strings.Fields(h.ok(t, "audit", "search", "--file", h.file, "-o", "name"))[0]},
	} {
		o := h.run(t, append(args, "--file", h.file)...)
		if o.code != exitOK {
			t.Errorf("toolgate %v: %+v", args, o)
		}
		w.look("toolgate "+strings.Join(args, " "), []byte(o.stdout+o.stderr))
	}
	if !strings.Contains(p.err.String(), "/introspect") {
		t.Error("nobody was asked about a token")
	}
	w.look("the log", []byte(p.err.String()))
	w.look("what it printed", []byte(p.out.String()))
	w.look("the traces", traced())
	w.look("the executions", hooked())
	// A child has what it is given, and nothing else that the gateway has.
	for name, belongs := range map[string]string{"prints": "env", "dies": "env", "other": ""} {
		text := h.text(t, h.path("environ-"+name+".txt"))
		w.look("the environment of "+name, []byte(text), belongs)
		if !strings.Contains(text, "PATH=") || strings.Contains(text, "CANARY_") || !strings.Contains(text, w.secrets[belongs]) {
			t.Errorf("the environment of %s: %s", name, text)
		}
	}
	w.folder(h.env["TOOLGATE_STATE"], "admin.token", "seal.key")
	if len(traced()) == 0 || len(hooked()) == 0 || w.looked < 50 {
		t.Errorf("%d places were looked at, %d bytes of traces, %d of executions", w.looked, len(traced()), len(hooked()))
	}
}

// The passwords of stores, the token of SpiceDB and the secret of questions are told
// by none of the commands that fail because of them.
func TestCanariesOfStores(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]any{
		"postgres": {"store": "postgres://me:${CANARY_USERINFO}@127.0.0.1:1/x?sslmode=disable"},
		"redis":    {"redis": "redis://me:${CANARY_USERINFO}@127.0.0.1:1/0"},
		"spicedb":  {"spicedb": map[string]any{"endpoint": "127.0.0.1:1", "token": "${CANARY_HEADER}", "tls": map[string]any{"insecure": true}}},
		"webhook":  {"approvals": map[string]any{"webhook": map[string]any{"url": "http://127.0.0.1:1/x?token=${CANARY_QUERY}", "secret": "${CANARY_WEBHOOK}"}}},
		"otlp":     {"telemetry": map[string]any{"otlp": "http://me:${CANARY_USERINFO}@127.0.0.1:1", "headers": map[string]any{"X-Key": "${CANARY_OTLP}"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			for name, secret := range canaries {
				h.env["CANARY_"+strings.ToUpper(name)] = secret
			}
			h.write(t, servers{"a": fake("one")}, settings)
			w := &watch{t: t, secrets: canaries}
			for _, args := range [][]string{{"validate", h.file}, {"config", "show", "--config", h.file}, {"doctor", "--config", h.file}, {"call", "a__pid", "--file", h.file}, {"audit", "verify", "--file", h.file}, {"status", "--config", h.file}} {
				o := h.run(t, args...)
				w.look(fmt.Sprint(args), []byte(o.stdout+o.stderr))
			}
			p := h.start(t, "up", h.file, "-v")
			testwait.Until(t, patience, "it serves or has ended", func() bool {
				select {
				case <-p.ended:
					return true
				default:
					return strings.Contains(p.out.String(), "ready ")
				}
			})
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			p.wait(t)
			w.look("up", []byte(p.out.String()+p.err.String()))
			w.folder(h.env["TOOLGATE_STATE"])
		})
	}
}
