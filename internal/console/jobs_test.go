package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// queue is a gateway with jobs, one in each second.
type queue struct {
	Model
	jobs int
}

func (q queue) Jobs(ask admin.JobQuery) []admin.Job {
	var list []admin.Job
	for i := range q.jobs {
		since := time.Unix(int64(i+1), 0)
		if since.After(ask.After.Since) && len(list) < ask.Limit {
			list = append(list, admin.Job{ID: "job-" + strconv.Itoa(i), Since: since})
		}
	}
	return list
}

// A page of jobs says how many it has, and leads to the rest.
func TestJobsInPages(t *testing.T) {
	t.Parallel()
	for jobs, want := range map[int][]int{0: {0}, 1: {1}, shownJobs: {shownJobs}, shownJobs + 1: {shownJobs, 1}, 2*shownJobs + 3: {shownJobs, shownJobs, 3}} {
		at := "/jobs"
		for i, n := range want {
			w := httptest.NewRecorder()
			v := &visit{Console: &Console{}, w: w, r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody), session: &session{}, person: person{role: Admin}, model: queue{jobs: jobs}}
			v.jobs()
			page := w.Body.String()
			if got := strings.Count(page, `<code class="id">job-`); got != n || strings.Contains(page, "A page has") != (i < len(want)-1) {
				t.Errorf("page %d of %d jobs has %d", i, jobs, got)
			}
			since := time.Unix(int64((i+1)*shownJobs), 0).UTC().Format(time.RFC3339Nano)
			at = "/jobs?" + url.Values{"after": {since}, "id": {"job-" + strconv.Itoa((i+1)*shownJobs-1)}}.Encode()
			if i < len(want)-1 && !strings.Contains(page, strings.ReplaceAll(at, "&", "&amp;")) {
				t.Errorf("page %d of %d jobs does not lead to %s: %s", i, jobs, at, page)
			}
		}
	}
}
