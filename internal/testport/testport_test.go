package testport_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/testport"
)

func TestAddress(t *testing.T) {
	var (
		mu   sync.Mutex
		seen = map[string]bool{}
		all  sync.WaitGroup
	)
	for range 50 {
		all.Go(func() {
			address := testport.Address(t)
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Errorf("nobody can listen on it: %v", err)
				return
			}
			defer l.Close()
			mu.Lock()
			defer mu.Unlock()
			if seen[address] {
				t.Errorf("%s twice", address)
			}
			seen[address] = true
		})
	}
	all.Wait()
}

func TestReserve(t *testing.T) {
	address, release, err := testport.Reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.ListenPacket("udp", address); err == nil {
		t.Error("the port is not reserved")
	}
	release()
	again, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatalf("still reserved after release: %v", err)
	}
	again.Close()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := testport.Reserve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}
