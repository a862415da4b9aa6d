package declared

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// TestACheckReachesNothing, whatever it finds, and a tool that is not there is left to the call.
func TestACheckReachesNothing(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the service was reached") })
	b := backend(t, Tool{Input: schema("a"), HTTP: &HTTP{URL: url + "/{a}", Headers: map[string]string{"Authorization": "Bearer canary-of-a-token"}}})
	for args, want := range map[string]string{
		`{"a":"x"}`: "", `{}`: "A is part of a path and must be there", `{"a":"../canary-of-a-token"}`: "may not hold slashes",
	} {
		if got := b.Check(t.Context(), "it", []byte(args)); !strings.Contains(got, want) || (got == "") != (want == "") || strings.Contains(got, "canary") {
			t.Errorf("%s: %q", args, got)
		}
	}
	if got := b.Check(t.Context(), "it", nil); !strings.Contains(got, "must be there") {
		t.Errorf("no arguments: %q", got)
	}
	if got := b.Check(t.Context(), "other", []byte(`{}`)); got != "" {
		t.Errorf("another tool: %q", got)
	}
}

// TestRequests shows what a service gets.
func TestRequests(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s [%s] %s", r.Method, r.RequestURI, r.Header.Get("X-User"), body)
	})
	for name, tc := range map[string]struct {
		http HTTP
		in   []byte
		args string
		want string
		fail bool
	}{
		"a path":           {http: HTTP{URL: "/x/{a}.json"}, in: schema("a"), args: `{"a":"b c"}`, want: "GET /x/b%20c.json [] "},
		"a number":         {http: HTTP{URL: "/{a}"}, in: schema("a"), args: `{"a":12345678901234567890}`, want: "GET /12345678901234567890 [] "},
		"a default":        {http: HTTP{URL: "/{a}"}, in: schema("a=z"), args: `{}`, want: "GET /z [] "},
		"a query":          {http: HTTP{URL: "/?q={a}&r={b}"}, in: schema("a", "b?"), args: `{"a":"x&r=1"}`, want: "GET /?q=x%26r%3D1 [] "},
		"a list":           {http: HTTP{URL: "/?q={a}"}, in: schema("a"), args: `{"a":[1,"b"]}`, want: "GET /?q=1&q=b [] "},
		"a secret query":   {http: HTTP{URL: "/?q={a}", Query: map[string]string{"key": "k e"}}, in: schema("a"), args: `{"a":"x"}`, want: "GET /?q=x&key=k+e [] "},
		"a body":           {http: HTTP{URL: "/", Method: "POST", Body: []byte(`{"a":"{a}"}`)}, in: schema("a"), args: `{"a":[1]}`, want: `POST / [] {"a":[1]}`},
		"a header":         {http: HTTP{URL: "/", HeaderTemplates: map[string]string{"X-User": "u-{a}"}}, in: schema("a"), args: `{"a":"b"}`, want: "GET / [u-b] "},
		"a header's end":   {http: HTTP{URL: "/", HeaderTemplates: map[string]string{"X-User": "{a}"}}, in: schema("a"), args: `{"a":"b\r\nX-Admin: 1"}`, want: "The arguments a go into a header and may not hold line breaks or control characters.", fail: true},
		"upwards":          {http: HTTP{URL: "/x/{a}"}, in: schema("a"), args: `{"a":".."}`, want: "A is part of a path and may not be dots alone.", fail: true},
		"encoded upwards":  {http: HTTP{URL: "/x/{a}"}, in: schema("a"), args: `{"a":"%2e%2e%2fadmin"}`, want: "A is part of a path and may not hold slashes, backslashes or control characters, encoded or not.", fail: true},
		"an object":        {http: HTTP{URL: "/{a}"}, in: schema("a"), args: `{"a":{}}`, want: "The argument a must be a text, a number or true or false.", fail: true},
		"missing in paths": {http: HTTP{URL: "/{a}"}, in: schema("a?"), args: `{}`, want: "A is part of a path and must be there, one value and not empty.", fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.http.URL = url + tc.http.URL
			b := backend(t, Tool{Input: tc.in, HTTP: &tc.http})
			text, _, failed := answerOfCall(t, b, tc.args)
			if said := b.Check(t.Context(), "it", []byte(tc.args)); (said != "") != tc.fail || tc.fail && said != tc.want {
				t.Errorf("checked: %q", said)
			}
			if text != tc.want || failed != tc.fail {
				t.Errorf("%q, %v; want %q", text, failed, tc.want)
			}
		})
	}
}

