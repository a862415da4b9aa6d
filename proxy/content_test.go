package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// A content type in another case is accepted, a compressed body is not.
func TestContentOfRequests(t *testing.T) {
	r := newRig(t, nil)
	if w := r.post(initBody, "Accept", "Application/JSON, Text/Event-Stream"); w.code() != http.StatusOK {
		t.Errorf("another case: status %d, %s", w.code(), w.text())
	}
	for coding, want := range map[string]int{"identity": 200, "Identity": 200, "gzip": 415, "deflate": 415, "identity, br": 415} {
		w := r.post(initBody, "Content-Encoding", coding)
		if w.code() != want {
			t.Errorf("%s: status %d, want %d", coding, w.code(), want)
		}
		if want == 415 && (!strings.Contains(w.text(), "Content-Encoding") || w.field("Accept-Encoding") != "identity") {
			t.Errorf("%s: %s", coding, w.text())
		}
	}
}

// _meta is an object in every revision.
func TestMetaIsAnObject(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	r := newRig(t, mounted(b))
	for _, version := range []mcp.Version{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		session := r.openAt(version)
		for _, meta := range []string{"5", "[]", `"x"`, "true", "null"} {
			for _, body := range []string{
				request("1", "tools/call", `{"name":"s__echo","arguments":{},"_meta":`+meta+`}`),
				request("1", "ping", `{"_meta":`+meta+`}`), request("1", "tools/list", `{"_meta":`+meta+`}`),
			} {
				w := r.post(body, "Mcp-Session-Id", session)
				if c, id := code(t, w); c != "-32602" || id != "1" || !strings.Contains(w.text(), "_meta") {
					t.Errorf("%s: %s is answered %s", version, body, w.text())
				}
			}
		}
		if w := r.legacy(session, "1", "ping", `{"_meta":{"a":1}}`); w.code() != http.StatusOK || strings.Contains(w.text(), "error") {
			t.Errorf("%s: an object: %s", version, w.text())
		}
		if w := r.post(`{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":5}}`, "Mcp-Session-Id", session); w.code() != http.StatusAccepted {
			t.Errorf("%s: a notification: status %d", version, w.code())
		}
	}
	w := r.post(strings.Replace(initBody, `"clientInfo"`, `"_meta":[],"clientInfo"`, 1))
	if c, _ := code(t, w); c != "-32602" || r.sessions.count() != 4 {
		t.Errorf("initialize: %s", w.text())
	}
	if calls := b.seen(""); len(calls) > 0 {
		t.Errorf("%d calls reached the server", len(calls))
	}
}
