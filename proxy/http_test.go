package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// code returns the error code and the id of a JSON-RPC refusal. The test fails when the
// body is not a strict JSON-RPC message.
func code(t *testing.T, w *recorder) (code, id string) {
	t.Helper()
	if got := w.field("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q, want application/json", got)
	}
	body := []byte(w.text())
	if err := mcp.Validate(body, mcp.Limits{}); err != nil {
		t.Fatalf("the body is not JSON: %v: %s", err, body)
	}
	if v, _ := mcp.LookupString(body, "jsonrpc"); v != "2.0" {
		t.Errorf("the body is not a JSON-RPC: %s", body)
	}
	return string(mcp.Lookup(body, "error", "code")), string(mcp.Lookup(body, "id"))
}

func TestHTTPRefusals(t *testing.T) {
	list := modernBody("1", "tools/list", "", "")
	call := modernBody("1", "tools/call", `"name":"s__echo","arguments":{"n":1}`, "")
	version := func(v string) string { return strings.ReplaceAll(list, "2026-07-28", v) }
	capabilities := func(raw string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + raw + `}}}`
	}
	tests := []struct {
		name    string
		body    string
		headers []string // added to those of a valid request
		status  int
		code    string
		id      string
	}{
		// 1. The sender and the form.
		{"another host", list, []string{"Host", "evil.example"}, 403, "-32600", "null"},
		{"another host with our port", list, []string{"Host", "evil.example:8080"}, 403, "-32600", "null"},
		{"a host that begins like ours", list, []string{"Host", "127.0.0.1.evil.example"}, 403, "-32600", "null"},
		{"localhost as a label", list, []string{"Host", "localhost.evil.example"}, 403, "-32600", "null"},
		{"no host", list, []string{"Host", ""}, 403, "-32600", "null"},
		{"host and origin at once", list, []string{"Host", "evil.example", "Origin", "http://127.0.0.1"}, 403, "-32600", "null"},
		{"origin null", list, []string{"Origin", "null"}, 403, "-32600", "null"},
		{"origin evil", list, []string{"Origin", "https://evil.example"}, 403, "-32600", "null"},
		{"origin with user", list, []string{"Origin", "http://127.0.0.1@evil.example"}, 403, "-32600", "null"},
		{"origin with path", list, []string{"Origin", "http://127.0.0.1/x"}, 403, "-32600", "null"},
		{"origin of another scheme", list, []string{"Origin", "file://localhost"}, 403, "-32600", "null"},
		{"origin with a port that is none", list, []string{"Origin", "http://127.0.0.1:7777.evil.example"}, 403, "-32600", "null"},
		{"origin with port 0", list, []string{"Origin", "http://127.0.0.1:0"}, 403, "-32600", "null"},
		{"origin with port 99999", list, []string{"Origin", "http://127.0.0.1:99999"}, 403, "-32600", "null"},
		{"host with a port that is none", list, []string{"Host", "127.0.0.1:7777.evil.example"}, 403, "-32600", "null"},
		{"origin of another page of this machine", list, []string{"Origin", "http://localhost:5173"}, 403, "-32600", "null"},
		{"two origins", list, []string{"Origin", "http://127.0.0.1", "Origin", "http://127.0.0.1"}, 403, "-32600", "null"},
		{"no token", list, []string{"Authorization", ""}, 401, "-32600", "null"},
		{"bad token", list, []string{"Authorization", "Bearer mallory"}, 401, "-32600", "null"},
		{"content type of a form", list, []string{"Content-Type", "text/plain"}, 415, "-32600", "null"},
		{"no content type", list, []string{"Content-Type", ""}, 415, "-32600", "null"},
		{"two content types", list, []string{"Content-Type", "application/json, text/plain"}, 415, "-32600", "null"},
		{"too large", `"` + strings.Repeat("a", 4096) + `"`, nil, 413, "-32600", "null"},
		{"accepts JSON alone", list, []string{"Accept", "application/json"}, 400, "-32600", "null"},
		{"accepts events alone", list, []string{"Accept", "text/event-stream"}, 400, "-32600", "null"},
		{"accepts pages", list, []string{"Accept", "text/html"}, 400, "-32600", "null"},

		// 3. The envelope.
		{"no JSON", "{", nil, 400, "-32700", "null"},
		{"nothing", "", nil, 400, "-32700", "null"},
		{"two messages", list + list, nil, 400, "-32700", "null"},
		{"bad UTF-8", strings.Replace(list, "tools/list", "tools/\xff", 1), nil, 400, "-32700", "1"},
		{"name given twice", strings.Replace(call, `"name":`, `"name":"x","name":`, 1), nil, 400, "-32700", "1"},
		{"nested key given twice", strings.Replace(call, `"n":1`, `"n":{"a":1,"\u0061":2}`, 1), nil, 400, "-32700", "1"},
		{"id given twice", strings.Replace(list, `"id":1`, `"id":1,"id":2`, 1), nil, 400, "-32700", "null"},
		{"nested too deep", strings.Replace(call, `"n":1`, `"n":`+strings.Repeat("[", 40)+strings.Repeat("]", 40), 1), nil, 400, "-32700", "null"},
		{"Name", strings.Replace(call, `"name":`, `"Name":`, 1), nil, 400, "-32600", "1"},
		{"id null", strings.Replace(list, `"id":1`, `"id":null`, 1), nil, 400, "-32600", "null"},
		{"id 1.0", strings.Replace(list, `"id":1`, `"id":1.0`, 1), nil, 400, "-32600", "null"},
		{"id true", strings.Replace(list, `"id":1`, `"id":true`, 1), nil, 400, "-32600", "null"},
		{"a batch", "[" + list + "]", nil, 400, "-32600", "null"},
		{"an empty batch", "[]", nil, 400, "-32600", "null"},
		{"a text", `"x"`, nil, 400, "-32600", "null"},
		{"JSON-RPC 1", strings.Replace(list, `"2.0"`, `"1.0"`, 1), nil, 400, "-32600", "1"},
		{"params as a list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, nil, 400, "-32600", "1"},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{}}}`, nil, 400, "-32600", "null"},

		// 4. The era and the client's description of itself.
		{"version header missing", list, []string{"Mcp-Protocol-Version", ""}, 400, "-32020", "1"},
		{"version header of another era", list, []string{"Mcp-Protocol-Version", "2025-11-25"}, 400, "-32020", "1"},
		{"version header twice", list, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Protocol-Version", "2026-07-28"}, 400, "-32020", "1"},
		{"version header in base64", list, []string{"Mcp-Protocol-Version", "=?base64?MjAyNi0wNy0yOA==?="}, 400, "-32020", "1"},
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, "-32602", "1"},
		{"empty _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}`, nil, 400, "-32602", "1"},
		{"_meta is not an object", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":3}}`, nil, 400, "-32602", "1"},
		{"version is a number", strings.Replace(list, `"2026-07-28"`, "2026", 1), nil, 400, "-32602", "1"},
		{"no capabilities", capabilities(""), nil, 400, "-32602", "1"},
		{"capabilities null", capabilities(`,"io.modelcontextprotocol/clientCapabilities":null`), nil, 400, "-32602", "1"},
		{"capabilities as a list", capabilities(`,"io.modelcontextprotocol/clientCapabilities":[]`), nil, 400, "-32602", "1"},
		{"log level unknown", capabilities(`,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"`), nil, 400, "-32602", "1"},
		{"log level no text", capabilities(`,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":7`), nil, 400, "-32602", "1"},

		// 5. Versions and methods.
		{"version to come", version("2099-01-01"), []string{"Mcp-Protocol-Version", "2099-01-01"}, 400, "-32022", "1"},
		{"version of the past", version("2025-11-25"), []string{"Mcp-Protocol-Version", "2025-11-25"}, 400, "-32022", "1"},
		{"unknown method", modernBody(`"x"`, "tools/fly", "", ""), []string{"Mcp-Method", "tools/fly"}, 404, "-32601", `"x"`},
		{"initialize", modernBody("1", "initialize", "", ""), []string{"Mcp-Method", "initialize"}, 404, "-32601", "1"},
		{"ping", modernBody("1", "ping", "", ""), []string{"Mcp-Method", "ping"}, 404, "-32601", "1"},
		{"logging/setLevel", modernBody("1", "logging/setLevel", "", ""), []string{"Mcp-Method", "logging/setLevel"}, 404, "-32601", "1"},
		{"resources/subscribe", modernBody("1", "resources/subscribe", "", ""), []string{"Mcp-Method", "resources/subscribe"}, 404, "-32601", "1"},
		{"resources/unsubscribe", modernBody("1", "resources/unsubscribe", "", ""), []string{"Mcp-Method", "resources/unsubscribe"}, 404, "-32601", "1"},
		{"unknown method without its header", modernBody("1", "tools/fly", "", ""), []string{"Mcp-Method", ""}, 404, "-32601", "1"},

		// 6. Headers and body.
		{"method header missing", list, []string{"Mcp-Method", ""}, 400, "-32020", "1"},
		{"method header unequal", list, []string{"Mcp-Method", "tools/call"}, 400, "-32020", "1"},
		{"method header in another case", list, []string{"Mcp-Method", "Tools/List"}, 400, "-32020", "1"},
		{"method header twice", list, []string{"Mcp-Method", "tools/list", "Mcp-Method", "tools/list"}, 400, "-32020", "1"},
		{"name header missing", call, []string{"Mcp-Method", "tools/call"}, 400, "-32020", "1"},
		{"name header unequal", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__other"}, 400, "-32020", "1"},
		{"name header twice", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__echo", "Mcp-Name", "s__echo"}, 400, "-32020", "1"},
		{"name header in bad base64", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "=?base64?%?="}, 400, "-32020", "1"},
		{"name header is the original name", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 400, "-32020", "1"},
		{"param header missing", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__echo"}, 400, "-32020", "1"},
		{"param header unequal", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__echo", "Mcp-Param-Num", "2"}, 400, "-32020", "1"},
		{"param header twice", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__echo", "Mcp-Param-Num", "1", "Mcp-Param-Num", "1"}, 400, "-32020", "1"},
		{"param header without argument", strings.Replace(call, `"n":1`, "", 1), []string{"Mcp-Method", "tools/call", "Mcp-Name", "s__echo", "Mcp-Param-Num", "1"}, 400, "-32020", "1"},

		// Params that the method does not accept: the HTTP request is well-formed.
		{"listen without filter", modernBody("1", "subscriptions/listen", "", ""), []string{"Mcp-Method", "subscriptions/listen"}, 200, "-32602", "1"},
		{"name is a number", modernBody("1", "tools/call", `"name":7`, ""), []string{"Mcp-Method", "tools/call"}, 200, "-32602", "1"},
	}
	b := newScript(t, "s", mcp.Modern, `tool {"name":"echo","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"Num"}}}}`)
	r := newRig(t, mounted(b), func(o *Options, _ *Config) { o.Limits.Body, o.Limits.Depth = 4096, 32 })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			headers := append([]string{}, tt.headers...)
			if !strings.Contains(strings.Join(tt.headers, " "), "Mcp-Method") {
				headers = append(headers, "Mcp-Method", "tools/list")
			}
			if !strings.Contains(strings.Join(tt.headers, " "), "Mcp-Protocol-Version") {
				headers = append(headers, "Mcp-Protocol-Version", "2026-07-28")
			}
			w := r.post(tt.body, headers...)
			gotCode, gotID := code(t, w)
			if w.code() != tt.status || gotCode != tt.code || gotID != tt.id {
				t.Errorf("status %d, code %s, id %s; want %d, %s, %s: %s", w.code(), gotCode, gotID, tt.status, tt.code, tt.id, w.text())
			}
			if strings.Contains(w.text(), "mallory") {
				t.Errorf("the answer repeats the token: %s", w.text())
			}
		})
	}
	if calls := b.seen(""); len(calls) > 0 {
		t.Errorf("%d refused requests reached the server, the first %s", len(calls), calls[0].Params)
	}
}

func TestHTTPAccepts(t *testing.T) {
	call := modernBody("1", "tools/call", `"name":"s__echo","arguments":{"n":10,"s":"é"}`, "")
	all := func(more ...string) []string {
		return append([]string{
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "s__echo",
			"Mcp-Param-Num", "10", "Mcp-Param-Text", "=?base64?w6k=?=",
		}, more...)
	}
	tests := []struct {
		name    string
		headers []string
	}{
		{"as it should be", all()},
		{"name in base64", []string{
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?c19fZWNobw==?=",
			"Mcp-Param-Num", "1e1", "Mcp-Param-Text", "=?base64?w6k=?=",
		}},
		{"content type with charset", all("Content-Type", "application/json; charset=utf-8")},
		{"accept anything", all("Accept", "*/*")},
		{"accept in two headers", all("Accept", "application/json", "Accept", "text/event-stream")},
		{"accept with weights", all("Accept", "application/json;q=0.9, text/*;q=0.1")},
		{"no accept", all("Accept", "")},
		{"localhost", all("Host", "localhost:8080")},
		{"IPv6", all("Host", "[::1]:8080")},
		{"configured host", all("Host", "gate.example")},
		{"own origin", all("Origin", "http://127.0.0.1:8080")},
		{"configured origin of this machine", all("Origin", "http://localhost:6274")},
		{"configured origin", all("Origin", "https://app.example")},
		{"a session id is not looked at", all("Mcp-Session-Id", "whatever", "Last-Event-Id", "9")},
	}
	b := newScript(t, "s", mcp.Modern, `tool {"name":"echo","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"Num"},"s":{"type":"string","x-mcp-header":"Text"}}}}`)
	r := newRig(t, mounted(b), func(o *Options, _ *Config) {
		o.Hosts, o.Origins = []string{"gate.example"}, []string{"https://app.example", "http://localhost:6274"}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := r.post(call, tt.headers...)
			if w.code() != http.StatusOK || !strings.Contains(w.text(), `"result":`) {
				t.Errorf("status %d: %s", w.code(), w.text())
			}
			if w.field("Mcp-Session-Id") != "" {
				t.Error("a modern request was given a session")
			}
		})
	}
}

// Headers that mirror arguments are compared after the gate: a caller who may not view
// a tool must not learn of it from the comparison.
func TestParamHeadersAreNoOracle(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, `tool {"name":"echo","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"Num"}}}}`)
	r := newRig(t, mounted(b), hide("echo"))
	known := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__echo","arguments":{"n":1}`, ""), "Mcp-Param-Num", "2"))
	unknown := r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__ecco","arguments":{"n":1}`, ""), "Mcp-Param-Num", "2"))
	if got, want := known.text(), strings.ReplaceAll(unknown.text(), "ecco", "echo"); got != want || known.code() != unknown.code() {
		t.Errorf("hidden: %d %s\nunknown: %d %s", known.code(), got, unknown.code(), want)
	}
}

func TestForeignParamHeaders(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, `tool {"name":"echo","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"Num"}}}}`)
	r := newRig(t, mounted(b))
	r.do(modernRequest(modernBody("1", "tools/call", `"name":"s__echo","arguments":{"n":1}`, ""),
		"Mcp-Param-Num", "1", "Mcp-Param-Other", "kept", "Mcp-Param-Bad", "=?base64?%?=", "X-Other", "no", "Cookie", "no"))
	calls := b.seen("")
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	if h := calls[0].Headers; len(h) != 1 || h.Get("Mcp-Param-Other") != "kept" {
		t.Errorf("the server is sent the headers %v, want Mcp-Param-Other alone", h)
	}
}

func TestPaths(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("echo")), newScript(t, "a b", mcp.Modern, tool("echo"))))
	good := []string{"/mcp", "/mcp?x=1", "/mcp/s/s", "/mcp/s/a%20b"}
	for _, path := range good {
		req := modernRequest(modernBody("1", "tools/list", "", ""))
		req2 := httpRequest(http.MethodPost, path, modernBody("1", "tools/list", "", ""))
		req2.Header = req.Header
		if w := r.do(req2); w.code() != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.code(), w.text())
		}
	}
	bad := []string{
		"//mcp", "/mcp/", "/MCP", "/mcp%2f", "/mcp%2F", "/mcp;x", "/mcp%3bx", "/%6dcp", "/mc%70", "/./mcp", "/x/../mcp", "/mcp//", "/mcp/s",
		"/mcp/s/", "/mcp/s/none", "/mcp/s/s/", "/mcp/S/s", "/mcp%2fs/s", "/mcp/%73/s", "/mcp/s/../s/s", "/SSE", "/sse/", "/%73se", "/message/", "/messag%65", "/debug/pprof/", "/metrics", "/admin",
		"/livez/", "/mcp\x00",
	}
	for _, path := range bad {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			req := modernRequest(modernBody("1", "tools/list", "", ""))
			req.Method = method
			if strings.HasSuffix(path, "\x00") {
				req.URL.Path, req.URL.RawPath = path, "/mcp%00"
			} else {
				u := httpRequest(method, path, "").URL
				req.URL = u
			}
			if w := r.do(req); w.code() != http.StatusNotFound {
				t.Errorf("%s %q: status %d: %s", method, path, w.code(), w.text())
			} else if c, _ := code(t, w); c != "-32600" {
				t.Errorf("%s %q: code %s", method, path, c)
			}
			req.Header.Del("Authorization")
			if w := r.do(req); w.code() != http.StatusUnauthorized {
				t.Errorf("%s %q without a token: status %d", method, path, w.code())
			}
		}
	}
}

