package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
)

var errDown = errors.New("the disk <b>is gone</b>")

// broken is a gateway whose store and audit log cannot be read.
type broken struct{ Model }

func (broken) Status() admin.Status {
	return admin.Status{Servers: []admin.Server{{Name: "one", State: "ready"}}}
}
func (broken) Activity() admin.Activity                { return admin.Activity{} }
func (broken) Breakers() []admin.Breaker               { return nil }
func (broken) LiveCalls(uint64) (none admin.LiveCalls) { return none }
func (broken) Calls(context.Context, admin.CallQuery) ([]admin.Call, error) {
	return nil, errDown
}

func (broken) CallsOver(context.Context, time.Time, time.Duration) ([]admin.CallBucket, error) {
	return nil, errDown
}

func (broken) ShowAudit(context.Context, string) (none admin.AuditFound, _ error) {
	return none, errDown
}

func (broken) Catalog(context.Context, admin.CatalogQuery) ([]admin.CatalogEntry, error) {
	return nil, errDown
}

func (broken) CatalogEntry(context.Context, string, string) (none admin.CatalogEntry, _ error) {
	return none, errDown
}

func (broken) Approvals(context.Context, string) ([]approval.Item, error) { return nil, errDown }

func (broken) Approval(context.Context, string) (none approval.Item, _ error) { return none, errDown }

func (broken) BudgetUse(context.Context, admin.BudgetQuery) ([]admin.BudgetUse, error) {
	return nil, errDown
}

func (broken) ToolUsage(context.Context, time.Time, []string) ([]admin.ToolUsage, error) {
	return nil, errDown
}

func (broken) Why(context.Context, admin.WhyQuestion) (none admin.Why, _ error) { return none, errDown }

func (broken) WhoCan(context.Context, string, *admin.Caller) ([]admin.WhoCan, error) {
	return nil, errDown
}

func (broken) Policy(context.Context) (none admin.Policy, _ error) { return none, errDown }

func (broken) Replicas() []admin.Replica { return nil }

func (broken) Runs(context.Context, admin.RunQuery) ([]admin.Run, error) { return nil, errDown }

func (broken) Run(context.Context, string, string) (none admin.RunDetails, _ error) {
	return none, errDown
}

func (broken) Jobs(admin.JobQuery) []admin.Job { return nil }

func (broken) Searches(context.Context, time.Time, int) ([]admin.Search, error) { return nil, errDown }

// nobody knows no callers.
type nobody struct{}

func (nobody) Authenticated() bool { return false }

func (nobody) SignIn(*http.Request, string) (*gate.Identity, time.Time, error) {
	return nil, time.Time{}, errDown
}

func (nobody) Now(*gate.Identity) *gate.Identity { return nil }

func (nobody) Settings() any { return nil }

func (nobody) Role(*gate.Identity) Role { return Nobody }

// A view whose source is down says so in its place, as text, and the rest of the page works.
func TestSourcesAreDown(t *testing.T) {
	t.Parallel()
	const at = "http://127.0.0.1:7778"
	c := New(Options{
		Log: slog.New(slog.DiscardHandler), URL: at, Local: true, Hosts: func() []string { return nil }, Identities: nobody{},
		Model: func(*gate.Identity) Model { return broken{} }, Failures: func(h http.Handler) http.Handler { return h },
		From: func(r *http.Request) string { return r.RemoteAddr }, Done: t.Context().Done(),
	})
	get := func(path, cookie string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at+path, http.NoBody)
		r.RemoteAddr = "127.0.0.1:50000"
		r.AddCookie(&http.Cookie{Name: "toolgate-console", Value: cookie})
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	cookie := get(strings.TrimPrefix(c.Link(), at), "").Result().Cookies()[0].Value
	for path, want := range map[string]struct {
		status, times int
		works         string // what else is on the page
	}{
		"/calls":             {200, 1, `name="tool"`},
		"/calls/c-1":         {503, 1, "c-1"},
		"/catalog":           {200, 1, `name="server"`},
		"/catalog/entry":     {503, 1, "Approvals"},
		"/approvals":         {200, 1, "waiting"},
		"/approvals/a":       {503, 1, "Budgets"},
		"/budgets":           {200, 2, "Tools of the last 24 hours"},
		"/access?name=x":     {200, 1, "the disk"},
		"/access/replay":     {200, 1, `name="since"`},
		"/now":               {200, 0, "one"},
		"/runs":              {200, 1, "interrupted"},
		"/runs?state=gone":   {404, 0, "nothing at this address"},
		"/runs/run_x":        {503, 1, "run_x"},
		"/jobs":              {200, 0, "in a queue for workers"},
		"/searches":          {200, 1, `name="since"`},
		"/replicas":          {200, 0, "this gateway is alone"},
		"/now/chart":         {503, 0, "cannot be read"},
		"/no/such/page/here": {404, 0, "nothing at this address"},
	} {
		w := get(path, cookie)
		page := w.Body.String()
		if w.Code != want.status || strings.Count(page, "This cannot be shown: the disk &lt;b&gt;is gone") != want.times || !strings.Contains(page, want.works) || strings.Contains(page, "<b>is gone") {
			t.Errorf("%s: %d %s", path, w.Code, page)
		}
	}
}
