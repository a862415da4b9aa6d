//go:build !windows

package daemon_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console"
	"github.com/toolgate/toolgate/internal/raced"
	"github.com/toolgate/toolgate/internal/store/runs"
)

// foreignIDs is how many ids of others each role tries on each route.
var foreignIDs = raced.Times(1000, 50)

// foreign are ids of what belongs to others, or is hidden. For each kind the first ones are
// real, and the rest is made up.
type foreign struct {
	call, approval, try, tool, principal, run []string
}

// foreignTo makes a call of alice, whose id it returns, and what belongs to bob, and switches a
// tool off.
func (l *looked) foreignTo(t *testing.T) (own string, _ *foreign) {
	t.Helper()
	l.calledBy(t, "alice", "a__pid", 1)
	first, err := l.r.Calls(t.Context(), admin.CallQuery{})
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	own = first[0].ID
	f := &foreign{principal: []string{"bob"}, tool: []string{"a__fail"}}
	l.calledBy(t, "bob", "a__pid", 20)
	c := l.r.Client(t, "bob")
	for i := range 2 {
		if _, err := c.Request(t.Context(), "tools/call", fmt.Appendf(nil, `{"name":"a__echo","arguments":{"n":%d}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := l.r.Calls(t.Context(), admin.CallQuery{})
	if err != nil || len(calls) < 20 {
		t.Fatal(calls, err)
	}
	for _, c := range calls {
		if c.ID != own {
			f.call = append(f.call, c.ID)
		}
	}
	asked, err := l.r.Approvals(t.Context(), "pending")
	if err != nil || len(asked) != 2 {
		t.Fatal(asked, err)
	}
	for _, a := range asked {
		f.approval = append(f.approval, a.ID)
	}
	all := runs.New(l.r.Store)
	for range 5 { // what was asked of them cannot be opened, and nobody tries to
		run, err := all.Add(t.Context(), runs.Run{Principal: gate.Principal{Tenant: "default", Subject: "bob"}.Key(), Agent: "a", Request: []byte("x")}, "holder", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f.run = append(f.run, run.ID)
	}
	bob := l.as(t, "bob")
	for range 5 {
		f.try = append(f.try, strings.TrimPrefix(bob.tries(t, "a__pid", url.Values{"do": {"form"}}), "/try/calls/"))
	}
	if _, err := l.r.ChangeCatalog(t.Context(), admin.CatalogChange{Op: admin.CatalogDisable, Name: "a__fail", Kind: "tool", Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	for kind, prefix := range map[*[]string]string{&f.call: "", &f.approval: "apr_", &f.try: "try_", &f.run: "run_", &f.tool: "a__", &f.principal: ""} {
		for len(*kind) < foreignIDs {
			*kind = append(*kind, prefix+strings.ToLower(rand.Text()))
		}
	}
	return own, f
}

// foreignRoute is a route with the id of something; most is the highest role to which what
// belongs to others does not exist there.
type foreignRoute struct {
	method, path string // with %s for the id
	of           func(*foreign) []string
	most         console.Role
	form         url.Values
}

var (
	foreignCalls      = func(f *foreign) []string { return f.call }
	foreignApprovals  = func(f *foreign) []string { return f.approval }
	foreignTries      = func(f *foreign) []string { return f.try }
	foreignTools      = func(f *foreign) []string { return f.tool }
	foreignRuns       = func(f *foreign) []string { return f.run }
	foreignPrincipals = func(f *foreign) []string { return f.principal }
)

var foreignRoutes = []foreignRoute{
	{http.MethodGet, "/calls/%s", foreignCalls, console.Viewer, nil},
	{http.MethodGet, "/approvals/%s", foreignApprovals, console.Viewer, nil},
	{http.MethodPost, "/approvals/%s", foreignApprovals, console.Auditor, url.Values{"do": {"approve"}, "hash": {"x"}}},
	{http.MethodGet, "/try/calls/%s", foreignTries, console.Admin, nil},
	{http.MethodGet, "/try/calls/%s/events", foreignTries, console.Admin, nil},
	{http.MethodPost, "/try/calls/%s/answer", foreignTries, console.Admin, url.Values{"do": {"accept"}, "round": {"1"}}},
	{http.MethodPost, "/try/calls/%s/cancel", foreignTries, console.Admin, url.Values{}},
	{http.MethodGet, "/try/tool?name=%s", foreignTools, console.Admin, nil},
	{http.MethodPost, "/try/tool?name=%s", foreignTools, console.Admin, url.Values{"do": {"raw"}, "arguments": {"{}"}}},
	{http.MethodGet, "/runs/%s", foreignRuns, console.Viewer, nil},
	{http.MethodGet, "/catalog/entry?name=%s", foreignTools, console.ViewerOwn, nil},
	{http.MethodPost, "/catalog/change?name=%s", foreignTools, console.Auditor, url.Values{"op": {"enable"}}},
	{http.MethodGet, "/access?name=a__pid&as=%s", foreignPrincipals, console.Viewer, nil},
	{http.MethodGet, "/access?name=%s", foreignTools, console.Viewer, nil},
}

// What belongs to others does not exist for whoever may not see it: many ids on each route,
// as a page, as a fragment and as events, are answered byte for byte as one that nobody has.
func TestConsoleHasNoForeignIDs(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__echo": map[string]any{"requires_approval": true}}},
		"approvals":  map[string]any{"wait": "1s", "by": []any{"operator"}},
	})
	own, f := l.foreignTo(t)
	for key, role := range map[string]console.Role{"alice": console.ViewerOwn, "viewer": console.Viewer, "auditor": console.Auditor, "root": console.Admin} {
		b := l.as(t, key)
		for i := range foreignRoutes {
			if r := &foreignRoutes[i]; role <= r.most {
				b.findsNothing(t, key, r, r.of(f))
			}
		}
		if role >= console.Auditor {
			continue
		}
		for _, path := range []string{"/calls", "/calls?tool=a__pid", "/calls?error=none&since=1h", "/calls?tenant=default", "/calls?limit=1000", "/approvals", "/approvals?state=", "/try", "/runs", "/runs?state=running"} {
			text := b.get(t, path).Body.String()
			for _, id := range slices.Concat(f.call, f.approval, f.try, f.run) {
				if strings.Contains(text, id) {
					t.Fatalf("%s finds %s at %s", key, id, path)
				}
			}
		}
	}
	// Their own they see, and an auditor sees all.
	for key, id := range map[string]string{"alice": own, "auditor": f.call[0], "root": f.call[0]} {
		b := l.as(t, key)
		if w := b.get(t, "/calls/"+id); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Waterfall") {
			t.Errorf("%s does not see %s: %d", key, id, w.Code)
		}
		if w := b.get(t, "/calls"); !strings.Contains(w.Body.String(), id) {
			t.Errorf("%s does not find %s", key, id)
		}
	}
	if asked, err := l.r.Approvals(t.Context(), "pending"); err != nil || len(asked) != 2 {
		t.Errorf("questions that somebody else has answered: %v %v", asked, err)
	}
	if e, err := l.r.CatalogEntry(t.Context(), "a__fail", "tool"); err != nil || e.Enabled {
		t.Errorf("a tool that somebody else has switched on: %+v %v", e, err)
	}
}

// findsNothing tries ids on a route. Every tenth is asked for as a fragment and as events too.
func (b *browser) findsNothing(t *testing.T, key string, r *foreignRoute, ids []string) {
	t.Helper()
	ask := func(id, header, value string) (int, string) {
		form := r.form
		if form != nil {
			form = url.Values{"csrf": {b.csrf}}
			maps.Copy(form, r.form)
		}
		w := b.do(t, r.method, fmt.Sprintf(r.path, id), form, func(req *http.Request) {
			if header != "" {
				req.Header.Set(header, value)
			}
		})
		return w.Code, w.Body.String()
	}
	type variant struct{ header, value string }
	for _, v := range []variant{{}, {"HX-Request", "true"}, {"Accept", "text/event-stream"}} {
		status, none := ask("none", v.header, v.value)
		if status != http.StatusNotFound {
			t.Fatalf("%s %s: what does not exist is answered with %d", r.method, r.path, status)
		}
		for i, id := range ids {
			if v.header != "" && i%10 != 0 {
				continue
			}
			if got, text := ask(id, v.header, v.value); got != status || text != none {
				t.Fatalf("%s tries %s %s with %s %s: %d\n%s", key, r.method, fmt.Sprintf(r.path, id), v.header, v.value, got, text)
			}
		}
	}
}

// The admin API answers nobody without the admin role, whatever is asked for.
func TestAdminAPIHasNoForeignIDs(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, map[string]any{
		"governance": map[string]any{"tools": map[string]any{"a__echo": map[string]any{"requires_approval": true}}},
		"approvals":  map[string]any{"wait": "1s", "by": []any{"operator"}},
	})
	_, f := l.foreignTo(t)
	api := admin.Handler(l.r.Control, rand.Text())
	ask := func(key, method, path string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, key := range []string{"", "nobody", "alice", "viewer", "auditor"} {
		status, none := ask(key, http.MethodGet, "/v1/no-such-route")
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Fatalf("%q is answered with %d", key, status)
		}
		for path, ids := range map[string][]string{
			"GET /v1/audit/calls/": f.call, "GET /v1/approvals/": f.approval, "POST /v1/approvals/approve/": f.approval, "GET /v1/tries/": f.try,
			"GET /v1/catalog/entry?name=": f.tool, "GET /v1/who-can?name=": f.tool, "GET /v1/why?name=a__pid&as=": f.principal, "GET /v1/runs/": f.run, "GET /v1/calls?tool=": f.tool,
		} {
			method, path, _ := strings.Cut(path, " ")
			for _, id := range ids {
				if got, text := ask(key, method, path+id); got != status || text != none {
					t.Fatalf("%q asks for %s%s: %d %s", key, path, id, got, text)
				}
			}
		}
	}
}
