//go:build !windows

package daemon_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/testwait"
)

const consoleURL = "http://127.0.0.1:7778"

// looked is a gateway with its console, and somebody for each role.
type looked struct {
	r     *running
	pages *console.Console
	dir   string
}

// lookedAt runs a gateway whose callers have each role.
func lookedAt(t testing.TB, s servers, more map[string]any) *looked {
	t.Helper()
	h := newHome(t)
	section := withKeys("root", "auditor", "viewer", "alice", "bob")
	one := func(subject string) []any { return []any{map[string]any{"subject": subject}} }
	maps.Copy(section["auth"].(map[string]any), map[string]any{"admins": one("root"), "auditors": one("auditor"), "viewers": one("viewer")})
	maps.Copy(section, more)
	h.write(t, s, section)
	r := h.newRunning(t)
	return &looked{r, r.Console(t.Context(), consoleURL, true), h.dir}
}

// browser is a browser with the cookie of a session; empty for none.
type browser struct {
	l      *looked
	cookie string
	csrf   string
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// do makes a request as a browser does. edit may change it.
func (b *browser) do(t testing.TB, method, path string, form url.Values, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	var body io.Reader = http.NoBody
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(t.Context(), method, consoleURL+path, body)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", consoleURL)
	}
	if b.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "toolgate-console", Value: b.cookie})
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	b.l.pages.ServeHTTP(w, r)
	if found := csrfField.FindStringSubmatch(w.Body.String()); found != nil {
		b.csrf = found[1]
	}
	return w
}

func (b *browser) get(t testing.TB, path string) *httptest.ResponseRecorder {
	t.Helper()
	return b.do(t, http.MethodGet, path, nil, nil)
}

// post sends a form with the token of the session.
func (b *browser) post(t *testing.T, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	form.Set("csrf", b.csrf)
	return b.do(t, http.MethodPost, path, form, nil)
}

// as signs a browser in with a key, or by a link for an empty one.
func (l *looked) as(t testing.TB, key string) *browser {
	t.Helper()
	b := &browser{l: l}
	var w *httptest.ResponseRecorder
	if key == "" {
		w = b.get(t, strings.TrimPrefix(l.pages.Link(), consoleURL))
	} else {
		w = b.do(t, http.MethodPost, "/sign-in", url.Values{"key": {key}}, nil)
	}
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("sign in as %q: %d %s", key, w.Code, w.Body)
	}
	b.cookie = w.Result().Cookies()[0].Value
	b.get(t, "/calls")
	return b
}

// calledBy makes calls of a tool for somebody, and waits until they are in the log of
// executions.
func (l *looked) calledBy(t *testing.T, key, tool string, n int) {
	t.Helper()
	before, err := l.r.Calls(t.Context(), admin.CallQuery{Limit: admin.MaxCalls})
	if err != nil {
		t.Fatal(err)
	}
	c := l.r.Client(t, key)
	for range n {
		if _, err := c.Request(t.Context(), "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, tool)); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, patience, "calls are in the log of executions", func() bool {
		now, err := l.r.Calls(t.Context(), admin.CallQuery{Limit: admin.MaxCalls})
		return err == nil && len(now) == len(before)+n
	})
}

// consolePaths are pages of each kind, with the least role that sees them: 1 own calls, 2
// viewer, 3 auditor, 4 admin.
var consolePaths = map[string]int{
	"/": 1, "/calls": 1, "/try": 1, "/approvals": 1, "/now": 2, "/now/chart": 2, "/catalog": 2, "/catalog/entry?name=a__pid": 2, "/budgets": 2, "/access": 3, "/access?name=a__pid&as=alice": 3,
	"/runs": 1, "/runs?state=failed": 1, "/jobs": 1, "/searches": 3, "/searches?since=1h": 3, "/searches?since=x": 3, "/replicas": 3, "/access/replay": 4,
}

