package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestMayVisit(t *testing.T) {
	for _, tt := range []struct {
		hosts, url string
		want       bool
	}{
		{"", "https://example.com/a?b", true},
		{"", "HTTPS://example.com:8443/", true},
		{"", "http://127.0.0.1:9/", true},
		{"", "http://localhost/", true},
		{"", "http://example.com/", false},
		{"", "https://user:pw@example.com/", false},
		{"", "https:///", false},
		{"", "//example.com/", false},
		{"", "javascript:alert(1)", false},
		{"", "file:///etc/passwd", false},
		{"", "https://exa mple.com/", false},
		{"", "", false},
		{"login.example.com", "https://Login.Example.com/", true},
		{"login.example.com", "https://login.example.com.evil.example/", false},
		{"login.example.com", "https://example.com/", false},
		{"*.example.com", "https://a.b.example.com/", true},
		{"*.example.com", "https://example.com/", false},
		{"*.example.com", "https://evilexample.com/", false},
		{"*example.com", "https://evilexample.com/", false},
		{"a.example b.example", "https://b.example/", true},
	} {
		m := Mount{URLHosts: strings.Fields(tt.hosts)}
		params := `{"mode":"url","message":"m","url":` + string(mcp.Quote(tt.url)) + `}`
		if got := m.allowsURL([]byte(params)); got != tt.want {
			t.Errorf("hosts %q, URL %q: %t", tt.hosts, tt.url, got)
		}
	}
	if !new(Mount).allowsURL([]byte(`{"message":"m"}`)) {
		t.Error("a form was taken for a visit")
	}
}

// A server may ask each principal so often an hour, in all calls and eras.
func TestQuestionsPerHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounts := mounted(askingBackend(t, askForm))
		mounts[0].QuestionsPerHour = 2
		r := newRig(t, mounts).run()
		asked := func(who string) bool {
			return strings.Contains(r.modern("1", "tools/call", `"name":"s__ask"`, "Authorization", "Bearer "+who).text(), "input_required")
		}
		for i, want := range []bool{true, true, false, false} {
			if got := asked("alice"); got != want {
				t.Errorf("question %d of alice: %t", i+1, got)
			}
		}
		if !asked("bob") {
			t.Error("bob is not asked because alice was")
		}
		time.Sleep(time.Hour)
		if !asked("alice") {
			t.Error("alice is not asked in the next hour")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		r.asked.mu.Lock()
		defer r.asked.mu.Unlock()
		if len(r.asked.open) != 0 {
			t.Errorf("remembered for ever: %v", r.asked.open)
		}
	})
}
