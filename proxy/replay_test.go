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

// idsOf are the ids of the events of a stream.
func idsOf(text string) []string {
	var ids []string
	for _, m := range eventIDs.FindAllStringSubmatch(text, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// A client that lost its stream comes back with the id of the last event and
// gets the rest, once, in order (2025-11-25 basic/transports, Resumability and
// Redelivery).
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
		// From the middle of the call on, while it runs.
		back := get(session, ids[1])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !back.ended() || back.code() != http.StatusOK || strings.Count(back.text(), "notifications/progress") != 2 || strings.Count(back.text(), `"result":`) != 1 {
			t.Errorf("the rest: %d, ended %t, %q", back.code(), back.ended(), back.text())
		}
		// From its beginning, when all is there.
		all := get(session, ids[0])
		if !all.ended() || strings.Count(all.text(), "notifications/progress") != 3 || !strings.HasSuffix(all.text(), back.text()) {
			t.Errorf("from the beginning: ended %t, %q", all.ended(), all.text())
		}
		// Nobody else, and nothing made up.
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

// Whatever is kept for clients that may come back is bounded and has an end.
func TestReplaysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replays{most: 100, keep: time.Minute}
		var streams []*replayed
		for range 5 {
			s := r.open("a", "")
			s.add([]byte(strings.Repeat("x", 40)), true)
			streams = append(streams, s)
		}
		if r.bytes > 100 || len(r.streams) != 2 {
			t.Errorf("%d streams of %d bytes are kept", len(r.streams), r.bytes)
		}
		if _, _, _, err := streams[0].after(0); err == nil {
			t.Error("the oldest stream is still there")
		}
		if events, more, _, err := streams[4].after(0); err != nil || more || len(events) != 1 {
			t.Errorf("the newest: %d events, %t, %v", len(events), more, err)
		}
		if r.find("b", streams[4].number) != nil {
			t.Error("a stream of another session was found")
		}
		streams[4].add([]byte(strings.Repeat("x", 1000)), false)
		if r.bytes > 100 {
			t.Errorf("%d bytes are kept", r.bytes)
		}
		if n := streams[4].add([]byte("late"), false); n != 3 {
			t.Errorf("an event of a stream that was thrown out has the number %d, want 3", n)
		}
		if r.bytes != 0 {
			t.Errorf("%d bytes are counted for nothing", r.bytes)
		}
		done := r.open("a", "")
		done.add([]byte("x"), true)
		running := r.open("a", "")
		running.add([]byte("y"), false)
		time.Sleep(2 * time.Minute)
		r.sweep(time.Now())
		if len(r.streams) != 1 || r.streams[0] != running || r.bytes != 1 {
			t.Errorf("after a while %d streams of %d bytes are kept", len(r.streams), r.bytes)
		}
	})
}
