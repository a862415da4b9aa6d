//go:build e2e && unix

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Three keys: an owner, somebody else of the same tenant, and the same subject
// in another tenant, who is somebody else too.
const (
	ownerKey  = "tg-e2e-owner-0123456789abcdef0123456789abcdef"
	otherKey  = "tg-e2e-other-0123456789abcdef0123456789abcdef"
	tenantKey = "tg-e2e-tenant-0123456789abcdef0123456789abcde"
)

func apiKey(id, key, subject, tenant string) object {
	sum := sha256.Sum256([]byte(key))
	return object{"id": id, "sha256": hex.EncodeToString(sum[:]), "subject": subject, "tenant": tenant}
}

// withKeys is a toolgate section in which these three exist and everyone known
// may call everything.
func withKeys(more object) object {
	return with(object{
		"auth": object{"keys": []object{
			apiKey("owner", ownerKey, "ann", "acme"),
			apiKey("other", otherKey, "bob", "acme"),
			apiKey("tenant", tenantKey, "ann", "globex"),
		}},
		"gate": object{"open": true},
	}, more)
}

var intruders = map[string]string{"another subject": otherKey, "another tenant": tenantKey}

// TestPrincipals lets one principal try what belongs to another: it is refused
// always, and the owner notices nothing.
func TestPrincipals(t *testing.T) {
	built(t, lab.toolgate)
	// More tools than fit on one page, so that there is a cursor to steal.
	s := newSetup(t, object{"fix": fixtureServer(t, "http", "legacy", "-tools", "1100")}, withKeys(nil))
	g := s.up(t)
	g.waitTools(t, ownerKey, "fix__echo", "fix__filler_1099")
	for _, key := range intruders {
		g.waitTools(t, key, "fix__echo")
	}

	t.Run("keys", func(t *testing.T) { testKeys(t, g) })
	for who, key := range intruders {
		t.Run(who, func(t *testing.T) {
			t.Run("session", func(t *testing.T) { testStolenSession(t, g, key) })
			t.Run("cursor", func(t *testing.T) { testStolenCursor(t, g, key) })
			t.Run("events", func(t *testing.T) { testStolenEvents(t, g, key) })
			t.Run("sse", func(t *testing.T) { testStolenEndpoint(t, g, key) })
		})
	}
}

// testKeys asks without a key, with a wrong one and with a hash of one.
func testKeys(t *testing.T, g *gateway) {
	sum := sha256.Sum256([]byte(ownerKey))
	for name, key := range map[string]string{
		"none":    "",
		"wrong":   strings.Replace(ownerKey, "0", "1", 1),
		"prefix":  ownerKey[:len(ownerKey)-1],
		"longer":  ownerKey + "0",
		"sha256":  hex.EncodeToString(sum[:]),
		"its id":  "owner",
		"blanked": " ",
	} {
		for _, at := range []struct{ method, url, body string }{
			{http.MethodPost, g.mcp, initializeBody},
			{http.MethodGet, g.mcp, ""},
			{http.MethodDelete, g.mcp, ""},
			{http.MethodGet, g.sse, ""},
			{http.MethodPost, strings.TrimSuffix(g.mcp, "/mcp") + "/message?sessionId=x", initializeBody},
			{http.MethodPost, g.mcp + "/s/fix", initializeBody},
		} {
			a, err := (&raw{key: key}).send(t.Context(), at.method, at.url, at.body, nil)
			if err != nil {
				t.Errorf("%s %s, key %s: %v", at.method, at.url, name, err)
			} else if a.status != http.StatusUnauthorized || a.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %s, key %s: HTTP %d %.200s, want 401", at.method, at.url, name, a.status, a.body)
			}
		}
	}
}

const initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`

// owner opens a session and returns a check that it still works.
func owner(t *testing.T, g *gateway) (*raw, func(after string)) {
	t.Helper()
	c := &raw{url: g.mcp, key: ownerKey}
	if err := c.initialize(t.Context()); err != nil {
		t.Fatalf("the owner's session: %v", err)
	}
	return c, func(after string) {
		t.Helper()
		if text, err := c.callTool(t.Context(), "fix__echo", object{"n": 1}); err != nil || text != `{"n":1}` {
			t.Errorf("after %s, the owner's call returns %q, %v", after, text, err)
		}
	}
}

// refused fails t unless a is a refusal: an HTTP error, or a JSON-RPC error with
// the given code, and in no case a result.
func refused(t *testing.T, what string, a *answer, err error, statuses ...int) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, status := range statuses {
		if a.status == status && !strings.Contains(a.body, `"result"`) {
			return
		}
	}
	t.Errorf("%s: HTTP %d %.300s, want one of %d", what, a.status, a.body, statuses)
}

func testStolenSession(t *testing.T, g *gateway, key string) {
	mine, stillWorks := owner(t, g)
	thief := &raw{url: g.mcp, key: key, session: mine.session}
	invented := &raw{url: g.mcp, key: key, session: strings.Repeat("A", len(mine.session))}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fix__echo","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		a, err := thief.send(t.Context(), http.MethodPost, g.mcp, body, nil)
		refused(t, "POST "+body, a, err, http.StatusNotFound)
		// Somebody else's session and one that never was look the same.
		b, err := invented.send(t.Context(), http.MethodPost, g.mcp, body, nil)
		if err == nil && a != nil && (a.status != b.status || a.body != b.body) {
			t.Errorf("POST %s: HTTP %d %q for a stolen session, HTTP %d %q for an invented one", body, a.status, a.body, b.status, b.body)
		}
		stillWorks("POST")
	}
	a, err := thief.send(t.Context(), http.MethodGet, g.mcp, "", map[string]string{"Accept": "text/event-stream"})
	refused(t, "GET", a, err, http.StatusNotFound)
	stillWorks("GET")
	a, err = thief.send(t.Context(), http.MethodDelete, g.mcp, "", nil)
	refused(t, "DELETE", a, err, http.StatusNotFound)
	stillWorks("DELETE")

	// Nor does a session work without any key, or at another endpoint of ours.
	a, err = (&raw{session: mine.session}).send(t.Context(), http.MethodPost, g.mcp, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, nil)
	refused(t, "POST without a key", a, err, http.StatusUnauthorized)
	stillWorks("POST without a key")
}

func testStolenCursor(t *testing.T, g *gateway, key string) {
	mine, stillWorks := owner(t, g)
	cursor := firstCursor(t, mine)
	thief := &raw{url: g.mcp, key: key}
	result, err := thief.call(t.Context(), "tools/list", object{"cursor": cursor})
	wantInvalidParams(t, "a stolen cursor", result, err)
	// The owner's cursor is of one list only, and is still good for it.
	result, err = mine.call(t.Context(), "prompts/list", object{"cursor": cursor})
	wantInvalidParams(t, "a cursor of another list", result, err)
	if _, err := mine.call(t.Context(), "tools/list", object{"cursor": cursor}); err != nil {
		t.Errorf("the owner's cursor: %v", err)
	}
	stillWorks("the cursor")
}

func firstCursor(t *testing.T, c *raw) string {
	t.Helper()
	result, err := c.call(t.Context(), "tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(result, &page); err != nil {
		t.Fatalf("reading a page: %v", err)
	}
	if page.NextCursor == "" {
		t.Fatal("1,104 tools came on one page: there is no cursor to steal")
	}
	return page.NextCursor
}

// testStolenEvents resumes streams by the owner's event ids, real and guessed,
// in a session of one's own and in the owner's.
func testStolenEvents(t *testing.T, g *gateway, key string) {
	mine, stillWorks := owner(t, g)
	label := newLabel("secret")
	ids := []string{"0", "1", mine.session, mine.session + "_0"}
	a, err := mine.send(t.Context(), http.MethodPost, g.mcp, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"fix__slow","arguments":{"label":%q,"ms":300},"_meta":{"progressToken":"tok"}}}`, label), nil)
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("a call with progress: %v", err)
	}
	offered := 0
	for _, e := range events(strings.NewReader(a.body)) {
		if e.id != "" {
			ids = append(ids, e.id)
			offered++
		}
	}
	t.Logf("the owner was offered %d event ids", offered)

	thief := &raw{url: g.mcp, key: key}
	if err := thief.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		for _, session := range []string{thief.session, mine.session} {
			got, status := watchFor(t, g, key, session, id, 300*time.Millisecond)
			if session == mine.session && status != http.StatusNotFound {
				t.Errorf("resuming the owner's session at event %q: HTTP %d, want 404", id, status)
			}
			for _, e := range got {
				t.Errorf("resuming at event %q delivered %s", id, e.data)
			}
		}
	}
	stillWorks("resuming")
}