// Each role sees its pages. All others are answered as what does not exist.
func TestConsoleRoles(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	nobody := &browser{l: l}
	for path := range consolePaths {
		w := nobody.get(t, path)
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/sign-in?to=") {
			t.Errorf("nobody at %s: %d %s", path, w.Code, to)
		}
	}
	if w := nobody.do(t, http.MethodGet, "/now/events", nil, func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }); w.Code != http.StatusUnauthorized {
		t.Errorf("nobody reads events: %d", w.Code)
	}
	for key, role := range map[string]int{"alice": 1, "viewer": 2, "auditor": 3, "root": 4, "": 4} {
		b := l.as(t, key)
		missing := b.get(t, "/no-such-page")
		for path, least := range consolePaths {
			w := b.get(t, path)
			if role < least && (w.Code != http.StatusNotFound || w.Body.String() != missing.Body.String()) {
				t.Errorf("%q at %s: %d", key, path, w.Code)
			}
			if role >= least && w.Code != http.StatusOK && w.Code != http.StatusSeeOther {
				t.Errorf("%q at %s: %d %s", key, path, w.Code, w.Body)
			}
		}
		if role == 4 {
			continue
		}
		for _, action := range []string{"/mode", "/breakers/reset", "/catalog/change", "/approvals/apr_1", "/access/replay"} {
			form := url.Values{"mode": {"LOCKDOWN"}, "reason": {"x"}, "server": {"a"}, "op": {"disable"}, "name": {"a__pid"}, "do": {"approve"}}
			if w := b.post(t, action, form); w.Code != http.StatusNotFound || w.Body.String() != missing.Body.String() {
				t.Errorf("%q does %s: %d", key, action, w.Code)
			}
		}
		if role > 1 {
			continue
		}
		if w := b.get(t, "/now/events"); w.Code != http.StatusNotFound {
			t.Errorf("%q reads events: %d", key, w.Code)
		}
	}
	if m, err := l.r.Mode(t.Context()); err != nil || m.Mode != "NORMAL" {
		t.Errorf("mode %+v %v", m, err)
	}
}

// A form counts from the console's own page in the same session alone, and a page is
// served under the console's own name.
func TestConsoleDoor(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	b := l.as(t, "")
	lockdown := func() url.Values { return url.Values{"mode": {"LOCKDOWN"}, "reason": {"x"}, "csrf": {b.csrf}} }
	other := l.as(t, "")
	for name, edit := range map[string]func(*http.Request){
		"no origin":             func(r *http.Request) { r.Header.Del("Origin") },
		"another site":          func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"no origin that is one": func(r *http.Request) { r.Header.Set("Origin", "null") },
		"another port":          func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8080") },
		"another scheme":        func(r *http.Request) { r.Header.Set("Origin", "https://127.0.0.1:7778") },
		"two origins":           func(r *http.Request) { r.Header.Add("Origin", consoleURL) },
		"from another site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"from another port":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"a rebound name": func(r *http.Request) {
			r.Host = "evil.example:7778"
			r.Header.Set("Origin", "http://evil.example:7778")
		},
		"no session":  func(r *http.Request) { r.Header.Del("Cookie") },
		"two cookies": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "toolgate-console", Value: other.cookie}) },
	} {
		if w := b.do(t, http.MethodPost, "/mode", lockdown(), edit); w.Code != http.StatusForbidden && w.Code != http.StatusSeeOther || w.Header().Get("Location") == "/now" {
			t.Errorf("%s: %d %s", name, w.Code, w.Header())
		}
	}
	for name, token := range map[string]string{"no token": "", "a wrong token": rand.Text(), "the token of another session": other.csrf} {
		form := lockdown()
		form.Set("csrf", token)
		if w := b.do(t, http.MethodPost, "/mode", form, nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if m, err := l.r.Mode(t.Context()); err != nil || m.Mode != "NORMAL" {
		t.Fatalf("mode %+v %v", m, err)
	}
	for name, edit := range map[string]func(*http.Request){
		"a rebound name": func(r *http.Request) { r.Host = "evil.example:7778" },
		"a script elsewhere": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "cors")
		},
		"a script next door": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		},
		"an origin elsewhere": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if w := b.do(t, http.MethodGet, "/now", nil, edit); w.Code != http.StatusForbidden {
			t.Errorf("%s reads: %d", name, w.Code)
		}
	}
	w := b.get(t, "/now")
	for header, want := range map[string]string{
		"X-Frame-Options": "DENY", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
		t.Error(csp)
	}
	if w := b.do(t, http.MethodPost, "/mode", lockdown(), nil); w.Header().Get("Location") != "/now" {
		t.Errorf("the form itself: %d %s", w.Code, w.Body)
	}
	if m, err := l.r.Mode(t.Context()); err != nil || m.Mode != "LOCKDOWN" {
		t.Errorf("mode %+v %v", m, err)
	}
}

