package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result"
)

// keeping is a rig with a legacy server whose result is larger than 2 KiB and kept.
func keeping(t testing.TB, answer *mcp.Answer, changes ...func(*Options, *Config)) *rig {
	rules := withResults(result.Rules{MaxBytes: 2048, Larger: result.KeepLarger})
	return newRig(t, mounted(reporter(t, mcp.Legacy, answer)), append([]func(*Options, *Config){rules}, changes...)...)
}

// keptAs returns the URI of the kept result in a response.
func keptAs(w *recorder) string {
	uri, _ := mcp.LookupString([]byte(resultOf(w)), "_meta", result.Key, "resource")
	return uri
}

// TestKeptResults: the caller can read an oversized result completely, in every era,
// and it is in no list.
func TestKeptResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := strings.Repeat(`line \u0041\n`, 400)
		answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+lines+`"}]}`)
		r := keeping(t, &answer)
		session := r.open()
		first := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`)
		uri := keptAs(first)
		link := `{"type":"resource_link","uri":"` + uri + `","name":"s__echo result","description":"The whole result of this call, until 2000-01-01T00:15:00Z.","mimeType":"text/plain","size":5200}`
		if !strings.HasPrefix(uri, result.URIPrefix) || len(uri) != len(result.URIPrefix)+32 || !strings.Contains(resultOf(first), link) {
			t.Fatalf("got %s\nwant the link %s", resultOf(first), link)
		}
		if !strings.Contains(resultOf(first), "The whole result is kept as the resource "+uri+" until 2000-01-01T00:15:00Z; only this caller can read it.") {
			t.Errorf("got %s", resultOf(first))
		}
		want := `{"contents":[{"uri":"` + uri + `","mimeType":"text/plain","text":"` + lines + `"}]}`
		if got := resultOf(r.legacy(session, "2", "resources/read", `{"uri":"`+uri+`"}`)); got != want {
			t.Errorf("read %s\nwant %s", got, want)
		}
		time.Sleep(time.Minute)
		got := resultOf(r.modern("3", "resources/read", `"uri":"`+uri+`"`))
		if !strings.Contains(got, `"contents":[{"uri":"`+uri+`"`) || !strings.Contains(got, `"ttlMs":840000`) || !strings.Contains(got, `"cacheScope":"private"`) || !strings.Contains(got, `"resultType":"complete"`) {
			t.Errorf("read %s", got)
		}
		if got := r.legacy(session, "4", "resources/list", "").text(); strings.Contains(got, result.URIPrefix) {
			t.Errorf("listed: %s", got)
		}
		again := keptAs(r.legacy(session, "5", "tools/call", `{"name":"s__echo"}`))
		if _, bytes := r.keptResults.Len(); again != uri || bytes != len(want)-len(`{"contents":}`) {
			t.Errorf("the same result is kept as %s too", again)
		}
		e := r.ledger.all()[1]
		if e.Kind != "resource" || e.Name != uri || e.Server != "s" || e.OriginalName != "echo" || e.Outcome != audit.OutcomeOK || e.Method != "resources/read" {
			t.Errorf("the entry is %+v", e)
		}
		// 15 minutes after it was last kept.
		time.Sleep(15*time.Minute - 1)
		if got := r.legacy(r.open(), "6", "resources/read", `{"uri":"`+uri+`"}`).text(); !strings.Contains(got, "contents") {
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Nanosecond)
		if got := r.legacy(r.open(), "6", "resources/read", `{"uri":"`+uri+`"}`).text(); !strings.Contains(got, `"Unknown resource: `) {
			t.Errorf("got %s", got)
		}
		r.keptResults.Sweep(time.Now())
		if n, bytes := r.keptResults.Len(); n != 0 || bytes != 0 {
			t.Errorf("%d results of %d bytes are left", n, bytes)
		}
	})
}

