//go:build !windows

package daemon_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/testwait"
)

// shelfOfTools is a real server of documents; what it answers can be changed. A
// tool at its path /hello/{word} answers with the path.
type shelfOfTools struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int32
}

func newShelf(t *testing.T) *shelfOfTools {
	t.Helper()
	s := &shelfOfTools{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tools.yaml" {
			fmt.Fprint(w, r.URL.Path)
			return
		}
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shelfOfTools) answers(f http.HandlerFunc) { s.answer.Store(&f) }

func (s *shelfOfTools) holds(text string) {
	s.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

// document is one of a tool greet that asks the server itself.
func (s *shelfOfTools) document(path string) string {
	return fmt.Sprintf(`{"tools":[{"name":"greet","type":"http","url":"%s/%s/{word}","class":"read_only","input_schema":%s}]}`,
		s.URL, path, `{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)
}

func (s *shelfOfTools) setting(more ...any) map[string]any {
	one := map[string]any{"url": s.URL + "/tools.yaml"}
	for i := 0; i+1 < len(more); i += 2 {
		one[more[i].(string)] = more[i+1]
	}
	return map[string]any{"tool_urls": []any{one}}
}

// row is how an address is listed.
func (s *shelfOfTools) row(r *running) admin.Server {
	for _, row := range r.Servers() {
		if row.Name == s.URL+"/tools.yaml" {
			return row
		}
	}
	return admin.Server{}
}

// awaitServed waits until the document is there and its tool can be called, which is a
// moment later.
func (s *shelfOfTools) awaitServed(t *testing.T, r *running) {
	t.Helper()
	testwait.Until(t, patience, "the tool of the document is served", func() bool {
		return s.row(r).State == "ready" && slices.ContainsFunc(r.Gateway.Capabilities(), func(c offered) bool { return c.Exposed == "tools__greet" })
	})
}

// Tools of an address are served; what changes there waits for a person, and what
// goes wrong leaves everything as it is.
func TestToolsOfAnAddress(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.holds(s.document("one"))
	h := newHome(t)
	h.write(t, servers{"a": fake()}, s.setting())
	r := h.newRunning(t)
	s.awaitServed(t, r)
	c := r.client(t)
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/one/x" {
		t.Error(got)
	}

	// A document that has changed changes nothing by itself.
	s.holds(s.document("two"))
	did, err := r.TakeFile(true)
	if err != nil || len(did.Pending) != 1 || !strings.Contains(did.Pending[0], "tools__greet has another url") || !strings.Contains(did.Pending[0], "/two/") {
		t.Fatalf("%+v, %v", did, err)
	}
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/one/x" {
		t.Error(got)
	}
	if row := s.row(r); len(row.Pending) != 1 || len(r.Status().Pending) != 1 {
		t.Errorf("%+v, %v", row, r.Status().Pending)
	}
	if _, err := r.TakeFile(false); err != nil {
		t.Fatal(err)
	}
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/one/x" {
		t.Error("a reload that nobody asked for takes it:", got)
	}
	// What a person takes is what was shown, and not what came since.
	s.holds(s.document("three"))
	if did, err = r.TakeFile(true); err != nil || len(did.Applied) != 1 || len(did.Pending) != 1 || !strings.Contains(did.Pending[0], "/three/") {
		t.Fatalf("%+v, %v", did, err)
	}
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/two/x" {
		t.Error(got)
	}

	// What goes wrong keeps what there is, and is shown.
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not found": {http.NotFound, "it answers 404"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "# "+strings.Repeat("x", tools.MaxDocument)+"\n"+s.document("four"))
		}, "larger than"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other.yaml", http.StatusFound)
		}, "leads elsewhere"},
		"nonsense": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "expected a map"},
		"a command": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"greet","type":"command","args":["id"]}]}`)
		}, "need the sha256"},
		"a variable": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"greet","type":"http","url":"https://a.example","headers":{"A":"${HOME}"}}]}`)
		}, "variables are of files"},
		"a neighbour": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"greet","type":"http","url":"http://127.0.0.1:1/"}]}`)
		}, "not of the public internet"},
		"metadata": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"greet","type":"http","url":"http://169.254.169.254/"}]}`)
		}, "not of the public internet"},
		"allowed": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"greet","type":"http","url":"https://a.example","allow_addresses":["10.0.0.0/8"]}]}`)
		}, "not of the public internet"},
		"a namespace": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"x","namespace":"a","type":"http","url":"https://a.example"}]}`)
		}, "of the server a"},
		"a half schema": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"tools":[{"name":"x","type":"http","url":"https://a.example","input_schema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?!x)"}}}}]}`)
		}, "cannot be checked"},
	} {
		s.answers(tc.answer)
		did, err := r.TakeFile(true)
		if err != nil || len(did.Warnings) != 1 || !strings.Contains(did.Warnings[0], tc.want) {
			t.Errorf("%s: %+v, %v", name, did, err)
		}
		if row := s.row(r); !strings.Contains(row.Reason, tc.want) || row.State != "ready" || !row.Stale {
			t.Errorf("%s: %+v", name, row)
		}
	}
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/three/x" {
		t.Error(got)
	}
}

