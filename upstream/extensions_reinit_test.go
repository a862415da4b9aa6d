package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// declaring returns client capabilities that name extensions.
func declaring(names ...string) []byte {
	var all []string
	for _, name := range names {
		all = append(all, string(mcp.Quote("io.modelcontextprotocol/"+name))+`:{}`)
	}
	return []byte(`{"extensions":{` + strings.Join(all, ",") + `}}`)
}

// names tells whether client capabilities name an extension.
func names(capabilities []byte, name string) bool {
	return mcp.Lookup(capabilities, "extensions", "io.modelcontextprotocol/"+name) != nil
}

// notesServer is a process that notes what it is told in each of its lives, which
// told returns.
func notesServer(t *testing.T) (spec Spec, told func() []string) {
	dir := t.TempDir()
	spec = childServer("notes", mcp.Legacy)
	spec.Env = append(spec.Env, placesVariable+"="+dir)
	return spec, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "started"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// up waits until the gateway's own connection is there.
func (r *running) up() {
	r.t.Helper()
	testwait.Until(r.t, patience, "a connection", func() bool {
		_, status := r.Listing()
		own := r.own()
		return status.State == mcp.Ready && own != nil && own.link.Cause() == nil
	})
}

// Clients that keep declaring new extensions make the own connection begin again a few
// times in an hour, and no more.
func TestExtensionsBeginFewConnections(t *testing.T) {
	t.Parallel()
	spec, told := notesServer(t)
	r := run(t, spec)
	r.up()
	declare := func(n int) {
		t.Helper()
		for i := range n {
			r.Connected("", declaring(fmt.Sprintf("%d-%d", n, i)))
			r.up()
		}
	}
	declare(8)
	if n := len(told()); n != 1+maxReinits {
		t.Errorf("the process has begun %d times, want %d", n, 1+maxReinits)
	}
	r.reinits.mu.Lock()
	r.reinits.since = time.Now().Add(-reinitWindow - time.Second)
	r.reinits.mu.Unlock()
	declare(1)
	if starts := told(); len(starts) != 2+maxReinits || !names([]byte(starts[len(starts)-1]), "8-7") {
		t.Errorf("an hour later the processes were told %q", starts)
	}
}

// Extensions that are declared while a connection opens are declared on the one that
// follows at once.
func TestExtensionsDeclaredMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	begun, goOn := make(chan struct{}, 8), make(chan struct{})
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		begun <- struct{}{}
		x.holdUntil(goOn)
		x.legacy(mcp.MethodInitialize)
	})
	spec := f.spec()
	spec.Transport = Streamable
	r := run(t, spec)
	receives(t, "a handshake", begun)
	r.Connected("", declaring("ui"))
	close(goOn)
	receives(t, "another handshake", begun)
	r.up()
	asked := f.requests(mcp.MethodInitialize)
	last, err := mcp.Parse([]byte(asked[len(asked)-1].Body), mcp.Limits{})
	if err != nil || len(asked) != 2 || !names(last.Param("capabilities"), "ui") {
		t.Errorf("%d handshakes, the last with %s (%v)", len(asked), last.Raw, err)
	}
}

// If the server is told nothing about clients, no connection begins again because of them.
func TestExtensionsOfServersThatAreToldNothing(t *testing.T) {
	t.Parallel()
	spec, told := notesServer(t)
	spec.Isolation, spec.Local = IsolateShared, ""
	r := run(t, spec)
	r.up()
	for i := range 3 {
		r.Connected("", declaring(fmt.Sprint(i)))
		r.up()
	}
	if starts := told(); len(starts) != 1 {
		t.Errorf("the processes were told %q", starts)
	}
}

// The least recently declared extensions make room for new ones.
func TestExtensionsMakeRoom(t *testing.T) {
	t.Parallel()
	var e extensions
	long := strings.Repeat("n", 200)
	for i := range 100 {
		e.learn(declaring("kept"), true)
		e.learn(declaring(fmt.Sprint(long, i)), true)
		if own := []byte(`{"extensions":` + string(e.known()) + `}`); !names(own, "kept") || !names(own, fmt.Sprint(long, i)) || len(own) > 2*maxExtensions {
			t.Fatalf("after %d the known are %s", i, own)
		}
	}
	if len(e.kept) > 1+maxExtensions/len(long) || names([]byte(`{"extensions":`+string(e.known())+`}`), long+"0") {
		t.Errorf("%d are kept", len(e.kept))
	}
	// Too many of one client are left out, and are no news each time.
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(long, i))
	}
	e.learn(declaring(many...), true)
	first := string(e.known())
	for range 3 {
		e.learn(declaring("other"), true)
		e.learn(declaring(many...), true)
	}
	if len(e.known()) > maxExtensions || !strings.Contains(string(e.known()), first[2:200]) {
		t.Errorf("known are %d bytes", len(e.known()))
	}
}

// A connection is either used by a call or begins again, never both.
func TestNothingBeginsAnewUnderACall(t *testing.T) {
	t.Parallel()
	spec, _ := notesServer(t)
	for range 300 {
		s := New(spec, Options{Logger: quietLog})
		conn, link, done := memoryConn(t, s.spec, mcp.Legacy)
		s.pool.own = conn
		var both sync.WaitGroup
		var used bool
		both.Go(func() {
			got, err := s.pool.owned(t.Context(), connKey{}, conn)
			used = err == nil && got == conn
		})
		both.Go(func() { s.Connected("", declaring("ui")) })
		both.Wait()
		if lost := link.Cause() != nil; used == lost {
			t.Fatalf("a call has the connection: %t; it is lost: %t", used, lost)
		}
		done()
	}
}
