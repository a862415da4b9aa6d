package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/admin/admintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "the-token"

var errBroken = errors.New("toolgate.yaml:3: what is this?")

var errStays = errors.New("process 1 serves this configuration already")

// fakeGateway echoes lines to whoever has the key "good", or none.
type fakeGateway struct {
	reloads atomic.Int64
	broken  atomic.Bool
	serving atomic.Int64
	room    atomic.Int64
	stays   atomic.Bool
	hold    chan struct{} // Status waits for it, unless nil
}

var fakeStatus = admin.Status{
	Servers: []admin.Server{{Name: "a", State: "ready", Tools: 3, Seconds: 1.5}, {Name: "b", State: "pending", Pending: []string{"start"}}},
	Pending: []string{"gate.open"}, AtNextStart: []string{"listen.http"},
}

var fakeReloaded = admin.Reloaded{File: "toolgate.yaml", Applied: []string{"server a: args"}, AtNextStart: []string{"listen.http", "store"}}

func (g *fakeGateway) Status() admin.Status {
	if g.hold != nil {
		<-g.hold
	}
	return fakeStatus
}

func (g *fakeGateway) Reload() (admin.Reloaded, error) {
	g.reloads.Add(1)
	if g.broken.Load() {
		return admin.Reloaded{}, errBroken
	}
	return fakeReloaded, nil
}

func (g *fakeGateway) MakeRoom() error {
	if g.stays.Load() {
		return errStays
	}
	g.room.Add(1)
	return nil
}

func (g *fakeGateway) ServeStdio(_ context.Context, key, _ string, accept func() (io.Reader, io.Writer, error), refuse func(error)) error {
	if key != "" && key != "good" {
		err := errors.New("this gateway wants an API key")
		refuse(err)
		return err
	}
	r, w, err := accept()
	if err != nil {
		return err
	}
	g.serving.Add(1)
	defer g.serving.Add(-1)
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			_, err := io.WriteString(w, "bye\n")
			return err
		}
		if _, err := io.WriteString(w, "echo "+line); err != nil {
			return err
		}
	}
}

// socket returns a path that is short enough.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg") //nolint:usetesting // the path of t.TempDir is too long for a socket on some systems
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "control.sock")
}

// serve serves a gateway on a socket until the test ends.
func serve(t *testing.T, g admin.Gateway, token string) *admin.Client {
	t.Helper()
	path := socket(t)
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	handler := admintest.Check(t, admin.Handler(g, token), http.Header{"Toolgate-Token": {token}})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }() // ends with Close
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return &admin.Client{Path: path, Token: token}
}

func TestServersAndReload(t *testing.T) {
	g := &fakeGateway{}
	c := serve(t, g, token)
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fakeStatus, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	did, err := c.Reload(t.Context())
	if err != nil {
		t.Errorf("reload: %v", err)
	}
	if diff := cmp.Diff(fakeReloaded, did); diff != "" {
		t.Errorf("reloaded (-want +got):\n%s", diff)
	}
	g.broken.Store(true)
	var rejected *admin.ReloadError
	if _, err := c.Reload(t.Context()); !errors.As(err, &rejected) || err.Error() != errBroken.Error() {
		t.Errorf("reload of a broken file: %v", err)
	}
}

func TestMakeRoom(t *testing.T) {
	g := &fakeGateway{}
	c := serve(t, g, token)
	if err := c.MakeRoom(t.Context()); err != nil || g.room.Load() != 1 {
		t.Errorf("%v, %d times", err, g.room.Load())
	}
	g.stays.Store(true)
	var stays *admin.StaysError
	if err := c.MakeRoom(t.Context()); !errors.As(err, &stays) || err.Error() != errStays.Error() || g.room.Load() != 1 {
		t.Errorf("a gateway that stays: %v, %d times", err, g.room.Load())
	}
}

func TestToken(t *testing.T) {
	tests := []struct {
		name, server string
		sent         []string
		status       int
	}{
		{"right", token, []string{token}, http.StatusOK},
		{"missing", token, nil, http.StatusUnauthorized},
		{"empty", token, []string{""}, http.StatusUnauthorized},
		{"wrong", token, []string{"x"}, http.StatusUnauthorized},
		{"its beginning", token, []string{token[:5]}, http.StatusUnauthorized},
		{"with more behind", token, []string{token + "x"}, http.StatusUnauthorized},
		{"other case", token, []string{strings.ToUpper(token)}, http.StatusUnauthorized},
		{"second of two", token, []string{"x", token}, http.StatusUnauthorized},
		{"the server has none", "", nil, http.StatusUnauthorized},
		{"the server has none, an empty one is sent", "", []string{""}, http.StatusUnauthorized},
	}
	for _, tt := range tests {
		for _, target := range []string{"GET /v1/status", "POST /v1/reload", "POST /v1/stdio", "POST /v1/make-room", "GET /v1/absent", "GET /"} {
			g := &fakeGateway{}
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			for _, s := range tt.sent {
				r.Header.Add("Toolgate-Token", s)
			}
			w := httptest.NewRecorder()
			admin.Handler(g, tt.server).ServeHTTP(w, r)
			if refused := w.Code == http.StatusUnauthorized; refused != (tt.status == http.StatusUnauthorized) {
				t.Errorf("%s, %s: %d", tt.name, target, w.Code)
			}
			if tt.status != http.StatusOK && g.reloads.Load()+g.serving.Load()+g.room.Load() != 0 {
				t.Errorf("%s, %s: reached the gateway", tt.name, target)
			}
		}
	}
}

