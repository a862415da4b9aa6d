package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// watchers is how many browsers look at the live view.
	watchers = 10
	// maxWatched is what the 99th percentile of calls may be while they look, in those of the
	// same gateway at which nobody looks, and maxWatchedMemory what they may cost, in MB.
	maxWatched, maxWatchedMemory = 1.05, 20.0
)

// audience are browsers that read the live view of a console.
type audience struct {
	console  string
	browsers []*http.Client
	open     atomic.Int64 // views
	events   atomic.Int64
}

// newAudience signs browsers in with the key of a client.
func newAudience(ctx context.Context, console, key string) (*audience, error) {
	a := &audience{console: console}
	for range watchers {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		b := &http.Client{Jar: jar, Transport: &http.Transport{}}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, console+"/sign-in", strings.NewReader(url.Values{"key": {key}}.Encode()))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", console)
		resp, err := b.Do(r)
		if err != nil {
			return nil, fmt.Errorf("sign in at the console: %w", err)
		}
		resp.Body.Close()
		if resp.Request.URL.Path != "/now" {
			return nil, fmt.Errorf("signing in at the console leads to %s", resp.Request.URL.Path)
		}
		a.browsers = append(a.browsers, b)
	}
	return a, nil
}

// watch looks at the live view until leave is called, which returns the first error. All views
// are open when it returns.
func (a *audience) watch(ctx context.Context) (leave func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	failed := make(chan error, 2*watchers)
	for _, b := range a.browsers {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.console+"/now/events", nil)
		if err != nil {
			cancel()
			return nil, err
		}
		r.Header.Set("Accept", "text/event-stream")
		wg.Go(func() { // ends with ctx
			if err := a.read(b, r); ctx.Err() == nil {
				failed <- fmt.Errorf("the live view has ended: %w", err)
			}
		})
	}
	leave = func() error {
		cancel()
		wg.Wait()
		a.open.Store(0)
		for _, b := range a.browsers {
			b.CloseIdleConnections()
		}
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
	if err := await(ctx, func() bool { return a.open.Load() == watchers }); err != nil {
		return nil, errors.Join(fmt.Errorf("open the live view: %w", err), leave())
	}
	return leave, nil
}

// await looks until ok returns true, for as long as a request may take.
func await(ctx context.Context, ok func() bool) error {
	for end := time.Now().Add(requestTime); !ok(); {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v", requestTime)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// read counts the events of one browser.
func (a *audience) read(b *http.Client, r *http.Request) error {
	resp, err := b.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch {
		case lines.Text() == ": open":
			a.open.Add(1)
		case lines.Text() == "event: calls":
			a.events.Add(1)
		}
	}
	return lines.Err()
}

// benchWatched compares calls while ten browsers watch them with those that nobody watches, at
// one gateway by turns.
func benchWatched(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	if r.console, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	key := rand.Text()
	sum := sha256.Sum256([]byte(key))
	v := variant{token: key, extra: map[string]any{
		"auth": map[string]any{"keys": []any{map[string]any{"id": "bench", "sha256": hex.EncodeToString(sum[:]), "subject": "bench"}}, "viewers": []any{map[string]any{"subject": "bench"}}},
		"gate": map[string]any{"open": true},
	}}
	alone, err := r.contest(&v, mounts{"fast": up.url + "/mcp"}, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	browsers, err := newAudience(ctx, "http://"+r.console, key)
	if err != nil {
		return nil, alone.failure(err)
	}
	watched := &contestant{server: alone.server, load: alone.load}
	var memory, watchedMemory, rate series
	turn := func(c *contestant, memory *series) error {
		o := order{Do: "echo", Count: n.calls, Most: n.roundTime}
		began, before := time.Now(), c.calls
		if err := c.round(ctx, o); err != nil {
			return err
		}
		rate = append(rate, float64(c.calls-before)/time.Since(began).Seconds())
		m, err := memoryOf(c.pid())
		*memory = append(*memory, float64(m.resident)/(1<<20))
		return err
	}
	for range 2 * n.rounds {
		if err := turn(alone, &memory); err != nil {
			return nil, err
		}
		leave, err := browsers.watch(ctx)
		if err != nil {
			return nil, err
		}
		seen := browsers.events.Load()
		err = turn(watched, &watchedMemory)
		if err == nil { // a view is written twice a second
			err = await(ctx, func() bool { return browsers.events.Load() >= seen+watchers })
		}
		if err := errors.Join(err, leave()); err != nil {
			return nil, alone.failure(err)
		}
	}
	ratio, more := watched.p99.per(alone.p99), watchedMemory.median()-memory.median()
	return []row{
		{
			name: fmt.Sprintf("%d browsers watch: p99 of %.0f calls a second", watchers, rate.median()), reverse: alone.p99.both("µs") + " unwatched", toolgate: watched.p99.both("µs"),
			ratio: short(ratio.median()), limit: short(maxWatched), verdict: within(ratio.median(), maxWatched),
		},
		{
			name: fmt.Sprintf("%d browsers watch: more memory", watchers), reverse: "-", toolgate: short(more) + " MB", limit: short(maxWatchedMemory) + " MB",
			verdict: within(more, maxWatchedMemory),
		},
	}, nil
}