// TestKeptResultsOfOthers: for everybody else, and for a caller who may no longer use
// the tool, a kept result does not exist, byte for byte.
func TestKeptResultsOfOthers(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]}`)
	var mu sync.Mutex
	denied := map[gate.Action]bool{}
	r := keeping(t, &answer, func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			mu.Lock()
			defer mu.Unlock()
			if denied[q.Action] {
				return gate.Decision{Effect: gate.Deny, Reason: "it is over"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	deny := func(action gate.Action, on bool) {
		mu.Lock()
		defer mu.Unlock()
		denied[action] = on
	}
	uri := keptAs(r.modern("1", "tools/call", `"name":"s__echo"`))
	never := result.URIPrefix + strings.Repeat("a", 32)
	read := func(uri string, headers ...string) string {
		t.Helper()
		w := r.modern("1", "resources/read", `"uri":"`+uri+`"`, headers...)
		return fmt.Sprint(w.code(), w.sent, w.text())
	}
	same := func(what, got string) {
		t.Helper()
		if want := strings.ReplaceAll(read(never), never, uri); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	if got := read(uri); !strings.Contains(got, "xxxx") {
		t.Fatalf("got %s", got)
	}
	same("another caller", read(uri, "Authorization", "Bearer bob"))
	deny(gate.View, true)
	same("a tool that is hidden now", read(uri))
	deny(gate.View, false)
	deny(gate.Call, true)
	if got := read(uri); !strings.Contains(got, `"kind":"denied"`) || strings.Contains(got, "xxxx") {
		t.Errorf("got %s", got)
	}
	deny(gate.Call, false)
	for _, other := range []string{uri + "/", uri + "/1", uri + "?", result.URIPrefix, strings.ToUpper(uri)} {
		if got := read(other); !strings.Contains(got, "Unknown resource") {
			t.Errorf("%s: got %s", other, got)
		}
	}
	scoped := func(path string) string {
		req := modernRequest(modernBody("1", "resources/read", `"uri":"`+uri+`"`, ""))
		req.URL.Path = path
		return r.do(req).text()
	}
	if got := scoped("/mcp/s/s"); !strings.Contains(got, "xxxx") {
		t.Errorf("at the endpoint of its server: %s", got)
	}
	r.Apply(Config{Chain: gate.NewChain(gate.Open{}), Limiter: r.config.Load().Limiter})
	same("a server that is gone", read(uri))
	for _, e := range r.ledger.all() {
		if e.Method == "resources/read" && e.Outcome != audit.OutcomeOK && e.Outcome != audit.OutcomeDenied {
			t.Errorf("an entry is %+v", e)
		}
	}
}

// TestKeptWithoutAServer: the URI of a kept result never reaches a server, even one
// without a namespace.
func TestKeptWithoutAServer(t *testing.T) {
	answer := answered(mcp.Legacy, `{"contents":[]}`)
	b := reporter(t, mcp.Legacy, &answer)
	r := newRig(t, []Mount{{Backend: b}})
	if got := r.modern("1", "resources/read", `"uri":"toolgate://results/x"`).text(); !strings.Contains(got, "Unknown resource") {
		t.Errorf("got %s", got)
	}
	if got := b.seen(""); len(got) != 0 {
		t.Errorf("the server was asked %+v", got)
	}
	r.opts.Auditor.(*ledger).down = errBoom
	if got := r.modern("1", "resources/read", `"uri":"toolgate://results/x"`).text(); !strings.Contains(got, "audit_unavailable") {
		t.Errorf("got %s", got)
	}
}

// TestKeptParts: a result of several parts becomes a resource of several parts.
func TestKeptParts(t *testing.T) {
	embedded := `{"type":"resource","resource":{"uri":"s+x:/a","text":"e"}}`
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 3000)+`"},{"type":"image","mimeType":"image/png","data":"AAEC"},{"type":"resource","resource":{"uri":"x:/a","text":"e"}},7],"structuredContent":{"a":1.50}}`)
	r := keeping(t, &answer)
	uri := keptAs(r.legacy(r.open(), "1", "tools/call", `{"name":"s__echo"}`))
	want := `{"contents":[{"uri":"` + uri + `","mimeType":"application/json","text":"{\"a\":1.50}"},` +
		`{"uri":"` + uri + `/1","mimeType":"text/plain","text":"` + strings.Repeat("x", 3000) + `"},` +
		`{"uri":"` + uri + `/2","mimeType":"image/png","blob":"AAEC"},` +
		`{"uri":"` + uri + `/3","mimeType":"application/json","text":` + string(mcp.Quote(embedded)) + `},` +
		`{"uri":"` + uri + `/4","mimeType":"application/json","text":"7"}]}`
	if got := resultOf(r.legacy(r.open(), "2", "resources/read", `{"uri":"`+uri+`"}`)); got != want {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
}

// TestKeptForOldClients: a revision without resource links gets a text.
func TestKeptForOldClients(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]}`)
	r := keeping(t, &answer)
	w := r.post(strings.Replace(initBody, "2025-11-25", "2024-11-05", 1))
	if !strings.Contains(w.text(), `"resources":{`) {
		t.Errorf("resources are not declared: %s", w.text())
	}
	got := resultOf(r.legacy(w.field("Mcp-Session-Id"), "1", "tools/call", `{"name":"s__echo"}`))
	if strings.Contains(got, `"resource_link"`) || !strings.Contains(got, `[resource_link: name s__echo result, URI toolgate://results/`) {
		t.Errorf("got %s", got)
	}
}