// Every endpoint of the protocol requires a token for each request, whatever the
// method. A token anywhere but in its header does not count.
func TestEveryDoorIsLocked(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	r := newRig(t, mounted(b))
	session := r.open()
	for _, path := range []string{"/mcp", "/mcp/s/s", "/sse", "/message", "/message?sessionId=" + session} {
		for _, method := range []string{"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"} {
			for _, query := range []string{"", "access_token=alice"} {
				target := path
				if query != "" {
					target += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + query
				}
				req := httpRequest(method, "/x", request("1", "tools/call", `{"name":"s__echo"}`),
					"Authorization", "", "Mcp-Session-Id", session, "User-Agent", "kube-probe/1.30")
				req.URL = httpRequest("GET", target, "").URL
				w := r.do(req)
				if w.code() != http.StatusUnauthorized || !strings.HasPrefix(w.field("Www-Authenticate"), "Bearer") {
					t.Errorf("%s %s: status %d, challenge %q", method, target, w.code(), w.field("Www-Authenticate"))
				}
				if c, _ := code(t, w); c != "-32600" {
					t.Errorf("%s %s: code %s", method, target, c)
				}
			}
		}
	}
	if w := r.post("x", "Authorization", ""); w.field("Www-Authenticate") != "Bearer" {
		t.Errorf("no token: challenge %q, want no error", w.field("Www-Authenticate"))
	}
	if w := r.post("x", "Authorization", "Bearer mallory"); w.field("Www-Authenticate") != `Bearer error="invalid_token"` {
		t.Errorf("bad token: challenge %q", w.field("Www-Authenticate"))
	}
	if n := len(b.seen("")); n != 0 || r.sessions.count() != 1 {
		t.Errorf("%d calls reached the server, %d sessions are open", n, r.sessions.count())
	}
	if strings.Contains(r.log.String(), "mallory") {
		t.Error("the log has the token")
	}
}

