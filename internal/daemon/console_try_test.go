//go:build !windows

package daemon_test

import (
	"bufio"
	"bytes"
	"html"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/testwait"
)

// tries sends the form of a tool, and returns the path of the call that it has begun.
func (b *browser) tries(t *testing.T, tool string, form url.Values) string {
	t.Helper()
	form.Set("name", tool)
	w := b.postTool(t, form)
	to := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/try/calls/try_") {
		t.Fatalf("%d %s %s", w.Code, to, w.Body)
	}
	return to
}

var shownField = regexp.MustCompile(`name="shown" value="([^"]*)"`)

// shownOf is what the page of a tool says of itself; empty without a page.
func (b *browser) shownOf(t *testing.T, tool string) string {
	t.Helper()
	if found := shownField.FindStringSubmatch(b.get(t, "/try/tool?name="+url.QueryEscape(tool)).Body.String()); found != nil {
		return found[1]
	}
	return ""
}

// postTool sends the form of a tool as its page has shown it.
func (b *browser) postTool(t *testing.T, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	form.Set("shown", b.shownOf(t, form.Get("name")))
	return b.post(t, "/try/tool", form)
}

// A form that is sent is made as the caller whom its page has named, and of the definition that
// it has shown, or not at all.
func TestConsoleTryIsWhatWasShown(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("schema=" + formSchema)}, nil)
	b := l.as(t, "alice")
	b.shows(t, "/try", "a__echo")
	form := url.Values{"name": {"a__echo"}, "do": {"raw"}, "arguments": {`{"n":1}`}, "shown": {b.shownOf(t, "a__echo")}}
	b.post(t, "/try/as", url.Values{"key": {"bob"}}) // in another tab
	if w := b.post(t, "/try/tool", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was sent") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	form.Set("shown", b.shownOf(t, "a__echo"))
	if w := b.post(t, "/try/tool", form); w.Code != http.StatusSeeOther {
		t.Errorf("once the page was loaded again: %d %s", w.Code, w.Body)
	}
}

// shows loads a page until it has a text.
func (b *browser) shows(t *testing.T, path, text string) (page string) {
	t.Helper()
	testwait.Until(t, patience, path+" has "+text, func() bool {
		page = html.UnescapeString(b.get(t, path).Body.String())
		return strings.Contains(page, text)
	})
	return page
}

// A tool is called by a form of its schema, or by JSON beside it. What does not fit is not
// sent, and is said beside the field.
func TestConsoleTry(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("schema=" + formSchema)}, nil)
	b := l.as(t, "alice")
	b.shows(t, "/try", "a__echo")
	if page := b.get(t, "/try?q=no-such-tool").Body.String(); strings.Contains(page, "a__echo") {
		t.Error("the search finds everything")
	}
	b.shows(t, "/try/tool?name=a__echo", "a whole number, at least 1")
	for name, form := range map[string]url.Values{
		"too small":    {"do": {"form"}, "v/n": {"0"}},
		"no number":    {"do": {"form"}, "v/n": {"three"}},
		"missing":      {"do": {"form"}},
		"not JSON":     {"do": {"raw"}, "arguments": {"{"}},
		"not fitting":  {"do": {"raw"}, "arguments": {`{"n":0}`}},
		"not that one": {"do": {"raw"}, "arguments": {`[]`}},
	} {
		form.Set("name", "a__echo")
		if w := b.postTool(t, form); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `class="problem" role="alert"`) {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	w := b.postTool(t, url.Values{"name": {"a__echo"}, "do": {"form"}, "v/n": {"0"}})
	if field := regexp.MustCompile(`(?s)name="v/n" value="0"[^>]*aria-invalid.{0,200}class="problem"`); !field.MatchString(w.Body.String()) {
		t.Errorf("the problem is not beside its field: %s", w.Body)
	}
	if found, err := l.r.Calls(t.Context(), admin.CallQuery{}); err != nil || len(found) != 0 {
		t.Fatalf("something was sent: %+v %v", found, err)
	}
	// Rows are added, and form and JSON become each other, without a call.
	w = b.postTool(t, url.Values{"name": {"a__echo"}, "do": {"row v#/tags"}, "v#/tags": {"1"}, "v/tags/0": {"x"}})
	if page := w.Body.String(); !strings.Contains(page, `name="v/tags/1"`) || !strings.Contains(page, "\nx</textarea>") {
		t.Errorf("another row: %s", page)
	}
	w = b.postTool(t, url.Values{"name": {"a__echo"}, "do": {"json"}, "v/n": {"3"}, "v#/tags": {"1"}, "v/tags/0": {"x"}})
	if page := html.UnescapeString(w.Body.String()); !strings.Contains(page, `{"n":3,"tags":["x"]}`) {
		t.Errorf("as JSON: %s", page)
	}
	w = b.postTool(t, url.Values{"name": {"a__echo"}, "do": {"fill"}, "arguments": {`{"n":9007199254740993,"tags":["p","q"]}`}})
	if page := w.Body.String(); !strings.Contains(page, `value="9007199254740993"`) || !strings.Contains(page, "\nq</textarea>") {
		t.Errorf("filled: %s", page)
	}
	called := b.tries(t, "a__echo", url.Values{"do": {"form"}, "v/n": {"7"}, "v#/tags": {"2"}, "v/tags/1": {"<b>&"}})
	page := b.shows(t, called, `{"n":7,"tags":["<b>&"]}`)
	if raw := b.get(t, called).Body.String(); strings.Contains(raw, "<b>") || !strings.Contains(page, "bytes") {
		t.Errorf("%s", raw)
	}
	b.shows(t, "/try", called)
	b.shows(t, "/try/tool?name=a__echo&from="+strings.TrimPrefix(called, "/try/calls/"), `value="7"`)
	refused := b.tries(t, "a__echo", url.Values{"do": {"raw"}, "arguments": {`{"n":0}`}, "unchecked": {"yes"}})
	b.shows(t, refused, "refused")
	// Nobody else sees the call, whatever their role: it does not exist.
	for _, key := range []string{"bob", "viewer", "auditor", "root", "", "alice"} {
		other := l.as(t, key)
		missing := other.get(t, "/try/calls/try_none").Body.String()
		for _, path := range []string{called, called + "/events", refused} {
			if w := other.get(t, path); w.Code != http.StatusNotFound || w.Body.String() != missing {
				t.Errorf("%q sees %s: %d", key, path, w.Code)
			}
		}
		for _, path := range []string{called + "/cancel", called + "/answer"} {
			if w := other.post(t, path, url.Values{}); w.Code != http.StatusNotFound || w.Body.String() != missing {
				t.Errorf("%q does %s: %d", key, path, w.Code)
			}
		}
		if key != "" && strings.Contains(other.get(t, "/try").Body.String(), called) {
			t.Errorf("%q has the call in its history", key)
		}
	}
	if w := b.postTool(t, url.Values{"name": {"a__echo"}, "do": {"raw"}, "arguments": {strings.Repeat("x", 5<<20)}}); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of 5 MiB: %d", w.Code)
	}
	if w := b.get(t, "/try/tool?name=a__none"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown tool: %d", w.Code)
	}
}

