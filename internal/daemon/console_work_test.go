//go:build !windows

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/runs"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/auth"
)

// Somebody sees their own runs with what was asked and answered, an administrator all of them,
// and an auditor all of them without that.
func TestConsoleRuns(t *testing.T) {
	t.Parallel()
	at := endpoint(t, `{"turns":[{"calls":[{"tool":"util__echo","args":{"text":"carried-args"}},{"tool":"carried-pick"}]},{"text":"carried-answer"}]}`)
	l := lookedAt(t, servers{}, map[string]any{
		"native": map[string]any{"util": map[string]any{}},
		"agents": map[string]any{"researcher": map[string]any{"endpoint": at, "model": "m", "api_key": "model-key"}},
	})
	ids := map[string]string{}
	for _, who := range []string{"alice", "bob"} {
		l.r.structured(t, who, "agent__researcher", `{"task":"carried-task of `+who+`","tools":[{"name":"carried-pick"}]}`)
		list, err := l.r.Control.Runs(t.Context(), admin.RunQuery{State: "waiting"})
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		ids[who] = list[0].ID
	}
	if err := l.r.Control.CancelRun(t.Context(), ids["bob"]); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key                 string
		alices, bobs, reads bool
	}{{"alice", true, false, true}, {"bob", false, true, true}, {"viewer", false, false, false}, {"auditor", true, true, false}, {"root", true, true, true}, {"", true, true, true}} {
		b := l.as(t, tt.key)
		list, none := b.get(t, "/runs").Body.String(), b.get(t, "/runs/run_none").Body.String()
		if ended := b.get(t, "/runs?state=cancelled").Body.String(); strings.Contains(ended, ids["alice"]) || strings.Contains(ended, ids["bob"]) != tt.bobs {
			t.Errorf("%q in a state: %s", tt.key, ended)
		}
		for who, sees := range map[string]bool{"alice": tt.alices, "bob": tt.bobs} {
			if strings.Contains(list, ids[who]) != sees {
				t.Errorf("%q and the run of %s: %s", tt.key, who, list)
			}
			w := b.get(t, "/runs/"+ids[who])
			page := w.Body.String()
			switch {
			case !sees && (w.Code != http.StatusNotFound || page != none):
				t.Errorf("%q and the run of %s: %d %s", tt.key, who, w.Code, page)
			case sees && (w.Code != http.StatusOK || !strings.Contains(page, "<bdi>util__echo</bdi>") || !strings.Contains(page, `href="/calls/`)):
				t.Errorf("%q does not see the run of %s: %d %s", tt.key, who, w.Code, page)
			case sees && (strings.Contains(page, "carried-task of "+who) != tt.reads || strings.Contains(page, "carried-args") != tt.reads || strings.Contains(page, "<q><bdi>carried-pick</bdi></q>") != tt.reads || !tt.reads && strings.Contains(page, "carried")):
				t.Errorf("%q reads of the run of %s: %s", tt.key, who, page)
			}
		}
	}
	list, err := l.r.Control.Runs(t.Context(), admin.RunQuery{})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	page := l.as(t, "root").get(t, "/runs").Body.String()
	for i := range list {
		row := "<bdi>" + list[i].Agent + "</bdi></td><td><bdi>" + list[i].Caller + "</bdi></td><td>" + list[i].State + "</td>"
		if !strings.Contains(page, row) {
			t.Errorf("no %s in %s", row, page)
		}
	}
}

