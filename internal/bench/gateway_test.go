package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/telemetry"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream"
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
			url := gatewayHere(b, mounts{"fast": fastServerOf(b, r, s).url + "/mcp"}, ownTools)
			drive(b, r, url, s, order{Do: "echo"})
		})
	}
}

// BenchmarkList is a list of 1,000 tools of 10 servers.
func BenchmarkList(b *testing.B) {
	r := benchRoom(b)
	s := setting{"legacy", "json"}
	up := fastServerOf(b, r, s, "-tools", strconv.Itoa(listTools-ownTools))
	m := mounts{}
	for i := range listServers {
		m[fmt.Sprintf("s%d", i)] = fmt.Sprintf("%s/%d", up.url, i)
	}
	drive(b, r, gatewayHere(b, m, listServers*listTools), s, order{Do: "tools"})
}

// BenchmarkLarge is a result of 1 MB through the gateway.
func BenchmarkLarge(b *testing.B) {
	for _, answers := range []string{"json", "sse"} {
		s := setting{"legacy", answers}
		b.Run(s.String(), func(b *testing.B) {
			r := benchRoom(b)
			url := gatewayHere(b, mounts{"fast": fastServerOf(b, r, s).url + "/mcp"}, ownTools)
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

// serveHere serves in this process until the test ends and returns the URL.
func serveHere(tb testing.TB, h http.Handler) string {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
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

// gatewayHere puts the parts of a gateway without authentication together, as
// the program does, and returns its URL once it lists so many tools.
func gatewayHere(tb testing.TB, m mounts, tools int) string {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	entries, err := audit.Open(filepath.Join(tb.TempDir(), "audit.jsonl"), audit.Options{
		Logger: log, Mode: audit.BestEffort, Key: audit.Key{ID: "bench", Secret: make([]byte, 32)},
	})
	must(err)
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		must(entries.Close())
	})
	keys, err := seal.NewKeyring(seal.Key{ID: "bench", Secret: bytes.Repeat([]byte{1}, 32)})
	must(err)
	metrics := telemetry.New("bench")
	g, err := proxy.New(proxy.Options{
		Authenticator: auth.Loopback{}, Auditor: entries, Keys: keys, Logger: log, Version: "bench",
		Limits: proxy.Limits{SuspendedPerPrincipal: 5000, SuspendedPerServer: 5000},
		Metrics: &proxy.Metrics{Sessions: metrics.Sessions, Call: func(e *audit.Entry) {
			metrics.Call(&telemetry.Call{
				Method: e.Method, Transport: e.Transport, Server: e.Server, Tool: e.Name, Outcome: string(e.Outcome), Code: e.Code,
				Took: time.Duration(e.DurationUS) * time.Microsecond, Upstream: time.Duration(e.UpstreamUS) * time.Microsecond,
			})
		}},
	})
	must(err)
	c := proxy.Config{Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited()}
	for key, url := range m {
		s := upstream.New(
			upstream.Spec{Key: key, Transport: upstream.Streamable, URL: url, Local: gate.Local.Key(), Questions: upstream.Questions{Elicitation: true}},
			upstream.Options{Sink: sink{g}, Credential: upstream.NewStatic(nil), Logger: log, Identity: proxy.Implementation("bench")},
		)
		namespace := key
		if len(m) == 1 {
			namespace = ""
		}
		c.Mounts = append(c.Mounts, proxy.Mount{Backend: s, Namespace: namespace, Questions: proxy.Questions{Elicitation: true}})
		running.Go(func() { _ = s.Run(ctx) })
	}
	g.Apply(c)
	running.Go(func() { _ = entries.Run(ctx) })
	running.Go(func() { _ = g.Run(ctx) })
	url := serveHere(tb, g.Handler())
	waitForTools(tb, url, tools)
	return url
}

// sink hands what happens at a server to the gateway.
type sink struct{ g *proxy.Gateway }

func (s sink) Changed(server string) { s.g.Changed(server) }
func (s sink) Happened(ev mcp.Event) { s.g.Happened(ev) }

func waitForTools(tb testing.TB, url string, want int) {
	tb.Helper()
	c := newClient(url+"/mcp", "legacy", "")
	defer c.close()
	if err := c.open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	deadline := time.Now().Add(startTime)
	for {
		have, err := c.tools(tb.Context())
		if err == nil && have == want {
			break
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d tools are listed, want %d (%v)", have, want, err)
		}
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
