//go:build e2e && !windows

package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/toolgate/toolgate/budget/redis/redistest"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testport"
)

// wires are the connections among the gateways of a fleet, which go through the test. It
// can cut those between two of them.
type wires struct {
	f *fleet

	mu     sync.Mutex
	cut    [2]int        // the two that do not reach each other; the same for none
	silent [2]int        // the two between which nothing arrives, and nothing is closed
	heard  chan struct{} // closed when that ends
	open   map[net.Conn][2]int
}

func newWires(t *testing.T, f *fleet) *wires {
	w := &wires{f: f, open: make(map[net.Conn][2]int), heard: make(chan struct{})}
	t.Cleanup(func() {
		w.swallow(0, 0)
		w.breakAll(func([2]int) bool { return true })
	})
	return w
}

// to returns an address at which the others reach the gateway i, which listens elsewhere.
func (w *wires) to(t *testing.T, i int, listens string) string {
	t.Helper()
	l, err := net.Listen("tcp", testport.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		w.swallow(0, 0)
		w.breakAll(func([2]int) bool { return true })
		all.Wait()
	})
	all.Go(func() { // until the listener is closed
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(in, i, listens) })
		}
	})
	return l.Addr().String()
}

// carry connects a connection from another gateway to the gateway i, until either side ends.
func (w *wires) carry(in net.Conn, i int, listens string) {
	defer in.Close()
	pair := [2]int{w.f.owner(in.RemoteAddr().(*net.TCPAddr).Port), i}
	w.await(pair)
	out, err := net.Dial("tcp", listens)
	if err != nil {
		return
	}
	defer out.Close()
	w.mu.Lock()
	if w.isCut(pair) {
		w.mu.Unlock()
		return
	}
	w.open[in], w.open[out] = pair, pair
	w.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(passing{to, w, pair}, from)
		w.await(pair) // nor does the end arrive
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pass(in, out) })
	pass(out, in)
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, in)
	delete(w.open, out)
}

// passing is a connection to which bytes go once they arrive.
type passing struct {
	net.Conn
	w    *wires
	pair [2]int
}

// Write implements io.Writer.
func (p passing) Write(b []byte) (int, error) {
	p.w.await(p.pair)
	return p.Conn.Write(b)
}

// await returns when what one of a pair of gateways sends arrives at the other.
func (w *wires) await(pair [2]int) {
	for {
		w.mu.Lock()
		silent, heard := same(pair, w.silent), w.heard
		w.mu.Unlock()
		if !silent {
			return
		}
		<-heard
	}
}

// swallow has nothing arrive between two gateways, in whatever is open and in what is opened.
// The same one twice has all arrive, with what was held back.
func (w *wires) swallow(a, b int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = [2]int{a, b}
	close(w.heard)
	w.heard = make(chan struct{})
}

// same reports whether a pair is that of two gateways that do not reach each other.
func same(pair, apart [2]int) bool {
	return apart[0] != apart[1] && (pair == apart || pair == [2]int{apart[1], apart[0]})
}

// isCut reports whether two gateways do not reach each other; mu is held.
func (w *wires) isCut(pair [2]int) bool {
	return same(pair, w.cut)
}

// separate cuts what connects two gateways. The same one twice connects all again.
func (w *wires) separate(a, b int) (broken int) {
	w.mu.Lock()
	w.cut = [2]int{a, b}
	w.mu.Unlock()
	return w.breakAll(w.isCut)
}

func (w *wires) breakAll(which func(pair [2]int) bool) (broken int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, pair := range w.open {
		if which(pair) {
			_ = c.Close()
			broken++
		}
	}
	return broken
}