func TestClientWithAWrongToken(t *testing.T) {
	g := &fakeGateway{}
	c := serve(t, g, token)
	c.Token = "wrong"
	_, listErr := c.Status(t.Context())
	_, stdioErr := c.Stdio(t.Context(), "good", "")
	_, reloadErr := c.Reload(t.Context())
	for what, err := range map[string]error{"servers": listErr, "reload": reloadErr, "stdio": stdioErr, "make room": c.MakeRoom(t.Context())} {
		var refused *admin.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "admin token") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if g.reloads.Load() != 0 {
		t.Error("reloaded")
	}
}

func TestOnlyTheKnownMethods(t *testing.T) {
	for target, status := range map[string]int{
		"POST /v1/status": http.StatusMethodNotAllowed, "GET /v1/make-room": http.StatusMethodNotAllowed, "GET /v1/reload": http.StatusMethodNotAllowed, "GET /v1/stdio": http.StatusMethodNotAllowed,
		"GET /": http.StatusNotFound, "GET /v1/status/": http.StatusNotFound, "GET /v2/servers": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		r.Header.Set("Toolgate-Token", token)
		w := httptest.NewRecorder()
		g := &fakeGateway{}
		admin.Handler(g, token).ServeHTTP(w, r)
		if w.Code != status || g.reloads.Load() != 0 {
			t.Errorf("%s: %d, want %d", target, w.Code, status)
		}
	}
}

func TestStdio(t *testing.T) {
	g := &fakeGateway{}
	c := serve(t, g, token)
	for _, key := range []string{"", "good"} {
		s, err := c.Stdio(t.Context(), key, "")
		if err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		if _, err := io.WriteString(s, "one\ntwo\nhal"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(s)
		for _, want := range []string{"echo one\n", "echo two\n"} {
			if line, err := in.ReadString('\n'); err != nil || line != want {
				t.Errorf("%q, %v; want %q", line, err, want)
			}
		}
		// Half closed: the gateway sees the end and can still answer.
		if err := s.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(in); err != nil || string(rest) != "bye\n" {
			t.Errorf("after the end of input: %q, %v", rest, err)
		}
		s.Close()
	}
	var refused *admin.RefusedError
	if _, err := c.Stdio(t.Context(), "bad", ""); !errors.As(err, &refused) || !strings.Contains(err.Error(), "API key") {
		t.Errorf("a bad key: %v", err)
	}
}

// What a client sends right behind its request is not lost.
func TestStdioReadsWhatCameEarly(t *testing.T) {
	c := serve(t, &fakeGateway{}, token)
	conn, err := net.Dial("unix", c.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/stdio HTTP/1.1\r\nHost: x\r\nToolgate-Token: "+token+"\r\n\r\nearly\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 101 ") || !strings.HasSuffix(string(all), "\r\n\r\necho early\nbye\n") {
		t.Errorf("%q, %v", all, err)
	}
}

func TestClientsAtTheSameTime(t *testing.T) {
	g := &fakeGateway{}
	c := serve(t, g, token)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s, err := c.Stdio(t.Context(), "good", "")
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			in := bufio.NewReader(s)
			for j := range 20 {
				line := fmt.Sprintf("%d/%d\n", i, j)
				if _, err := io.WriteString(s, line); err != nil {
					t.Error(err)
				}
				if got, err := in.ReadString('\n'); err != nil || got != "echo "+line {
					t.Errorf("%q, %v; want the echo of %q", got, err, line)
				}
			}
		})
		wg.Go(func() {
			if _, err := c.Status(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := c.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := g.reloads.Load(); got != 20 {
		t.Errorf("%d reloads", got)
	}
}

func TestNobodyAnswers(t *testing.T) {
	path := socket(t)
	c := &admin.Client{Path: path, Token: token}
	check := func(what string, want func(error) bool) {
		t.Helper()
		_, listErr := c.Status(t.Context())
		_, stdioErr := c.Stdio(t.Context(), "", "")
		_, reloadErr := c.Reload(t.Context())
		for call, err := range map[string]error{"servers": listErr, "reload": reloadErr, "stdio": stdioErr, "make room": c.MakeRoom(t.Context())} {
			if err == nil || !want(err) {
				t.Errorf("%s, %s: %v", what, call, err)
			}
		}
	}
	notRunning := func(err error) bool { return errors.Is(err, admin.ErrNotRunning) }
	check("no socket", notRunning)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("a file", notRunning)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	check("the socket of a dead gateway", notRunning)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("asked to stop: %v", err)
	}

	// A new gateway takes the place of the dead one.
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// answers serves a socket with bytes that are no gateway's.
func answers(t *testing.T, text string, hold bool) *admin.Client {
	t.Helper()
	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	release := make(chan struct{})
	wg.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, text)
				if hold {
					<-release
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(release)
		wg.Wait()
	})
	return &admin.Client{Path: path, Token: token}
}