// Somebody calls as the caller whose key they have, and as nobody else. The key is not kept.
func TestConsoleTryAs(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	b := l.as(t, "")
	if page := b.get(t, "/try").Body.String(); !strings.Contains(page, "An operator is no caller") || strings.Contains(page, "a__pid") {
		t.Errorf("an operator: %s", page)
	}
	if w := b.postTool(t, url.Values{"name": {"a__pid"}, "do": {"raw"}, "arguments": {"{}"}}); w.Header().Get("Location") != "/try" {
		t.Errorf("an operator calls: %d", w.Code)
	}
	if w := b.post(t, "/try/as", url.Values{"key": {"wrong"}}); w.Code != http.StatusForbidden {
		t.Errorf("a wrong key: %d", w.Code)
	}
	b.post(t, "/try/as", url.Values{"key": {"bob"}})
	b.shows(t, "/try", "bob of default")
	called := b.tries(t, "a__pid", url.Values{"do": {"form"}})
	b.shows(t, called, "done")
	testwait.Until(t, patience, "the call is in the log as bob's", func() bool {
		calls, err := l.r.Calls(t.Context(), admin.CallQuery{Tool: "a__pid"})
		if err != nil || len(calls) != 1 {
			return false
		}
		found, err := l.r.ShowAudit(t.Context(), calls[0].ID)
		return err == nil && found.Entries[len(found.Entries)-1].Principal.Subject == "bob"
	})
	b.post(t, "/try/as", url.Values{})
	if w := b.get(t, called); w.Code != http.StatusNotFound {
		t.Errorf("a call of bob: %d", w.Code)
	}
}

