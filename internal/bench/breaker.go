package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxRefusal is what the refusal of a breaker may cost more than one of the
	// gate, in µs.
	maxRefusal = 5.0
	// maxDisturbed is how much longer the slowest calls of healthy servers may take
	// beside a hung and a flapping one.
	maxDisturbed = 1.5
	// patients are the clients of each server that is not healthy.
	patients = 2
	// flapTime is how long a flapping server is well, and then ill.
	flapTime = 150 * time.Millisecond
)

// ailing is a server of 2026-07-28 in this process, one of whose tools is echo.
type ailing struct {
	url   string
	began time.Time
	ill   func(s *ailing, w http.ResponseWriter, r *http.Request) bool // whether it has answered
	off   atomic.Bool                                                  // gives no sign of life either
}

// fails answers every call with an error, and gives no sign of life from the first
// one on.
func fails(s *ailing, w http.ResponseWriter, _ *http.Request) bool {
	s.off.Store(true)
	w.WriteHeader(http.StatusInternalServerError)
	return true
}

// hangs never answers a call.
func hangs(_ *ailing, _ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// flaps fails every second while.
func flaps(s *ailing, w http.ResponseWriter, _ *http.Request) bool {
	if time.Since(s.began)/flapTime%2 == 0 {
		return false
	}
	w.WriteHeader(http.StatusInternalServerError)
	return true
}

// ail serves an ailing server until end is called.
func (r *room) ail(ill func(*ailing, http.ResponseWriter, *http.Request) bool) (s *ailing, end func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(r.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("serve an ailing server: %w", err)
	}
	s = &ailing{url: "http://" + l.Addr().String() + "/mcp", began: time.Now(), ill: ill}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return s, func() {
		server.Close()
		<-done
	}, nil
}

// ServeHTTP implements http.Handler.
func (s *ailing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return
	}
	msg, err := mcp.Parse(body, mcp.Limits{})
	if err != nil || s.off.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	result := ""
	switch msg.Method {
	case mcp.MethodDiscover:
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	case mcp.MethodToolsList:
		result = `{"resultType":"complete","ttlMs":600000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case mcp.MethodToolsCall:
		if s.ill(s, w, r) {
			return
		}
		text, _ := mcp.LookupString(msg.Param("arguments"), "text")
		result = `{"resultType":"complete","content":[{"type":"text","text":` + string(mcp.Quote(text)) + `}]}`
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(mcp.AppendFault(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mcp.AppendResult(nil, msg.ID, []byte(result)))
}

// refusal calls the tool echo, which must be refused for a reason.
func (c *client) refusal(ctx context.Context, kind string) error {
	raw, err := c.call(ctx, mcp.MethodToolsCall, c.prefix+"echo", []byte(`{"name":"`+c.prefix+`echo","arguments":{"text":"x"}}`))
	if err == nil && !strings.Contains(string(raw), `"kind":"`+kind+`"`) {
		err = fmt.Errorf("echo: a call that must be refused as %s gave %.200s", kind, raw)
	}
	return err
}

// benchRefusal compares a call that a breaker refuses with one that the gate
// refuses, at one gateway.
func benchRefusal(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	sick, end, err := r.ail(fails)
	if err != nil {
		return nil, err
	}
	defer end()
	r.token = "bench-key-0"
	sum := sha256.Sum256([]byte(r.token))
	r.extra = map[string]any{
		"auth":     map[string]any{"keys": []any{map[string]any{"id": "a", "sha256": hex.EncodeToString(sum[:]), "subject": "a", "groups": []string{"bench"}}}},
		"capsules": map[string]any{"bench": map[string]any{"visible": []string{"*"}, "callable": []string{"sick__*"}, "groups": []string{"bench"}}},
		"servers":  map[string]any{"sick": map[string]any{"breaker": map[string]any{"failures": 1, "open": "2m"}}},
	}
	gate, err := r.gateway(mounts{"fast": up.url + "/mcp", "sick": sick.url})
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, ownTools+1); err != nil {
		return nil, err
	}
	var denied, open *contestant
	for _, c := range []struct {
		who          **contestant
		prefix, kind string
	}{{&denied, "fast__", "denied"}, {&open, "sick__", "breaker_open"}} {
		load, err := r.loader(gate.url+"/mcp", s.era, "-prefix", c.prefix, "-kind", c.kind)
		if err != nil {
			return nil, err
		}
		*c.who = &contestant{server: gate, load: load}
		if _, err := load.order(order{Do: "open", Count: clients}); err != nil {
			return nil, gate.failure(err)
		}
		// The first call of the ailing server opens its breaker.
		if _, err := load.order(order{Do: "refusal", Count: n.warm, Tolerate: true}); err != nil {
			return nil, gate.failure(err)
		}
	}
	if err := inTurn(ctx, n, order{Do: "refusal"}, denied, open); err != nil {
		return nil, err
	}
	more := open.cpu.minus(denied.cpu)
	return []row{{
		name: "a call that a breaker refuses: more than one that the gate refuses", reverse: denied.cpu.both("µs"), toolgate: more.both("µs"),
		limit: fmt.Sprintf("%v µs", maxRefusal), verdict: within(more.median(), maxRefusal),
	}}, nil
}

// benchDisturbed compares the slowest calls of a healthy server while a hung and a
// flapping one are called too with those while they are not.
func benchDisturbed(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	m, settings := mounts{"fast": up.url + "/mcp"}, map[string]any{}
	for name, ill := range map[string]func(*ailing, http.ResponseWriter, *http.Request) bool{"hung": hangs, "flapping": flaps} {
		sick, end, err := r.ail(ill)
		if err != nil {
			return nil, err
		}
		defer end()
		m[name] = sick.url
		settings[name] = map[string]any{"timeouts": map[string]any{"call": "250ms"}}
	}
	r.extra = map[string]any{"servers": settings}
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, ownTools+2); err != nil {
		return nil, err
	}
	loads := map[string]*loader{}
	for name, count := range map[string]int{"fast": clients, "hung": patients, "flapping": patients} {
		if loads[name], err = r.loader(gate.url+"/mcp", s.era, "-prefix", name+"__"); err != nil {
			return nil, err
		}
		if _, err := loads[name].order(order{Do: "open", Count: count}); err != nil {
			return nil, gate.failure(err)
		}
	}
	if _, err := loads["fast"].order(order{Do: "echo", Count: n.warm}); err != nil {
		return nil, gate.failure(err)
	}
	var alone, beside series
	failed := 0
	for range n.rounds {
		quiet, err := loads["fast"].order(order{Do: "echo", Count: n.calls, Most: n.roundTime})
		if err != nil {
			return nil, gate.failure(err)
		}
		loud, disturbed, err := disturb(loads, order{Do: "echo", Count: n.calls, Most: n.roundTime}, n.beside)
		if err != nil {
			return nil, gate.failure(err)
		}
		alone, beside, failed = append(alone, micros(quiet.P99, 1)), append(beside, micros(loud.P99, 1)), failed+disturbed
	}
	ratio := beside.per(alone)
	return []row{
		{
			name: "healthy beside a hung and a flapping server: p99", reverse: alone.both("µs"), toolgate: beside.both("µs"),
			ratio: short(ratio.median()), limit: fmt.Sprint(maxDisturbed), verdict: within(ratio.median(), maxDisturbed),
		},
		{name: "- calls of those two that failed meanwhile", toolgate: fmt.Sprint(failed)},
	}, nil
}

// disturb carries out an order at the healthy server while the others are called
// for a while, and returns how many calls of those failed.
func disturb(loads map[string]*loader, o order, while time.Duration) (healthy report, failed int, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for name, load := range loads {
		if name == "fast" {
			continue
		}
		all.Go(func() {
			got, orderErr := load.order(order{Do: "echo", Count: 1 << 30, Most: while, Tolerate: true})
			mu.Lock()
			defer mu.Unlock()
			failed, err = failed+got.Failed, errors.Join(err, orderErr)
		})
	}
	healthy, own := loads["fast"].order(o)
	all.Wait()
	return healthy, failed, errors.Join(err, own)
}
