package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/native/plugins/web"
	"github.com/toolgate/toolgate/native/toolapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns the tools of a configuration, by name.
func open(t *testing.T, config string) map[string]toolapi.Tool {
	t.Helper()
	p := web.Plugin()
	tools, err := p.Open([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	out := map[string]toolapi.Tool{}
	for _, tool := range tools {
		out[tool.Name] = tool
	}
	return out
}

func run(t *testing.T, tool toolapi.Tool, args any) (toolapi.Result, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Run(t.Context(), &toolapi.Call{Arguments: raw, Progress: func(float64, float64, string) {}, Log: func(string, string) {}})
}

func serve(t *testing.T, h http.HandlerFunc) (url, port string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return s.URL, port
}

type object = map[string]any

func TestFetch(t *testing.T) {
	url, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		kind, body := "text/html; charset=utf-8", "<title>T</title><p>Hello <b>you</b></p>"
		switch r.URL.Path {
		case "/latin":
			kind, body = "text/plain; charset=iso-8859-1", "caf\xe9"
		case "/meta":
			kind, body = "text/html", `<meta charset="windows-1251"><p>`+"\xef\xf0\xe8"
		case "/sjis":
			kind, body = "text/html; charset=Shift_JIS", "<p>\x93\xfa\x96\x7b"
		case "/utf16":
			kind, body = "text/plain", "\xff\xfeh\x00i\x00"
		case "/json":
			kind, body = "application/problem+json", `{"n": 12345678901234567890}`
		case "/unsaid":
			kind, body = "", "just text"
		case "/png":
			kind, body = "image/png", "\x89PNG\r\n\x1a\n"
		case "/liar":
			kind, body = "text/plain", "\x7fELF\x00\x00\x00\x01"
		case "/bytes":
			kind, body = "application/octet-stream", "text after all"
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/long":
			kind, body = "text/plain", strings.Repeat("\u00e9", 30)
		case "/huge":
			kind, body = "text/plain", strings.Repeat("x", 20_000)
		case "/cookie":
			body = fmt.Sprint("<p>", r.Header.Get("Cookie"), r.Header.Get("Authorization"), r.UserAgent())
		case "/redirect":
			http.Redirect(w, r, "http://169.254.169.254/latest/?hunter2", http.StatusFound)
			return
		}
		if w.Header()["Content-Type"] = nil; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		fmt.Fprint(w, body)
	})
	tool := open(t, `{"allow_addresses":["127.0.0.1/32"],"ports":[`+port+`],"max_bytes":10000,"user_agent":"me"}`)["fetch_url"]
	for path, tc := range map[string]struct {
		args object
		want string // the text, or the problem
		fail bool
	}{
		"/":         {want: "T\n\nHello **you**"},
		"/?text":    {args: object{"format": "text"}, want: "T\n\nHello you"},
		"/?raw":     {args: object{"format": "raw"}, want: "<title>T</title><p>Hello <b>you</b></p>"},
		"/latin":    {want: "caf\u00e9"},
		"/meta":     {want: "\u043f\u0440\u0438"},
		"/sjis":     {want: "\u65e5\u672c"},
		"/utf16":    {want: "hi"},
		"/json":     {want: `{"n": 12345678901234567890}`},
		"/unsaid":   {want: "just text"},
		"/bytes":    {want: "text after all"},
		"/cookie":   {want: "me"},
		"/long?cut": {args: object{"max_characters": 10}, want: strings.Repeat("\u00e9", 10) + "\n\n[cut; go on with start=10]"},
		"/long?on":  {args: object{"start": 25}, want: strings.Repeat("\u00e9", 5)},
		"/long?end": {args: object{"start": 30}, want: ""},
		"/png":      {want: "127.0.0.1 is image/png, which is not text; only text can be fetched.", fail: true},
		"/liar":     {want: "127.0.0.1 is application/octet-stream, which is not text; only text can be fetched.", fail: true},
		"/huge":     {want: strings.Repeat("x", 10_000) + "\n\n[cut; the rest is too long to be read]"},
		"/redirect": {want: "The address 169.254.169.254 may not be reached: it is link-local, not of the public internet.", fail: true},
	} {
		t.Run(path, func(t *testing.T) {
			args := object{"url": url + path}
			maps.Copy(args, tc.args)
			got, err := run(t, tool, args)
			text := got.Text
			if problem, ok := errors.AsType[toolapi.Problem](err); ok {
				text = problem.Error()
			}
			if diff := cmp.Diff(tc.want, text); diff != "" || (err != nil) != tc.fail {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if got, err := run(t, tool, object{"url": url + "/missing"}); err != nil || !got.IsError || !strings.Contains(got.Text, "answered 404 Not Found.") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFetchRefusesWhatIsInside(t *testing.T) {
	reached := false
	url, port := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	tool := open(t, `{"ports":[`+port+`]}`)["fetch_url"]
	for _, where := range []string{
		url, "http://localhost:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port,
		"http://2130706433:" + port, "file:///etc/passwd", "http://user:hunter2@127.0.0.1:" + port, "http://10.0.0.1:" + port + "/hunter2",
	} {
		_, err := run(t, tool, object{"url": where})
		if _, ok := errors.AsType[toolapi.Problem](err); !ok || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if reached {
		t.Error("a server of this machine was reached")
	}
}

func TestSearch(t *testing.T) {
	url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query().Get("q"); q {
		case "broken":
			fmt.Fprint(w, "<html>")
		case "refused":
			w.WriteHeader(http.StatusForbidden)
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "none":
			fmt.Fprint(w, `{"web":{"list":[]}}`)
		case "other":
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprintf(w, `{"web":{"list":[{"t":"%s %s","u":"https://a.example/","s":" one\n two "},{"t":"no address"},{"t":"B","u":"https://b.example/","s":3},{"t":"C","u":"c"}]}}`,
				q, r.Header.Get("X-Key"))
		}
	})
	tool := open(t, `{"search":{"url":"`+url+`/search?q={query}&n={count}","headers":{"X-Key":"k"},"results":"web.list","title":"t","link":"u","snippet":"s"}}`)["search"]
	got, err := run(t, tool, object{"query": "a&n=1 #b", "count": 2})
	want := `{"results":[{"title":"a\u0026n=1 #b k","url":"https://a.example/","snippet":"one two"},{"title":"B","url":"https://b.example/","snippet":""}]}`
	if diff := cmp.Diff(want, string(got.Structured)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := run(t, tool, object{"query": "none"}); err != nil || got.Text != "Nothing was found." {
		t.Errorf("%v, %v", got, err)
	}
	for query, want := range map[string]string{
		"broken": "not JSON", "refused": "answered 403", "redirect": "answered 302", "other": `no list at "web.list"`,
	} {
		if _, err := run(t, tool, object{"query": query}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
	if _, err := run(t, open(t, `{}`)["search"], object{"query": "x"}); err == nil || !strings.Contains(err.Error(), "No search engine is configured") {
		t.Error(err)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, config := range []string{
		`[]`, `{"allow_addresses":["x"]}`, `{"deny_hosts":["a b"]}`, `{"timeout":"soon"}`, `{"search":{"url":"https://a.example/"}}`,
		`{"search":{"url":"https://{query}/"}}`, `{"search":{"url":"https://a.example/?q={query}&x={other}"}}`,
	} {
		p := web.Plugin()
		if _, err := p.Open([]byte(config)); err == nil {
			t.Errorf("%s is taken", config)
		}
		p.Close()
	}
}

func TestDefinitions(t *testing.T) {
	for name, tool := range open(t, "") {
		if !json.Valid(tool.Input) || !json.Valid(tool.Output) || !tool.ReadOnly || !tool.OpenWorld || tool.Timeout <= 0 {
			t.Errorf("%s: %+v", name, tool)
		}
	}
}

// A call may shorten the time of its request, and not lengthen it.
func TestFetchTimeout(t *testing.T) {
	_, port := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	config := `{"allow_addresses":["127.0.0.1/32"],"ports":[` + port + `],"timeout":%q}`
	for name, tc := range map[string]struct {
		config  string
		timeout float64
		want    string
	}{
		"of the call":     {"1m", 0.1, "did not answer within 0.1 seconds"},
		"of the operator": {"100ms", 3600, "it took too long"},
	} {
		tool := open(t, fmt.Sprintf(config, tc.config))["fetch_url"]
		if _, err := run(t, tool, map[string]any{"url": "http://127.0.0.1:" + port, "timeout": tc.timeout}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