// TestResourcesAreDeclared: resources are declared where results are kept, even for a
// server without any.
func TestResourcesAreDeclared(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		b := &script{name: "s"}
		b.offer(t, mcp.Legacy, `{"tools":{}}`, tool("echo"))
		mounts := mounted(b)
		if keeps {
			mounts[0].Tools = map[string]ToolShape{"x": {}, "echo": {Rules: &result.Rules{MaxBytes: 1, Larger: result.KeepLarger}}}
		}
		r := newRig(t, mounts)
		if got := r.post(initBody).text(); strings.Contains(got, `"resources":`) != keeps {
			t.Errorf("kept %v: %s", keeps, got)
		}
	}
}

// A kept result is read only while the approval of its call covers what is demanded now.
func TestKeptResultNeedsAnotherApproval(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 4096)+`"}]}`)
	checker := &examining{}
	r := keeping(t, &answer, func(_ *Options, c *Config) { c.Arguments = checker })
	session := r.open()
	uri := keptAs(r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`))
	read := func() string { return r.legacy(session, "2", "resources/read", `{"uri":"`+uri+`"}`).text() }
	if got := read(); !strings.Contains(got, "contents") {
		t.Fatalf("at first: %.200s", got)
	}
	checker.say(nil, gate.Demand{By: []string{"security"}})
	if got := read(); strings.Contains(got, "contents") || !strings.Contains(got, "The approval that this result needs has changed") {
		t.Errorf("then: %.200s", got)
	}
	checker.say(nil)
	if got := read(); !strings.Contains(got, "contents") {
		t.Errorf("at last: %.200s", got)
	}
}

// readingTool adds the tool that reads kept results to a rig.
func readingTool(t testing.TB) func(*Options, *Config) {
	b := newScript(t, result.ReaderServer, mcp.Modern, tool(result.ReaderTool))
	b.reply = func(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
		text, err := result.Query(ctx, mcp.Lookup(call.Params, "arguments"))
		failed := ""
		if err != nil {
			text, failed = err.Error(), `,"isError":true`
		}
		return answered(mcp.Modern, `{"content":[{"type":"text","text":`+string(mcp.Quote(text))+`}]`+failed+`}`), nil
	}
	return func(_ *Options, c *Config) {
		c.Mounts = append(c.Mounts, Mount{Backend: b, Namespace: result.ReaderServer, Native: true})
	}
}

// readPart asks the tool about a kept result in the modern era and returns its answer.
func readPart(r *rig, uri, more string, headers ...string) (text string, failed bool) {
	r.t.Helper()
	w := r.modern("1", "tools/call", `"name":"toolgate__read_result","arguments":{"id":"`+uri+`"`+more+`}`, headers...)
	content := mcp.Lookup([]byte(resultOf(w)), "content")
	for e := range mcp.Elements(content) {
		text, _ = mcp.LookupString(e.Of(content), "text")
	}
	if text == "" {
		r.t.Fatalf("got %s", w.text())
	}
	return text, string(mcp.Lookup([]byte(resultOf(w)), "isError")) == "true"
}

// TestReadResult: the note of a cut result names the tool that reads parts of it, and the
// tool reads them for the caller, in both eras, with audit entries for the call and for
// the read.
func TestReadResult(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat(`line\n`, 1000)+`needle"}],"structuredContent":{"items":[{"id":1},{"id":2}],"long":"`+strings.Repeat("x", 3000)+`"}}`)
	r := keeping(t, &answer, readingTool(t))
	session := r.open()
	cut := r.legacy(session, "1", "tools/call", `{"name":"s__echo"}`)
	uri := keptAs(cut)
	if !strings.Contains(resultOf(cut), " The tool toolgate__read_result returns parts of it.") || len(resultOf(cut)) > 2048+512 {
		t.Errorf("got %s", resultOf(cut))
	}
	for more, want := range map[string]string{
		`,"select":".items[] | .id"`: "1\n2", `,"grep":"needle"`: "1012:needle\n[1 of 1012 lines match]",
		`,"lines":"1012"`: "needle\n[lines 1012 to 1012 of 1012]",
	} {
		if got, failed := readPart(r, uri, more); got != want || failed {
			t.Errorf("%s: got %q", more, got)
		}
		if got, _ := readPart(r, strings.TrimPrefix(uri, result.URIPrefix), more); got != want {
			t.Errorf("%s by the id alone: got %q", more, got)
		}
	}
	if got := resultOf(r.legacy(session, "2", "tools/call", `{"name":"toolgate__read_result","arguments":{"id":"`+uri+`"}}`)); !strings.Contains(got, `[page 1 of 1]`) || !strings.Contains(got, "needle") {
		t.Errorf("got %s", got)
	}
	entries := r.ledger.all()
	read, call := entries[len(entries)-2], entries[len(entries)-1]
	if read.Method != mcp.MethodRead || read.Name != uri || read.Server != "s" || read.Outcome != audit.OutcomeOK || read.Principal.Subject != call.Principal.Subject {
		t.Errorf("the entry of the read is %+v", read)
	}
	if call.Method != mcp.MethodToolsCall || call.Name != "toolgate__read_result" || call.Outcome != audit.OutcomeOK {
		t.Errorf("the entry of the call is %+v", call)
	}
}