func TestMethodsOfHTTP(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Modern, tool("echo"))))
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/mcp", 405, "POST"},
		{"PUT", "/mcp", 405, "GET, POST, DELETE"},
		{"PATCH", "/mcp", 405, "GET, POST, DELETE"},
		{"HEAD", "/mcp", 405, "GET, POST, DELETE"},
		{"OPTIONS", "/mcp", 405, "GET, POST, DELETE"},
		{"DELETE", "/mcp", 400, ""},
		{"POST", "/sse", 405, "GET"},
		{"HEAD", "/sse", 405, "GET"},
		{"GET", "/message", 405, "POST"},
		{"DELETE", "/message", 405, "POST"},
	}
	for _, tt := range tests {
		w := r.do(httpRequest(tt.method, tt.path, ""))
		if w.code() != tt.status || w.field("Allow") != tt.allow {
			t.Errorf("%s %s: status %d, Allow %q; want %d, %q", tt.method, tt.path, w.code(), w.field("Allow"), tt.status, tt.allow)
		}
		code(t, w)
	}
}

func TestBrowserPreflight(t *testing.T) {
	r := newRig(t, nil, func(o *Options, _ *Config) { o.Origins = []string{"https://app.example"} })
	w := r.do(httpRequest("OPTIONS", "/mcp", "", "Origin", "https://app.example", "Authorization", "",
		"Access-Control-Request-Headers", "content-type, mcp-param-region,Mcp-Param-Zone , x-other"))
	if got := w.field("Access-Control-Allow-Headers"); !strings.HasPrefix(got, "Mcp-Param-Region, Mcp-Param-Zone, Authorization, ") || strings.Contains(got, "X-Other") {
		t.Errorf("headers that a page may send: %s", got)
	}
	if w.code() != http.StatusNoContent || w.field("Access-Control-Allow-Origin") != "https://app.example" || w.field("Vary") != "Origin" {
		t.Errorf("status %d, headers %v", w.code(), w.sent)
	}
	if w.field("Access-Control-Allow-Credentials") != "" {
		t.Error("credentials are allowed to cross origins")
	}
	if w := r.do(httpRequest("OPTIONS", "/mcp", "", "Origin", "https://evil.example")); w.code() != http.StatusForbidden || w.field("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin: status %d, headers %v", w.code(), w.sent)
	}
}

