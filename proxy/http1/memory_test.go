package http1_test

import (
	"net"
	"net/http"
	"runtime"
	"testing"
)

// TestMemoryOfIdle measures what a connection holds that waits for its next request, both ends
// included.
func TestMemoryOfIdle(t *testing.T) {
	const connections, most = 1000, 14 << 10
	idle := make(chan struct{}, connections)
	of := plainServer(http.HandlerFunc(echo))
	of.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			idle <- struct{}{}
		}
	}
	_, l := listen(t, of)
	body := make([]byte, 3<<10)
	one := func() {
		c := dial(t, l)
		c.send(post("/", string(body)))
		c.answer()
		within(t, "the connection is idle", idle)
		c.from = nil
	}
	one() // what all share
	before := inUse()
	for range connections {
		one()
	}
	each := (inUse() - before) / connections
	t.Logf("an idle connection holds %d bytes", each)
	if each > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", each, most)
	}
}

// inUse returns the memory of the heap and of the stacks that is in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