// TestReadResultOfOthers: an id that never was, the result of another caller, one of a tool
// that is hidden now, one outside of the endpoint and one that has expired get the same
// answer, byte for byte. One whose tool may not be called now is refused like the call.
func TestReadResultOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]}`)
		var mu sync.Mutex
		denied := map[gate.Action]bool{}
		r := keeping(t, &answer, readingTool(t), func(_ *Options, c *Config) {
			c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				if q.Server == "s" && denied[q.Action] {
					return gate.Decision{Effect: gate.Deny, Reason: "it is over"}, nil
				}
				return gate.Decision{Effect: gate.Allow}, nil
			}))
		})
		deny := func(action gate.Action, on bool) {
			mu.Lock()
			defer mu.Unlock()
			denied[action] = on
		}
		uri := keptAs(r.modern("1", "tools/call", `"name":"s__echo"`))
		want, failed := readPart(r, result.URIPrefix+strings.Repeat("a", 32), "")
		if want != result.ErrNotKept.Error() || !failed {
			t.Fatalf("an unknown id: %s", want)
		}
		refused := func(what string, headers ...string) {
			t.Helper()
			for _, more := range []string{``, `,"select":"."`, `,"grep":"x"`, `,"lines":"1"`, `,"page":9`} {
				if got, failed := readPart(r, uri, more, headers...); got != want || !failed {
					t.Errorf("%s, %s: got %.200s", what, more, got)
				}
			}
		}
		if got, failed := readPart(r, uri, ""); failed || !strings.Contains(got, "xxxx") {
			t.Fatalf("got %s", got)
		}
		refused("another caller", "Authorization", "Bearer bob")
		deny(gate.View, true)
		refused("a tool that is hidden now")
		deny(gate.View, false)
		deny(gate.Call, true)
		if got, failed := readPart(r, uri, ""); !failed || strings.Contains(got, "xxxx") || !strings.Contains(got, "it is over") {
			t.Errorf("a tool that may not be called now: %s", got)
		}
		deny(gate.Call, false)
		req := modernRequest(modernBody("1", "tools/call", `"name":"toolgate__read_result","arguments":{"id":"`+uri+`"}`, ""))
		req.URL.Path = "/mcp/s/toolgate"
		if got := r.do(req).text(); !strings.Contains(got, string(mcp.Quote(want))) {
			t.Errorf("at an endpoint without the server: %s", got)
		}
		time.Sleep(15 * time.Minute)
		refused("expired")
	})
}

// The note does not name the tool to a caller that may not view it, and at an endpoint
// that does not have it.
func TestReadResultIsNamedToWhoSeesIt(t *testing.T) {
	answer := answered(mcp.Legacy, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]}`)
	for _, hidden := range []bool{false, true} {
		changes := []func(*Options, *Config){readingTool(t)}
		if hidden {
			changes = append(changes, hide(result.ReaderTool))
		}
		r := keeping(t, &answer, changes...)
		for path, has := range map[string]bool{"/mcp": true, "/mcp/s/s": false} {
			req := modernRequest(modernBody("1", "tools/call", `"name":"s__echo"`, ""))
			req.URL.Path = path
			if got := r.do(req).text(); strings.Contains(got, "read_result") != (has && !hidden) || !strings.Contains(got, "is kept as the resource") {
				t.Errorf("%s, hidden %v: got %s", path, hidden, got[len(got)-600:])
			}
		}
	}
}
