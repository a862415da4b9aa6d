package http1_test

import (
	"fmt"
	"runtime"
	"testing"
)

// TestGoroutinesOfWaiting counts the goroutines of requests that are watched.
func TestGoroutinesOfWaiting(t *testing.T) {
	const clients = 100
	stay := make(chan struct{})
	s, l, _, _ := waiting(t, watches["a socket"], stay)
	before := runtime.NumGoroutine()
	for i := range clients {
		c := dial(t, l)
		c.send(get(fmt.Sprint("/", i)))
		defer c.wantAnswer(fmt.Sprint("/", i))
	}
	await(t, s, clients, 0)
	defer close(stay)
	// The goroutine of each connection, and one of the server. Timers may end meanwhile.
	if more := runtime.NumGoroutine() - before; more > clients+clients/10 {
		t.Errorf("%d requests have %d goroutines", clients, more)
	}
}