// nextPage is the URL of the page that a page leads to; empty for none.
func nextPage(page string) string {
	found := regexp.MustCompile(`<a href="([^"]+)" data-next>`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// api asks the admin API as an operator.
func (l *looked) api(t *testing.T, path string, into any) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Toolgate-Token", "token")
	w := httptest.NewRecorder()
	admin.Handler(l.r.Control, "token").ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code
}

// A page of runs says how many it has, and leads to the rest: each run is on one page, and only
// those of the person. The admin API pages alike.
func TestConsoleRunsInPages(t *testing.T) {
	t.Parallel()
	const many, shown = 60, 50
	l := lookedAt(t, servers{}, nil)
	all, ids := runs.New(l.r.Store), map[string]bool{}
	for i := range many + 1 {
		subject := "alice"
		if i == many/2 {
			subject = "bob"
		}
		run, err := all.Add(t.Context(), runs.Run{Principal: gate.Principal{Issuer: auth.KeyIssuer, Tenant: "default", Subject: subject}.Key(), Agent: "a", Request: []byte("x")}, "holder", time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ids[run.ID] = subject == "alice"
	}
	for key, want := range map[string]int{"alice": many, "root": many + 1} {
		b := l.as(t, key)
		seen := map[string]int{}
		for at := "/runs?state=running"; at != ""; {
			w := b.get(t, at)
			page := w.Body.String()
			if at = nextPage(page); w.Code != http.StatusOK || (at != "") != strings.Contains(page, fmt.Sprintf("A page has %d runs.", shown)) {
				t.Fatalf("%q: %d %s", key, w.Code, page)
			}
			for id := range ids {
				seen[id] += strings.Count(page, `<a href="/runs/`+id+`">`)
			}
		}
		n := 0
		for id, times := range seen {
			if n += times; times > 1 || times == 1 && key == "alice" && !ids[id] {
				t.Errorf("%q sees %s %d times", key, id, times)
			}
		}
		if n != want {
			t.Errorf("%q sees %d runs of %d", key, n, want)
		}
	}
	b := l.as(t, "root")
	none := b.get(t, "/runs?state=none").Body.String()
	for _, bad := range []string{"before=x&id=y", "before=2026-01-01T00:00:00Z", "id=y", "before=9999-01-01T00:00:00Z&id=y"} {
		if w := b.get(t, "/runs?"+bad); w.Code != http.StatusNotFound || w.Body.String() != none {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
		if status := l.api(t, "/v1/runs?"+bad, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
	for _, bad := range []string{"0", "501", "-1", "x"} {
		if status := l.api(t, "/v1/runs?limit="+bad, nil); status != http.StatusBadRequest {
			t.Errorf("limit %s: %d", bad, status)
		}
	}
	var first, rest []admin.Run
	l.api(t, "/v1/runs?limit=40", &first)
	last := &first[len(first)-1]
	l.api(t, "/v1/runs?limit=40&id="+last.ID+"&before="+url.QueryEscape(last.CreatedAt.Format(time.RFC3339Nano)), &rest)
	if len(first) != 40 || len(rest) != many+1-40 || rest[0].ID == last.ID {
		t.Errorf("pages of %d and %d", len(first), len(rest))
	}
}

// Of a long text of a run its beginning is shown, without secrets: also where the cut goes through
// one, and where a function is named like one.
func TestRunTextsAreCut(t *testing.T) {
	t.Parallel()
	const shown = 4 << 10
	token := "ghp_" + strings.Repeat("aB3d", 9)
	at := endpoint(t, `{"turns":[{"calls":[{"tool":"`+token+`"}]}]}`)
	l := lookedAt(t, servers{}, map[string]any{"agents": map[string]any{"researcher": map[string]any{"endpoint": at, "model": "m", "api_key": "model-key"}}})
	for _, secret := range []string{"model-key", "xoxb-" + strings.Repeat("9-", 12)} {
		task := strings.Repeat("- ", (shown-6)/2) + secret + " " + strings.Repeat("more ", 20_000)
		got := l.r.structured(t, "alice", "agent__researcher", fmt.Sprintf(`{"task":%q,"tools":[{"name":%q}]}`, task, token))
		list, err := l.r.Control.Runs(t.Context(), admin.RunQuery{State: "waiting"})
		if err != nil || len(list) == 0 {
			t.Fatalf("%v %v: %.500s", list, err, got)
		}
		run, err := l.r.Control.Run(t.Context(), list[0].ID, "")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("\n[cut: %d bytes]", len(task))
		if strings.Contains(run.Task, secret[:5]) || strings.Contains(run.Task, "more") || !strings.Contains(run.Task, "- - [redacted: ") || !strings.HasSuffix(run.Task, want) {
			t.Errorf("%s: %q", secret, run.Task[max(0, len(run.Task)-100):])
		}
		name := ""
		for i := range run.Steps {
			if run.Steps[i].Kind == "function" {
				name = run.Steps[i].Name
			}
		}
		if name != "[redacted: github_token]" {
			t.Errorf("a function is shown as %q", name)
		}
		for _, key := range []string{"alice", "root"} {
			if page := l.as(t, key).get(t, "/runs/"+run.ID).Body.String(); strings.Contains(page, "ghp_") || strings.Contains(page, secret[:5]) {
				t.Errorf("%q sees a secret: %s", key, page)
			}
		}
	}
}

// Somebody sees their own calls that are in a queue, and an auditor all of them, each once: also
// one that runs as a task. Nobody sees one that has ended.
func TestConsoleJobs(t *testing.T) {
	t.Parallel()
	settings := queueOf(postgres.SchemaURL(t), "a", "one")
	settings["tools"].([]map[string]any)[0]["queue"] = true
	l := lookedAt(t, servers{}, map[string]any{"tools": settings["tools"], "queue": settings["queue"]})
	l.r.settle(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls sync.WaitGroup
	for _, who := range []string{"alice", "bob"} {
		c := l.r.Client(t, who)
		calls.Go(func() {
			_, _ = c.Request(ctx, mcp.MethodToolsCall, []byte(`{"name":"own__say","arguments":{"word":"carried"}}`))
		})
	}
	if got := l.r.taskedBy(t, "bob", mcp.MethodToolsCall, "own__say", `"name":"own__say","arguments":{"word":"carried"}`); !strings.Contains(got, "taskId") {
		t.Fatal(got)
	}
	testwait.Until(t, patience, "three jobs wait", func() bool { return len(l.r.Control.Jobs(admin.JobQuery{})) == 3 })
	var paged []admin.Job
	for at := "/v1/jobs?limit=2"; at != ""; {
		var page []admin.Job
		if status := l.api(t, at, &page); status != http.StatusOK || len(page) > 2 {
			t.Fatalf("%s: %d, %d jobs", at, status, len(page))
		}
		paged, at = append(paged, page...), ""
		if len(page) == 2 {
			at = "/v1/jobs?limit=2&id=" + page[1].ID + "&after=" + url.QueryEscape(page[1].Since.Format(time.RFC3339Nano))
		}
	}
	if all := l.r.Control.Jobs(admin.JobQuery{}); !slices.EqualFunc(all, paged, func(a, b admin.Job) bool { return a.ID == b.ID }) {
		t.Errorf("%+v in pages: %+v", all, paged)
	}
	for _, bad := range []string{"limit=0", "limit=501", "after=x&id=y", "id=y", "after=2026-01-01T00:00:00Z"} {
		if status := l.api(t, "/v1/jobs?"+bad, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
	tasks := 0
	for _, j := range l.r.Control.Jobs(admin.JobQuery{}) {
		if j.Task {
			tasks++
		}
		if j.Queue != "gpu" || j.Tool != "say" || !j.Deadline.After(j.Since) {
			t.Errorf("%+v", j)
		}
	}
	if tasks != 1 {
		t.Errorf("%d tasks", tasks)
	}
	for key, sees := range map[string][]string{"alice": {"alice"}, "bob": {"bob", "bob"}, "viewer": nil, "auditor": {"alice", "bob", "bob"}, "root": {"alice", "bob", "bob"}, "": {"alice", "bob", "bob"}} {
		page := l.as(t, key).get(t, "/jobs").Body.String()
		for _, who := range []string{"alice", "bob"} {
			want := 0
			for _, s := range sees {
				if s == who {
					want++
				}
			}
			if got := strings.Count(page, fmt.Sprintf("<bdi>%s of default</bdi>", who)); got != want {
				t.Errorf("%q sees %d jobs of %s: %s", key, got, who, page)
			}
		}
		if strings.Contains(page, "carried") {
			t.Errorf("%q sees arguments: %s", key, page)
		}
	}
	cancel()
	calls.Wait()
	testwait.Until(t, patience, "the calls that were cancelled are no jobs", func() bool { return len(l.r.Control.Jobs(admin.JobQuery{})) == 1 })
}

// An administrator sees the searches of the last day, an auditor all of them but the words, and
// nobody else that there are any.
func TestConsoleSearches(t *testing.T) {
	t.Parallel()
	l := lookedAt(t, servers{"a": fake("one")}, nil)
	kept := store.NewLearning(l.r.Store)
	if err := kept.Add(t.Context(), []store.SearchPair{
		{Tenant: "acme", Caller: "p", Server: "a", Tool: "a__pid", Query: "lately <b>carried", At: time.Now().Add(-time.Hour), Place: 3},
		{Tenant: "acme", Caller: "p", Server: "a", Tool: "a__fail", Query: "before carried", At: time.Now().Add(-25 * time.Hour), Place: 1},
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"auditor", "root", ""} {
		b := l.as(t, key)
		page := b.get(t, "/searches").Body.String()
		if !strings.Contains(page, "<bdi>a__pid</bdi>") || strings.Contains(page, "a__fail") || !strings.Contains(page, store.PrincipalHash("p")) {
			t.Errorf("%q sees of the last day: %s", key, page)
		}
		all := b.get(t, "/searches?since=48h").Body.String()
		if !strings.Contains(all, "<bdi>a__fail</bdi>") || strings.Contains(all, "carried") != (key != "auditor") || strings.Contains(all, "<b>") {
			t.Errorf("%q sees of two days: %s", key, all)
		}
	}
	list, err := l.r.Control.Searches(t.Context(), time.Now().Add(-48*time.Hour), 10)
	if err != nil || len(list) != 2 || list[0].Place != 3 || list[1].Query != "before carried" {
		t.Errorf("%+v %v", list, err)
	}
	for _, limit := range []int{0, admin.MaxSearches + 1} {
		if _, err := l.r.Control.Searches(t.Context(), time.Now(), limit); err == nil {
			t.Errorf("%d searches are read", limit)
		}
	}
	for since, want := range map[string]int{
		"1678-01-01T00:00:00Z": http.StatusOK, "2261-12-31T23:59:59Z": http.StatusOK, "0001-01-01T00:00:00Z": http.StatusBadRequest, "1677-12-31T23:59:59Z": http.StatusBadRequest,
		"2262-01-01T00:00:00Z": http.StatusBadRequest, "2262-04-12T00:00:00Z": http.StatusBadRequest, "9999-12-31T23:59:59Z": http.StatusBadRequest, "1d": http.StatusBadRequest,
	} {
		var list []admin.Search
		if status := l.api(t, "/v1/find/searches?since="+since, &list); status != want {
			t.Errorf("since %s: %d", since, status)
		}
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			continue
		}
		if _, err := l.r.Control.Searches(t.Context(), at, 10); errors.Is(err, admin.ErrSince) != (want != http.StatusOK) {
			t.Errorf("since %s: %v", since, err)
		}
	}
}