// A tool that asks is answered on the page of its call, also by files, and a call can be
// cancelled.
func TestConsoleTryAsks(t *testing.T) {
	t.Parallel()
	const asked = `{"type":"object","properties":{"color":{"type":"string","enum":["red","green"]},"n":{"type":"integer","maximum":3}},"required":["color"]}`
	l := lookedAt(t, servers{
		"a": fake("asks=" + asked),
		"f": fake(`schema={"type":"object","properties":{"data":{"type":"string","contentEncoding":"base64"}}}`),
	}, nil)
	b := l.as(t, "alice")
	called := b.tries(t, "a__ask", url.Values{"do": {"form"}})
	b.shows(t, called, "A question before the call goes on")
	for name, form := range map[string]url.Values{"missing": {}, "too large": {"q0/color": {"1"}, "q0/n": {"4"}}} {
		form.Set("do", "accept")
		form.Set("round", "1")
		if w := b.post(t, called+"/answer", form); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `class="problem"`) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := b.post(t, called+"/answer", url.Values{"do": {"accept"}, "round": {"1"}, "q0/color": {"1"}, "q0/n": {"3"}}); w.Header().Get("Location") != called {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.shows(t, called, `"color":"green"`)
	called = b.tries(t, "a__ask", url.Values{"do": {"form"}})
	b.shows(t, called, "A question before the call goes on")
	b.post(t, called+"/answer", url.Values{"do": {"decline"}, "round": {"1"}})
	b.shows(t, called, "decline")
	called = b.tries(t, "a__ask", url.Values{"do": {"form"}})
	b.post(t, called+"/cancel", url.Values{})
	b.shows(t, called, "cancelled")

	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"csrf": b.csrf, "name": "f__echo", "do": "form", "shown": b.shownOf(t, "f__echo")} {
		if err := form.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("v@/data", "x.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte{0, 0xff}); err != nil {
		t.Fatal(err)
	}
	form.Close()
	w := b.do(t, http.MethodPost, "/try/tool", url.Values{}, func(r *http.Request) {
		sent := httptest.NewRequestWithContext(r.Context(), r.Method, consoleURL+"/try/tool", &body)
		sent.Header = r.Header
		sent.RemoteAddr = r.RemoteAddr
		sent.Header.Set("Content-Type", form.FormDataContentType())
		*r = *sent
	})
	b.shows(t, w.Header().Get("Location"), `{"data":"AP8="}`)
}

// The page of a call changes with the call, and its view ends with it.
func TestConsoleTryEvents(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake(`asks={"type":"object"}`)}, nil)
	b := l.as(t, "alice")
	called := b.tries(t, "a__ask", url.Values{"do": {"form"}})
	b.shows(t, called, "A question before the call goes on")
	over := httptest.NewServer(l.pages)
	defer over.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, over.URL+called+"/events?after=0", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "toolgate-console", Value: b.cookie})
	resp, err := over.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in, events := bufio.NewScanner(resp.Body), []string{}
	for in.Scan() {
		if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			if events = append(events, name); len(events) == 1 {
				b.post(t, called+"/answer", url.Values{"do": {"accept"}, "round": {"1"}})
			}
		}
	}
	if n := len(events); in.Err() != nil || n < 3 || events[0] != "tried" || events[n-2] != "tried" || events[n-1] != "over" {
		t.Errorf("%v %v", events, in.Err())
	}
}

// A call that waits for an approval says so on its page. An administrator answers it there,
// and the caller answers in place what the caller may answer.
func TestConsoleTryApprovals(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__pid": map[string]any{"requires_approval": true}}},
		"approvals":  map[string]any{"wait": "1m", "by": []any{"operator", "requester"}},
	})
	b := l.as(t, "alice")
	called := b.tries(t, "a__pid", url.Values{"do": {"form"}})
	b.shows(t, called, "A question before the call goes on")
	b.post(t, called+"/answer", url.Values{"do": {"decline"}, "round": {"1"}})
	b.shows(t, called, "refused")
	other := newHome(t)
	section := withKeys("alice", "root")
	section["auth"].(map[string]any)["admins"] = []any{map[string]any{"subject": "root"}}
	section["governance"] = map[string]any{"tools": map[string]any{"a__pid": map[string]any{"requires_approval": true}}}
	section["approvals"] = map[string]any{"wait": "1m", "by": []any{"operator"}}
	other.write(t, servers{"a": fake("one")}, section)
	r := other.newRunning(t)
	l = &looked{r, r.Console(t.Context(), consoleURL, true), other.dir}
	b = l.as(t, "alice")
	root := l.as(t, "root")
	called = b.tries(t, "a__pid", url.Values{"do": {"form"}})
	b.shows(t, called, "This call waits for an approval")
	asked, err := r.Approvals(t.Context(), "pending")
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	if page := b.get(t, called).Body.String(); strings.Contains(page, "answer it") || !strings.Contains(page, asked[0].ID) {
		t.Errorf("%s", page)
	}
	root.get(t, "/approvals/"+asked[0].ID)
	if w := root.post(t, "/approvals/"+asked[0].ID, url.Values{"do": {"approve"}, "hash": {asked[0].ArgsHash}}); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.shows(t, called, "done")
}

// Without authentication, whoever has the console calls as whoever calls.
func TestConsoleTryWithoutKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	r := h.newRunning(t)
	l := &looked{r, r.Console(t.Context(), consoleURL, true), h.dir}
	b := l.as(t, "")
	if page := b.shows(t, "/try", "local of default"); strings.Contains(page, `name="key"`) {
		t.Error("the page asks for a key where there is none")
	}
	b.shows(t, b.tries(t, "a__pid", url.Values{"do": {"form"}}), "done")
	if w := b.post(t, "/try/as", url.Values{"key": {"x"}}); w.Header().Get("Location") != "/try" {
		t.Errorf("%d", w.Code)
	}
}