// Forwarding headers of a proxy or an attacker do not change what the gateway says of
// itself.
func TestForwardedHeadersChangeNothing(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("echo"))), func(o *Options, _ *Config) { o.PublicURL = "https://gate.example" })
	evil := []string{
		"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "http", "X-Forwarded-Uri", "/x", "Forwarded", "host=evil.example",
		"X-Original-Url", "/x", "X-Forwarded-User", "bob", "X-Http-Method-Override", "DELETE",
	}
	w := r.do(modernRequest(modernBody("1", "tools/list", "", ""), evil...))
	plain := r.modern("1", "tools/list", "")
	if w.text() != plain.text() || w.code() != plain.code() {
		t.Errorf("with forwarding headers: %s\nwithout: %s", w.text(), plain.text())
	}
	s, cancel := r.begin(httpRequest("GET", "/sse", "", evil...))
	testwait.Until(t, patience, "the stream has its endpoint", func() bool { return strings.Contains(s.text(), "sessionId=") })
	if !strings.HasPrefix(s.text(), "event: endpoint\ndata: https://gate.example/message?sessionId=") {
		t.Errorf("the endpoint is %q", s.text())
	}
	cancel()
}

func TestHealth(t *testing.T) {
	r := newRig(t, nil)
	get := func(path string) (int, string) {
		w := r.do(httpRequest("GET", path, "", "Authorization", "", "Host", "10.0.0.7"))
		return w.code(), w.text()
	}
	if status, text := get("/livez"); status != 200 || text != "ok\n" {
		t.Errorf("/livez: %d %q", status, text)
	}
	if status, text := get("/readyz"); status != 200 || text != "ok\n" {
		t.Errorf("/readyz: %d %q", status, text)
	}
	r.ledger.mu.Lock()
	r.ledger.down = errBoom
	r.ledger.mu.Unlock()
	if status, text := get("/readyz"); status != 503 || text != "audit\n" {
		t.Errorf("/readyz without audit: %d %q", status, text)
	}
	r.stop(errSessionEnded)
	if status, text := get("/readyz"); status != 503 || text != "stopping\n" {
		t.Errorf("/readyz at the end: %d %q", status, text)
	}
}