func TestAnswersThatAreNone(t *testing.T) {
	long := "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
	for name, text := range map[string]string{
		"nothing":     "",
		"garbage":     "\x00\xff garbage\n\n\n",
		"half":        "HTTP/1.1 200",
		"no JSON":     "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"cut off":     long + `{"servers":[`,
		"an error":    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
		"a redirect":  "HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\nContent-Length: 0\r\n\r\n",
		"no content":  "HTTP/1.1 204 No Content\r\n\r\n",
		"not changed": "HTTP/1.1 304 Not Modified\r\n\r\n",
	} {
		c := answers(t, text, false)
		if got, err := c.Status(t.Context()); err == nil || errors.Is(err, admin.ErrNotRunning) || len(got.Servers) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if s, err := c.Stdio(t.Context(), "", ""); err == nil || errors.Is(err, admin.ErrNotRunning) {
			t.Errorf("%s: a stream %v, %v", name, s, err)
		}
	}
}

// Nobody waits for ever for a gateway that is stopped or hangs.
func TestSilenceHasADeadline(t *testing.T) {
	for name, text := range map[string]string{"silence": "", "half an answer": "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"} {
		c := answers(t, text, true)
		c.Timeout = 50 * time.Millisecond
		if _, err := c.Status(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: servers: %v", name, err)
		}
		if name == "silence" {
			if _, err := c.Stdio(t.Context(), "", ""); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: stdio: %v", name, err)
			}
		}
		c.Timeout = 0
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := c.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: servers with a deadline: %v", name, err)
		}
		if name == "silence" {
			if _, err := c.Stdio(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: stdio with a deadline: %v", name, err)
			}
		}
		cancel()
	}
	// A stream that is open has none.
	c := serve(t, &fakeGateway{}, token)
	c.Timeout = time.Second
	s, err := c.Stdio(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := bufio.NewReader(s)
	for began := time.Now(); time.Since(began) < 2*c.Timeout; {
		if _, err := io.WriteString(s, "late\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); line != "echo late\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
}

// Garbage on the socket hurts nobody else.
func TestGarbageFromClients(t *testing.T) {
	c := serve(t, &fakeGateway{}, token)
	for _, garbage := range []string{
		"", "\n", "\x00\xff\x16\x03\x01", "GET", "GET / HTTP/9.9\r\n\r\n", strings.Repeat("A", 1<<16),
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nToolgate-Token: " + token + "\r\nContent-Length: 5\r\n\r\n",
		"POST /v1/stdio HTTP/1.1\r\nHost: x\r\nToolgate-Token: " + token + "\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET /v1/status HTTP/1.1\r\nHost: x\r\nToolgate-Token : " + token + "\r\n\r\n",
	} {
		conn, err := net.Dial("unix", c.Path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage) // it may be closed on us, as it should
		conn.Close()
	}
	if got, err := c.Status(t.Context()); err != nil || len(got.Servers) != len(fakeStatus.Servers) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzHandler(f *testing.F) {
	for _, seed := range []string{
		"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/reload HTTP/1.1\r\nHost: x\r\nToolgate-Token: \r\n\r\n",
		"POST /v1/stdio HTTP/1.1\r\nHost: x\r\nToolgate-Token: wrong\r\nToolgate-Api-Key: good\r\n\r\n",
		"GET /v1/../v1/status HTTP/1.0\r\n\r\n",
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		for _, own := range []string{"", "unguessable \x00 token"} {
			g := &fakeGateway{}
			w := httptest.NewRecorder()
			admin.Handler(g, own).ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized || g.reloads.Load() != 0 || strings.Contains(w.Body.String(), "servers") {
				t.Errorf("%q without the token: %d %s", raw, w.Code, w.Body)
			}
		}
		// With the token nothing makes it panic or answer without a status.
		r.Header.Set("Toolgate-Token", token)
		w := httptest.NewRecorder()
		admin.Handler(&fakeGateway{}, token).ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 {
			t.Errorf("%q: %d", raw, w.Code)
		}
	})
}