// owner returns which gateway has a local port, -1 where the system does not say.
func (f *fleet) owner(port int) int {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return -1
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X (?:\S+ +){7}(\d+)`, port)).FindSubmatch(table)
	if found == nil {
		return -1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.all {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil && to == fmt.Sprintf("socket:[%s]", found[1]) {
				return i
			}
		}
	}
	return -1
}

// otherClocks builds the program with a clock that the environment sets: the product has
// no such thing, and programs of Go do not take it from a library.
func otherClocks(t *testing.T) (program string) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	of := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(of, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const asks = "sec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), asks) != 1 {
		t.Fatal("time.Now of this Go asks for the time in another way")
	}
	dir := t.TempDir()
	files := map[string]string{
		"time.go":      strings.Replace(string(text), asks, asks+"\tsec += testClock\n", 1),
		"testclock.go": testClock,
	}
	replaced := map[string]string{}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(of, name)] = filepath.Join(dir, name)
	}
	return overlaid(t, dir, replaced)
}

// testClock is a file of the package time: how many seconds the clock of the process is off.
const testClock = `package time

import "syscall"

var testClock = func() (seconds int64) {
	text, _ := syscall.Getenv("TEST_CLOCK_SECONDS")
	sign := int64(1)
	for _, c := range text {
		if c == '-' {
			sign = -1
			continue
		}
		seconds = 10*seconds + int64(c-'0')
	}
	return sign * seconds
}()
`

// faults are what happens to a fleet, in turn: four kills of gateways to one of
// everything else.
func (f *fleet) faults(t *testing.T, database *storetest.Server, redis *redistest.Server, count map[string]int) func() {
	order := rand.New(rand.NewPCG(1, uint64(*chaosFaults)))
	n, pair := 0, 0
	kill := func() string { f.kill(t, order.IntN(3)); return "gateway killed" }
	all := []func() string{
		kill,
		func() string {
			a, b := pair%3, (pair+1)%3
			pair++
			if f.wires.separate(a, b) == 0 {
				t.Logf("between the gateways %d and %d was no connection", a, b)
			}
			return "network cut"
		},
		kill,
		func() string { f.wires.separate(0, 0); database.Kill(t); database.Start(t); return "PostgreSQL killed" },
		kill,
		func() string { f.wires.swallow((pair+1)%3, (pair+2)%3); return "packets swallowed" },
		kill,
		func() string { f.wires.swallow(0, 0); redis.Kill(t); redis.Restart(t); return "Redis killed" },
	}
	return func() {
		count[all[n%len(all)]()]++
		n++
	}
}

// Gateways are killed again and again, as are the database and the Redis that they share, and
// the network between two of them is cut, while clients of both eras call. No session is
// lost, no call runs twice, each answer and notification is that of its own call, what ran is
// charged, the charges of all gateways are those of one store, and the audit logs hold.
func TestChaos(t *testing.T) {
	tool, url := newOnce(t)
	database, redis := storetest.StartPostgres(t), redistest.Start(t)
	program := ""
	if *chaosClocks {
		program = otherClocks(t)
	}
	charges, address := newTap(t, database.URL(t))
	f := newFleet(t, address, servers{"api": {"type": "http", "url": url}}, map[string]any{
		"redis": redis.Address(),
		"rates": []any{map[string]any{"per": "tenant", "limit": 1_000_000, "window": "1m"}},
		"budgets": []any{
			map[string]any{"name": "total", "per": "tenant", "limit": 100_000_000, "window": "month"},
			map[string]any{"name": "time", "per": "tenant", "unit": "seconds", "limit": 1_000_000_000, "window": "sliding:1m"},
			map[string]any{"name": "volume", "per": "subject", "unit": "bytes", "limit": 1_000_000_000_000, "window": "hour"},
		},
		"servers": map[string]any{"api": map[string]any{"concurrency": 64}},
	}, func(i int, h *home) {
		if h.serves = program; program != "" {
			h.env["TEST_CLOCK_SECONDS"] = []string{"0", "240", "-300"}[i]
		}
	})
	count := map[string]int{}
	o := f.underLoad(t, *chaosFaults, f.faults(t, database, redis, count))
	tool.mu.Lock()
	defer tool.mu.Unlock()
	for key, n := range tool.ran {
		if n > 1 {
			t.Errorf("the call %s ran %d times", key, n)
		}
		if how := o.of[key]; how == "not sent" || how == "refused" {
			t.Errorf("the client of %s was told that it has not run", key)
		}
	}
	for key, how := range o.of {
		if how == "answered" && tool.ran[key] != 1 {
			t.Errorf("the call %s was answered, and ran %d times", key, tool.ran[key])
		}
	}
	uses := f.homes[0].uses(t, "--budget", "total")
	most := int64(len(tool.ran) + o.count["perhaps"] + o.count["broken"] + o.count["refused"] + 2*chaosWorkers)
	if len(uses) != 1 || uses[0].Used < int64(len(tool.ran)) || uses[0].Used > most {
		t.Errorf("charged %+v, %d calls have run, and at most %d", uses, len(tool.ran), most)
	}
	for i, h := range f.homes {
		if code := f.all[i].stop(t, syscall.SIGTERM); code != 0 {
			t.Errorf("gateway %d ends with %d", i, code)
		}
		if got := h.ok(t, "audit", "verify", "--file", h.file); !strings.Contains(got, "verified") {
			t.Errorf("the audit log of gateway %d: %s", i, got)
		}
	}
	total := int64(0)
	for counter, n := range charges.explained(t) {
		if counter.Budget == "total" {
			total += n
		}
	}
	if len(uses) == 1 && uses[0].Used != total {
		t.Errorf("%d calls are charged, and the charges of all gateways come to %d", uses[0].Used, total)
	}
	t.Logf("%v: %v; charged %+v for %d", count, o.count, uses, len(tool.ran))
}