func TestModernNotification(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("echo"))
	r := newRig(t, mounted(b))
	w := r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Protocol-Version", "2026-07-28")
	if w.code() != http.StatusAccepted || w.text() != "" {
		t.Errorf("status %d, body %q", w.code(), w.text())
	}
}

// Pages of this machine are served where callers authenticate. Otherwise they are
// refused with the setting that allows them.
func TestPagesOfThisMachine(t *testing.T) {
	for _, authenticates := range []bool{false, true} {
		r := newRig(t, nil, func(o *Options, _ *Config) { o.LocalOrigins = authenticates })
		for _, origin := range []string{"http://localhost:5173", "https://127.0.0.1", "http://[::1]:80"} {
			w := r.post(initBody, "Origin", origin)
			if served := w.code() == http.StatusOK; served != authenticates {
				t.Errorf("%s with authentication %v: status %d", origin, authenticates, w.code())
			}
			if !authenticates && (!strings.Contains(w.text(), "listen.origins") || w.field("Access-Control-Allow-Origin") != "") {
				t.Errorf("%s: %s", origin, w.text())
			}
		}
		if w := r.post(initBody, "Origin", "https://evil.example"); w.code() != http.StatusForbidden {
			t.Errorf("another page: status %d", w.code())
		}
	}
}