// A link works once and from this machine, and signing in makes a new session.
func TestConsoleSignIn(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	path := strings.TrimPrefix(l.pages.Link(), consoleURL)
	b := &browser{l: l}
	if w := b.do(t, http.MethodGet, path, nil, func(r *http.Request) { r.RemoteAddr = "192.0.2.1:50000" }); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("a link from elsewhere: %d", w.Code)
	}
	b.cookie = "fixed" + rand.Text() + rand.Text()
	w := b.get(t, path)
	if w.Code != http.StatusSeeOther || w.Result().Cookies()[0].Value == b.cookie {
		t.Fatalf("a link: %d %s", w.Code, w.Body)
	}
	if c := w.Result().Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("cookie %+v", c)
	}
	if w := b.get(t, "/now"); w.Code != http.StatusSeeOther {
		t.Errorf("a session that somebody else has chosen: %d", w.Code)
	}
	if w := (&browser{l: l}).get(t, path); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("a stolen link: %d", w.Code)
	}
	// An expired session leads back to its page, and nowhere else.
	for to, want := range map[string]string{
		"/calls?tool=x": "/calls?tool=x", "https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", "": "/",
	} {
		if w := b.do(t, http.MethodPost, "/sign-in", url.Values{"key": {"alice"}, "to": {to}}, nil); w.Header().Get("Location") != want {
			t.Errorf("to %q: %d %s", to, w.Code, w.Header().Get("Location"))
		}
	}
	if w := (&browser{l: l}).get(t, "/calls?tool=x"); w.Header().Get("Location") != "/sign-in?to=%2Fcalls%3Ftool%3Dx" {
		t.Errorf("an expired session: %s", w.Header().Get("Location"))
	}
	alice := l.as(t, "alice")
	before := alice.cookie
	if w := alice.do(t, http.MethodPost, "/sign-in", url.Values{"key": {"bob"}}, nil); w.Result().Cookies()[0].Value == before {
		t.Error("a session is kept over a new sign-in")
	}
	if w := alice.get(t, "/calls"); w.Code != http.StatusSeeOther {
		t.Errorf("the session before goes on: %d", w.Code)
	}
	bob := l.as(t, "bob")
	bob.post(t, "/sign-out", url.Values{})
	if w := bob.get(t, "/calls"); w.Code != http.StatusSeeOther {
		t.Errorf("signed out: %d", w.Code)
	}
	if w := b.do(t, http.MethodPost, "/sign-in", url.Values{"key": {"nobody"}}, nil); w.Code != http.StatusForbidden {
		t.Errorf("an unknown key: %d", w.Code)
	}
}