// TestAnswers shows what becomes of what a service answers.
func TestAnswers(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/json":
			fmt.Fprint(w, ` {"items":[{"id":12345678901234567890,"name":"a"}]} `)
		case "/twice":
			fmt.Fprint(w, `{"a":1,"a":2}`)
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>x")
		case "/png":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89PNG\x00")
		case "/large":
			fmt.Fprint(w, strings.Repeat("x", 3000))
		case "/away":
			http.Redirect(w, r, "/json", http.StatusFound)
		case "/echo":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "bad token %q for %s", r.Header.Get("Authorization"), r.URL.Query().Get("key"))
		}
	})
	object := []byte(`{"type":"object"}`)
	for name, tc := range map[string]struct {
		tool             Tool
		path             string
		text, structured string
		fail             bool
	}{
		"text":             {path: "/html", text: "<p>x"},
		"json":             {path: "/json", text: ` {"items":[{"id":12345678901234567890,"name":"a"}]} `},
		"structured":       {path: "/json", tool: Tool{Output: object}, text: ` {"items":[{"id":12345678901234567890,"name":"a"}]} `, structured: `{"items":[{"id":12345678901234567890,"name":"a"}]}`},
		"a part":           {path: "/json", tool: Tool{Answer: "$.items[0]", Output: object}, text: `{"id":12345678901234567890,"name":"a"}`, structured: `{"id":12345678901234567890,"name":"a"}`},
		"a text in it":     {path: "/json", tool: Tool{Answer: "/items/0/name"}, text: "a"},
		"nothing there":    {path: "/json", tool: Tool{Answer: "/x"}, text: "The answer has nothing at /x.", fail: true},
		"no object":        {path: "/json", tool: Tool{Answer: "$.items", Output: object}, text: "The answer is not a JSON object, as the tool's output schema says.\n\n[{\"id\":12345678901234567890,\"name\":\"a\"}]", fail: true},
		"a key twice":      {path: "/twice", tool: Tool{Answer: "/a"}, text: "The answer is not JSON.\n\n{\"a\":1,\"a\":2}", fail: true},
		"no json":          {path: "/html", tool: Tool{Answer: "/a"}, text: "The answer is not JSON.\n\n<p>x", fail: true},
		"no text":          {path: "/png", text: "The service answered with image/png, which is not text.", fail: true},
		"cut":              {path: "/large", tool: Tool{MaxBytes: 1000}, text: strings.Repeat("x", 1000) + "\n\n[cut: the answer is larger than what is read of it]"},
		"cut json":         {path: "/large", tool: Tool{MaxBytes: 1000, Answer: "/a"}, text: "The answer is larger than 1000 bytes.", fail: true},
		"a redirect":       {path: "/away", text: "The service answered 302 Found, a redirect that is not followed.", fail: true},
		"a followed one":   {path: "/away", tool: Tool{HTTP: &HTTP{Redirects: 1}, Answer: "/items/0/name"}, text: "a"},
		"secrets are kept": {path: "/echo", text: "The service answered 403 Forbidden.\n\nbad token \"[redacted]\" for [redacted]", fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.tool.HTTP == nil {
				tc.tool.HTTP = &HTTP{}
			}
			tc.tool.HTTP.URL = url + tc.path
			tc.tool.HTTP.Headers = map[string]string{"Authorization": "Bearer canary-of-a-token"}
			tc.tool.HTTP.Query = map[string]string{"key": "canary of a query"}
			text, structured, failed := answerOfCall(t, backend(t, tc.tool), `{}`)
			if strings.TrimSpace(text) != strings.TrimSpace(tc.text) || structured != tc.structured || failed != tc.fail {
				t.Errorf("%q, %s, %v; want %q", text, structured, failed, tc.text)
			}
		})
	}
}

// TestOnlyTheNamedHost is reached: an address inside only where the template
// names it.
func TestOnlyTheNamedHost(t *testing.T) {
	hits := 0
	other := serve(t, func(http.ResponseWriter, *http.Request) { hits++ })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	text, _, failed := answerOfCall(t, backend(t, Tool{HTTP: &HTTP{URL: url, Redirects: 5}}), `{}`)
	if !failed || hits != 0 || !strings.Contains(text, "may not be reached") {
		t.Errorf("a redirect to another port: %s", text)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	for where, allow := range map[string][]netip.Prefix{
		"http://localhost:" + port: nil, "http://127.0.0.1:" + port: nil,
	} {
		if text, _, failed := answerOfCall(t, backend(t, Tool{HTTP: &HTTP{URL: where, Allow: allow}}), `{}`); !strings.Contains(text, "302") || !failed {
			t.Errorf("%s: %s", where, text)
		}
	}
}

func TestCallsThatFail(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	kind := func(err error) mcp.FailureKind {
		if f, ok := errors.AsType[*mcp.Failure](err); ok && f.Delivered {
			return f.Kind
		}
		return ""
	}
	slow := backend(t, Tool{Timeout: 50 * time.Millisecond, HTTP: &HTTP{URL: url}})
	if _, err := slow.Call(t.Context(), calling(`{}`)); kind(err) != mcp.FailTimeout {
		t.Error(err)
	}
	call := calling(`{}`)
	call.Timeout = 50 * time.Millisecond
	if _, err := backend(t, Tool{HTTP: &HTTP{URL: url}}).Call(t.Context(), call); kind(err) != mcp.FailTimeout {
		t.Error(err)
	}
	gone := backend(t, Tool{HTTP: &HTTP{URL: "http://" + testport.Address(t), Query: map[string]string{"k": "canary-of-a-key"}}})
	if _, err := gone.Call(t.Context(), calling(`{}`)); kind(err) != mcp.FailUnavailable || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
}

// TestSecretsInJSON are hidden as a service writes them, and where an answer's part
// is read out of that.
func TestSecretsInJSON(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"plain":"Bearer k/ey+&\"1234","slash":"k\/ey+&\"1234","html":"k/ey+\u0026\"1234","code":"\u006b/ey+&\"1234"}`)
	})
	headers := map[string]string{"Authorization": `Bearer k/ey+&"1234`}
	for answer, want := range map[string]string{
		"": `{"plain":"[redacted]","slash":"[redacted]","html":"[redacted]","code":"\u006b/ey+&\"1234"}`, "/plain": "[redacted]", "/code": "[redacted]",
	} {
		if got, _, _ := answerOfCall(t, backend(t, Tool{Answer: answer, HTTP: &HTTP{URL: url, Headers: headers}}), `{}`); got != want {
			t.Errorf("%q: %s", answer, got)
		}
	}
}