// watchFor opens a GET stream with a Last-Event-ID and returns what arrives on
// it within the given time.
func watchFor(t *testing.T, g *gateway, key, session, lastID string, within time.Duration) ([]event, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.mcp, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("Mcp-Protocol-Version", legacyVersion)
	req.Header.Set("Last-Event-ID", lastID)
	resp, err := rawHTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0 // it sends nothing, not even headers
		}
		t.Fatalf("resuming: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode
	}
	return events(resp.Body), resp.StatusCode
}

// testStolenEndpoint posts to the message endpoint of the owner's HTTP+SSE
// stream.
func testStolenEndpoint(t *testing.T, g *gateway, key string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endpoint, messages := openSSE(ctx, t, g, ownerKey)
	mine := &raw{key: ownerKey}
	post := func(c *raw, body string) (*answer, error) {
		return c.send(ctx, http.MethodPost, endpoint, body, nil)
	}
	if a, err := post(mine, initializeBody); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("the owner's initialize: %+v, %v", a, err)
	}
	if m := next(t, messages); !strings.Contains(m, `"protocolVersion"`) {
		t.Fatalf("the owner's initialize is answered with %s", m)
	}
	if a, err := post(mine, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("the owner's notification: %+v, %v", a, err)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":666,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":666,"method":"tools/call","params":{"name":"fix__echo","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
	} {
		a, err := post(&raw{key: key}, body)
		refused(t, "POST "+body, a, err, http.StatusNotFound)
	}
	a, err := post(&raw{}, `{"jsonrpc":"2.0","id":666,"method":"ping"}`)
	refused(t, "POST without a key", a, err, http.StatusUnauthorized)

	// The next thing on the owner's stream is the answer to the owner.
	if a, err := post(mine, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fix__echo","arguments":{"n":2}}}`); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("the owner's call: %+v, %v", a, err)
	}
	if m := next(t, messages); !strings.Contains(m, `"id":2,`) && !strings.Contains(m, `"id":2}`) || strings.Contains(m, "666") {
		t.Errorf("the owner's call is answered with %s", m)
	}
}

// openSSE opens an HTTP+SSE stream and returns the URL of its endpoint and its
// messages, until ctx ends.
func openSSE(ctx context.Context, t *testing.T, g *gateway, key string) (string, <-chan string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.sse, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := rawHTTP.Do(req)
	if err != nil {
		t.Fatalf("opening HTTP+SSE: %v", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		t.Fatalf("opening HTTP+SSE: HTTP %d", resp.StatusCode)
	}
	read := eventReader(resp.Body)
	first, err := read()
	if err != nil || first.name != "endpoint" {
		resp.Body.Close()
		t.Fatalf("the first event of HTTP+SSE is %+v (%v), want endpoint", first, err)
	}
	base, err := url.Parse(g.sse)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := base.Parse(first.data)
	if err != nil || endpoint.Host != base.Host {
		t.Fatalf("the endpoint is %q (%v), want one at %s", first.data, err, base.Host)
	}
	messages := make(chan string, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		for {
			e, err := read()
			if err != nil {
				return
			}
			select {
			case messages <- e.data:
			case <-ctx.Done():
				return
			}
		}
	}()
	// ctx ends before the test does, and with it the reading.
	t.Cleanup(func() { <-ended })
	return endpoint.String(), messages
}

func next(t *testing.T, messages <-chan string) string {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(rawTimeout):
		t.Fatalf("no message within %s", rawTimeout)
		return ""
	}
}