// The next start has the last good copy, whether the address answers or not, and
// no copy that is not genuine.
func TestKeptToolsOfAnAddress(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.holds(s.document("one"))
	h := newHome(t)
	h.write(t, servers{"a": fake()}, s.setting())
	first := h.newRunning(t)
	s.awaitServed(t, first)
	if err := first.End(); err != nil {
		t.Fatal(err)
	}
	// It hangs now, which keeps neither the start nor a reload.
	release := make(chan struct{})
	s.answers(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	second := h.newRunning(t)
	c := second.client(t)
	if got := text(t, c, "tools__greet", `{"word":"x"}`); got != "/one/x" {
		t.Error(got)
	}
	if err := second.End(); err != nil {
		t.Fatal(err)
	}
	// What somebody else has written is not used.
	s.answers(http.NotFound)
	copies, err := filepath.Glob(h.path("state/tools-*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%v, %v", copies, err)
	}
	if err := os.WriteFile(copies[0], []byte("e30=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := h.newRunning(t)
	testwait.Until(t, patience, "the address has failed", func() bool { return s.row(third).State == "failed" })
	if got := tried(t.Context(), third.client(t), "tools__greet", `{"word":"x"}`); got == "ok" {
		t.Error("a copy that is not genuine is used")
	}
	// When it answers again it is taken, without a copy before it.
	s.holds(s.document("two"))
	if _, err := third.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	third.Gateway.Settle(t.Context())
	if got := text(t, third.client(t), "tools__greet", `{"word":"x"}`); got != "/two/x" {
		t.Error(got)
	}
	// An address that is taken out takes its tools and its copy with it.
	h.write(t, servers{"a": fake()}, nil)
	if _, err := third.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	if copies, _ := filepath.Glob(h.path("state/tools-*")); len(copies) != 0 {
		t.Errorf("%v", copies)
	}
	third.Gateway.Settle(t.Context())
	if got := tried(t.Context(), third.client(t), "tools__greet", `{"word":"x"}`); got == "ok" {
		t.Error("its tools are there")
	}
}

// A document whose hash is written may hold commands, is never another one, and is
// asked for once.
func TestPinnedTools(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	document := `{"tools":[{"name":"say","type":"command","sandbox":"auto","args":["echo","{word}"],"input_schema":{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}}]}`
	sum := sha256.Sum256([]byte(document))
	s.holds(document + " ")
	h := newHome(t)
	h.write(t, servers{"a": fake()}, s.setting("sha256", hex.EncodeToString(sum[:])))
	r := h.newRunning(t)
	testwait.Until(t, patience, "the wrong document is refused", func() bool { return strings.Contains(s.row(r).Reason, "not the one that is written") })
	if row := s.row(r); row.State != "failed" {
		t.Errorf("%+v", row)
	}
	s.holds(document)
	did, err := r.TakeFile(true)
	if err != nil || len(did.Pending)+len(did.Warnings) != 0 {
		t.Fatalf("%+v, %v", did, err)
	}
	r.Gateway.Settle(t.Context())
	c := r.client(t)
	if got := text(t, c, "tools__say", `{"word":"here"}`); got != "here\n" {
		t.Errorf("%q", got)
	}
	asked := s.asked.Load()
	s.holds(s.document("other"))
	if _, err := r.TakeFile(true); err != nil {
		t.Fatal(err)
	}
	if got := s.asked.Load(); got != asked {
		t.Errorf("it was asked for %d times more", got-asked)
	}
	if got := text(t, c, "tools__say", `{"word":"here"}`); got != "here\n" {
		t.Errorf("%q", got)
	}
}

// An address that is asked now and then shows what has changed by itself.
func TestToolsThatAreAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.holds(s.document("one"))
	h := newHome(t)
	h.write(t, servers{"a": fake()}, s.setting("refresh", "1s"))
	r := h.newRunning(t)
	s.awaitServed(t, r)
	s.holds(s.document("two"))
	testwait.Until(t, patience, "what has changed is shown", func() bool { return len(r.Status().Pending) == 1 })
	r.Gateway.Settle(t.Context())
	if got := text(t, r.client(t), "tools__greet", `{"word":"x"}`); got != "/one/x" {
		t.Error(got)
	}
	s.holds(s.document("one"))
	testwait.Until(t, patience, "nothing waits any more", func() bool { return len(r.Status().Pending) == 0 })
}
