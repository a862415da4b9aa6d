package proxy

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

var eventIDs = regexp.MustCompile(`(?m)^id: (\S+)$`)

// idsOf returns the ids of the events of a stream.
func idsOf(text string) []string {
	var ids []string
	for _, m := range eventIDs.FindAllStringSubmatch(text, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// A client that lost its stream resumes it with the id of the last event and gets the
// rest, once, in order (2025-11-25 basic/transports, Resumability and Redelivery).
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newScript(t, "s", mcp.Legacy, tool("slow"))
		b.reply = slowly(mcp.Legacy, 3*time.Second, 0, time.Second, 2*time.Second)
		r := newRig(t, mounted(b)).run()
		session, other := r.open(), r.open()
		bob := r.open("Authorization", "Bearer bob")
		w, leave := r.begin(httpRequest("POST", "/mcp", request("1", "tools/call", `{"name":"s__slow","_meta":{"progressToken":1}}`), "Mcp-Session-Id", session))
		time.Sleep(500 * time.Millisecond)
		leave()
		w.mu.Lock()
		w.broken = errBoom
		w.mu.Unlock()
		synctest.Wait()
		ids := idsOf(w.text())
		if len(ids) != 2 || !strings.HasPrefix(w.text(), "id: "+ids[0]+"\ndata: \n\n") {
			t.Fatalf("the stream has the ids %q: %q", ids, w.text())
		}
		get := func(session, last string, headers ...string) *recorder {
			got, _ := r.begin(httpRequest("GET", "/mcp", "", append(headers, "Mcp-Session-Id", session, "Last-Event-Id", last)...))
			synctest.Wait()
			return got
		}
		// From the middle of the call, while it runs.
		back := get(session, ids[1])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !back.ended() || back.code() != http.StatusOK || strings.Count(back.text(), "notifications/progress") != 2 || strings.Count(back.text(), `"result":`) != 1 {
			t.Errorf("the rest: %d, ended %t, %q", back.code(), back.ended(), back.text())
		}
		// From its beginning, when it is complete.
		all := get(session, ids[0])
		if !all.ended() || strings.Count(all.text(), "notifications/progress") != 3 || !strings.HasSuffix(all.text(), back.text()) {
			t.Errorf("from the beginning: ended %t, %q", all.ended(), all.text())
		}
		// Neither other callers nor invented ids.
		for name, foreign := range map[string]*recorder{
			"another session":   get(other, ids[0]),
			"another principal": get(bob, ids[0], "Authorization", "Bearer bob"),
			"made up":           get(session, "1.1"),
			"tampered":          get(session, ids[0][:len(ids[0])-3]+"AAA"),
			"stolen session":    get(session, ids[0], "Authorization", "Bearer bob"),
		} {
			want := http.StatusBadRequest // 404 would end the session
			if name == "stolen session" {
				want = http.StatusNotFound
			}
			if c, _ := code(t, foreign); foreign.code() != want || c != "-32600" {
				t.Errorf("%s: status %d, code %s; want %d", name, foreign.code(), c, want)
			}
			if strings.Contains(foreign.text(), "progress") || strings.Contains(foreign.text(), `"result"`) {
				t.Errorf("%s: %d %q", name, foreign.code(), foreign.text())
			}
		}
		if got := len(b.seen("")); got != 1 {
			t.Errorf("the tool ran %d times", got)
		}
	})
}