// What the pages show of servers and calls is what the admin API answers.
func TestConsoleShowsTheAPI(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one"), "b": fake("one")}, nil)
	l.calledBy(t, "alice", "a__pid", 3)
	b := l.as(t, "root")
	now := b.get(t, "/now").Body.String()
	for _, s := range l.r.Status().Servers {
		if !strings.Contains(now, "<bdi>"+s.Name+"</bdi>") || !strings.Contains(now, `state-`+s.State) {
			t.Errorf("%s is not on the page as %s", s.Name, s.State)
		}
	}
	entries, err := l.r.Catalog(t.Context(), admin.CatalogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	catalog := b.get(t, "/catalog").Body.String()
	for i := range entries {
		if !strings.Contains(catalog, "<bdi>"+entries[i].Name+"</bdi>") {
			t.Errorf("%s is not in the catalog", entries[i].Name)
		}
	}
	calls, err := l.r.Calls(t.Context(), admin.CallQuery{})
	if err != nil || len(calls) != 3 {
		t.Fatal(calls, err)
	}
	found := b.get(t, "/calls").Body.String()
	for _, c := range calls {
		if !strings.Contains(found, c.ID) {
			t.Errorf("%s is not among the calls", c.ID)
		}
		of, err := l.r.ShowAudit(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		page := b.get(t, "/calls/"+c.ID).Body.String()
		for _, s := range of.Entries[len(of.Entries)-1].Steps {
			if !strings.Contains(page, "<bdi>"+s.Phase+"</bdi>") {
				t.Errorf("%s has no phase %s", c.ID, s.Phase)
			}
		}
	}
	var chart [3][]int64
	if err := json.Unmarshal(b.get(t, "/now/chart").Body.Bytes(), &chart); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, n := range chart[1] {
		sum += n
	}
	if sum != 3 {
		t.Errorf("the chart has %d calls", sum)
	}
	b.get(t, "/catalog/entry?name=a__pid")
	if w := b.post(t, "/catalog/change", url.Values{"op": {"disable"}, "name": {"a__pid"}, "reason": {"test"}}); w.Code != http.StatusSeeOther {
		t.Fatalf("disable: %d %s", w.Code, w.Body)
	}
	e, err := l.r.CatalogEntry(t.Context(), "a__pid", "tool")
	if err != nil || e.Enabled || e.Actor != "root of default" {
		t.Errorf("disabled: %+v %v", e, err)
	}
	operator := l.as(t, "")
	operator.get(t, "/catalog/entry?name=a__pid")
	if w := operator.post(t, "/catalog/change", url.Values{"op": {"enable"}, "name": {"a__pid"}, "reason": {"test"}}); w.Code != http.StatusSeeOther {
		t.Fatalf("enable: %d %s", w.Code, w.Body)
	}
	if e, err = l.r.CatalogEntry(t.Context(), "a__pid", "tool"); err != nil || !e.Enabled || e.Actor != admin.Operator() {
		t.Errorf("enabled: %+v %v", e, err)
	}
}

// A live view shows calls as they end, and goes on after a break where it was.
func TestConsoleEvents(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	b := l.as(t, "root")
	over := httptest.NewServer(l.pages)
	defer over.Close()
	open := func(last string) (*http.Response, *bufio.Scanner) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, over.URL+"/now/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: "toolgate-console", Value: b.cookie})
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		resp, err := over.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("events: %d", resp.StatusCode)
		}
		return resp, bufio.NewScanner(resp.Body)
	}
	// until reads to the end of an event whose data has a text, and returns its id.
	until := func(in *bufio.Scanner, event, text string) (id string) {
		t.Helper()
		name, found := "", false
		for in.Scan() {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "event: "):
				name, found = line[7:], false
			case strings.HasPrefix(line, "id: "):
				id = line[4:]
			case strings.HasPrefix(line, "data: "):
				found = found || name == event && strings.Contains(line, text)
			case line == "" && found:
				return id
			}
		}
		t.Fatalf("no event %s with %s: %v", event, text, in.Err())
		return ""
	}
	first, in := open("")
	until(in, "state", "<bdi>a</bdi>")
	l.calledBy(t, "alice", "a__pid", 1)
	last := until(in, "calls", "a__pid")
	first.Body.Close()
	l.calledBy(t, "bob", "a__pid", 1)
	own, err := l.r.Calls(t.Context(), admin.CallQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	second, in := open(last)
	until(in, "calls", own[0].ID)
	// It ends with the session.
	b.post(t, "/sign-out", url.Values{})
	for in.Scan() {
	}
	if in.Err() != nil {
		t.Error(in.Err())
	}
	second.Body.Close()
}

// Several people open calls at once: each waits while the log is read for another one.
func TestConsoleCallsTogether(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	l.calledBy(t, "root", "a__pid", 20)
	calls, err := l.r.Calls(t.Context(), admin.CallQuery{Limit: 1})
	if err != nil || len(calls) != 1 {
		t.Fatal(calls, err)
	}
	b := l.as(t, "root")
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			one := *b
			if w := one.get(t, "/calls/"+calls[0].ID); w.Code != http.StatusOK {
				t.Errorf("one of several: %d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
}
