//go:build e2e && unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/toolgate/toolgate/internal/testwait"
)

// liveView is the live view of the console, as a browser hears it.
type liveView struct {
	r      *reader
	events *bufio.Scanner
}

func watch(t *testing.T, r *reader) *liveView {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.w.console+"/now/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := (&http.Client{Jar: r.http.Jar}).Do(req) // which has no timeout: the stream has no end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the live view answers %d", resp.StatusCode)
	}
	v := &liveView{r, bufio.NewScanner(resp.Body)}
	v.events.Buffer(nil, 1<<20)
	return v
}

// next returns the parts of the next event of a name.
func (v *liveView) next(t *testing.T, name string) *readPage {
	t.Helper()
	here, text := false, ""
	for v.events.Scan() {
		line := v.events.Text()
		switch {
		case line == "" && here:
			root, err := html.Parse(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			return v.r.parts(t, root)
		case line == "event: "+name:
			here = true
		case here && strings.HasPrefix(line, "data: "):
			text += strings.TrimPrefix(line, "data: ") + "\n"
		}
	}
	t.Fatalf("the live view ends: %v", v.events.Err())
	return nil
}

// factsOfLive compares what Now shows while it is watched with what commands say: the state,
// the sessions, the calls as they end, and the calls of the last hour.
func factsOfLive(t *testing.T, r *reader) {
	v := watch(t, r)
	state := v.next(t, "state")
	var status gatewayStatus
	if err := json.Unmarshal(r.run(t, "toolgate status"), &status); err != nil {
		t.Fatal(err)
	}
	factsOfState(t, state, status)
	var top struct {
		Mode     string
		Sessions int
	}
	if err := json.Unmarshal(r.run(t, "toolgate top --count=1"), &top); err != nil {
		t.Fatal(err)
	}
	for _, fact := range []string{fmt.Sprint(top.Sessions, " sessions"), "Mode " + top.Mode} {
		if !slices.Contains(state.lines, fact) {
			t.Errorf("the live view has no %q: %q", fact, state.lines)
		}
	}

	const calls = 5
	ann := &raw{url: r.w.mcp, key: ownerKey}
	for i := range calls {
		if _, err := ann.callTool(t.Context(), "demo__add", object{"a": i, "b": 1}); err != nil {
			t.Fatal(err)
		}
	}
	shown := [][]string{}
	for len(shown) < calls {
		shown = v.next(t, "calls").columns(t, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	}
	var want [][]string
	testwait.Until(t, startTimeout, "the calls are in the audit log", func() bool {
		var entries []auditEntry
		if err := json.Unmarshal(r.run(t, fmt.Sprintf("toolgate audit search 'kind=tool tool=demo__add' --limit=%d", calls)), &entries); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(entries)
		want = rowsOfCalls(entries)
		return len(want) == calls && want[0][7] == shown[0][7]
	})
	same(t, want, shown)

	// The chart has the calls of each minute: their sum is what the usage says.
	testwait.Until(t, startTimeout, "the calls are in the log of executions", func() bool {
		var usage struct {
			Usage []struct{ Calls, Failures, Refused int64 }
		}
		if err := json.Unmarshal(r.run(t, "toolgate usage --since=1h"), &usage); err != nil {
			t.Fatal(err)
		}
		var made, failed, inChart, failedInChart int64
		for _, u := range usage.Usage {
			made, failed = made+u.Calls, failed+u.Failures+u.Refused
		}
		chart := r.chart(t)
		for i, n := range chart[1] {
			inChart, failedInChart = inChart+n, failedInChart+chart[2][i]
		}
		if made != inChart || failed != failedInChart {
			t.Logf("%d calls and %d failures in the chart, %d and %d of the command", inChart, failedInChart, made, failed)
		}
		return made > 100 && made == inChart && failed == failedInChart
	})
}

// chart returns the times, the calls and the failures of the chart of Now.
func (r *reader) chart(t *testing.T) (all [3][]int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.w.console+"/now/chart", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || len(all[0]) != 61 || time.Since(time.Unix(all[0][60], 0)) > time.Hour {
		t.Fatalf("the chart: %v %v", err, all)
	}
	return all
}
