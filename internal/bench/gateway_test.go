package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/daemon/daemontest"
	"github.com/toolgate/toolgate/proxy"
)

// The benchmarks put one proxy into this process and nothing else: server and
// load are processes of their own. So a profile shows the proxy alone, and
// B/op is what one call allocates in it:
//
//	go test -run '^$' -bench Gateway/legacy.*JSON -benchtime 20000x -cpuprofile cpu.out ./internal/bench

// BenchmarkReverse is the measure of BenchmarkGateway.
func BenchmarkReverse(b *testing.B) {
	for _, s := range settings {
		b.Run(s.String(), func(b *testing.B) {
			r := benchRoom(b)
			h, err := reverseHandler(fastServerOf(b, r, s).url)
			if err != nil {
				b.Fatal(err)
			}
			drive(b, r, serveHere(b, h), s, order{Do: "echo"})
		})
	}
}

// BenchmarkGateway is an echo of 100 bytes through the gateway.
func BenchmarkGateway(b *testing.B) {
	for _, s := range settings {
		b.Run(s.String(), func(b *testing.B) {
			r := benchRoom(b)
			url := gatewayHere(b, r, mounts{"fast": fastServerOf(b, r, s).url + "/mcp"}, ownTools)
			drive(b, r, url, s, order{Do: "echo"})
		})
	}
}

// BenchmarkList is a list of 1,000 tools of 10 servers, and one of 10,000.
func BenchmarkList(b *testing.B) {
	for _, each := range []int{listTools, 10 * listTools} {
		b.Run(strconv.Itoa(listServers*each), func(b *testing.B) {
			r := benchRoom(b)
			s := setting{"legacy", "json"}
			m, err := r.manyTools(s, each)
			if err != nil {
				b.Fatal(err)
			}
			drive(b, r, gatewayHere(b, r, m, listServers*each), s, order{Do: "tools"})
		})
	}
}

// BenchmarkLarge is a result of 1 MB through the gateway.
func BenchmarkLarge(b *testing.B) {
	for _, answers := range []string{"json", "sse"} {
		s := setting{"legacy", answers}
		b.Run(s.String(), func(b *testing.B) {
			r := benchRoom(b)
			url := gatewayHere(b, r, mounts{"fast": fastServerOf(b, r, s).url + "/mcp"}, ownTools)
			b.SetBytes(1 << 20)
			drive(b, r, url, s, order{Do: "blob", Size: 1 << 20})
		})
	}
}

var settings = []setting{{"legacy", "json"}, {"legacy", "sse"}, {"modern", "json"}, {"modern", "sse"}}

// benchRoom is a room that needs no built toolgate.
func benchRoom(tb testing.TB) *room {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	l := &lab{self: self, dir: tb.TempDir()}
	r := l.enter(tb.Context())
	tb.Cleanup(func() {
		if err := r.leave(); err != nil {
			tb.Error(err)
		}
	})
	return r
}

func fastServerOf(tb testing.TB, r *room, s setting, args ...string) *server {
	tb.Helper()
	up, err := r.fastUpstream(s, args...)
	if err != nil {
		tb.Fatal(err)
	}
	return up
}

// listenHere listens on a port of this machine.
func listenHere(tb testing.TB) net.Listener {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// serveHere serves in this process until the test ends and returns the URL.
func serveHere(tb testing.TB, h http.Handler) string {
	tb.Helper()
	l := listenHere(tb)
	server := proxy.NewServer(h)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }() // ends with Close
	tb.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			tb.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// gatewayHere runs the program's own gateway, without authentication, in front of
// servers until the test ends. It returns the URL once so many tools are listed.
func gatewayHere(tb testing.TB, r *room, m mounts, tools int) string {
	tb.Helper()
	file, err := r.config(m, "127.0.0.1:0", "")
	if err != nil {
		tb.Fatal(err)
	}
	gateway := daemontest.Run(tb, &daemontest.Home{Dir: filepath.Dir(file), File: file})
	l := listenHere(tb)
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- gateway.ServeClients(ctx, l, nil) }() // ends with stop
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	url := "http://" + l.Addr().String()
	wantTools(tb, url, tools)
	return url
}

func wantTools(tb testing.TB, url string, want int) {
	tb.Helper()
	c := newClient(url+"/mcp", "legacy", "")
	defer c.close()
	if err := c.open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if have, err := c.tools(tb.Context()); err != nil || have != want {
		tb.Fatalf("%d tools are listed, want %d (%v)", have, want, err)
	}
	if err := c.end(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// drive lets the load carry out an order b.N times and reports what this
// process used for each.
func drive(b *testing.B, r *room, url string, s setting, o order) {
	b.Helper()
	load, err := r.loader(url+"/mcp", s.era)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := load.order(order{Do: "open", Count: clients}); err != nil {
		b.Fatal(err)
	}
	o.Count, o.Most = 4*clients, 5*time.Minute
	if _, err := load.order(o); err != nil { // warm
		b.Fatal(err)
	}
	o.Count = b.N
	b.ReportAllocs()
	b.ResetTimer()
	before, err := cpuTime(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	got, err := load.order(o)
	if err != nil {
		b.Fatal(err)
	}
	after, err := cpuTime(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if got.Done != b.N {
		b.Fatalf("%d of %d done", got.Done, b.N)
	}
	b.ReportMetric(micros(after-before, b.N), "cpu-µs/op")
}
