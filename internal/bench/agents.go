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
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxRun is what a run of an agent may hold while it waits for its model, in KB, with the
	// connections to its client and to the model, and with what is not collected yet.
	maxRun = 49.0
	// maxOwnRun is that without what the connection of its client holds before.
	maxOwnRun = 43.0
	// maxTaskRun is what a run may hold that is a task, for which no client waits.
	maxTaskRun = 40.0
	// ofCaller is how many runs one caller has open: a principal may have 64.
	ofCaller = 50
	// runsTools are the tools of the gateway of [benchRuns]: one agent, and the one for any.
	runsTools = 2
)

// benchRuns measures what runs of agents hold that wait for their model, as the growth of
// resident memory, and how much of that the connections of their clients hold already before
// they call. Fewer runs come first, so that what any run needs is there already.
func benchRuns(ctx context.Context, l *lab, n *counts) ([]row, error) {
	var whole, clients, own, tasks series
	for range n.fresh {
		connected, all, err := waitingRuns(ctx, l, n, callAgent)
		if err != nil {
			return nil, err
		}
		whole, clients, own = append(whole, all), append(clients, connected), append(own, all-connected)
		if connected, all, err = waitingRuns(ctx, l, n, beginTask); err != nil {
			return nil, err
		}
		tasks = append(tasks, all-connected)
	}
	return []row{{
		name: fmt.Sprintf("%d runs of an agent that wait for its model, each", n.sessions), toolgate: whole.both("KB"),
		limit: fmt.Sprintf("%v KB", maxRun), verdict: within(whole.median(), maxRun),
	}, {
		name: "- of that the connection of its client, before the call", toolgate: clients.both("KB"),
	}, {
		name: "- the call, the run and the connection to the model", toolgate: own.both("KB"),
		limit: fmt.Sprintf("%v KB", maxOwnRun), verdict: within(own.median(), maxOwnRun),
	}, {
		name: "- the same as a task, without its client", toolgate: tasks.both("KB"),
		limit: fmt.Sprintf("%v KB", maxTaskRun), verdict: within(tasks.median(), maxTaskRun),
	}}, nil
}

// waitingRuns returns what each of the connections of clients holds, and each with a run that
// begin has begun.
func waitingRuns(ctx context.Context, l *lab, n *counts, begin func(ctx context.Context, c *http.Client, url, key string) error) (connected, all float64, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	m, err := newSlowModel(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer m.end()
	var keys []map[string]any
	for i := range (sessionsBefore+n.sessions)/ofCaller + 1 {
		sum := sha256.Sum256([]byte(callerKey(i)))
		keys = append(keys, map[string]any{"id": callerKey(i), "sha256": hex.EncodeToString(sum[:]), "subject": callerKey(i)})
	}
	r.token = callerKey(0)
	r.extra = map[string]any{
		"gate": map[string]any{"open": true}, "auth": map[string]any{"keys": keys},
		"servers": map[string]any{"agent": map[string]any{"concurrency": 10000}},
		"queue":   map[string]any{"workers": 1000},
		"agents":  map[string]any{"waiter": map[string]any{"endpoint": m.url + "/v1", "model": "m", "timeout": "1h"}},
	}
	gate, err := r.gateway(nil)
	if err != nil {
		return 0, 0, err
	}
	if err := r.ready(gate, "modern", runsTools); err != nil {
		return 0, 0, err
	}
	calling, stop := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	var begun []*http.Client
	connect := func(count int) error {
		for range count {
			c := &http.Client{Transport: &http.Transport{}} // with one connection
			if err := touch(ctx, c, gate.url+"/livez"); err != nil {
				return gate.failure(err)
			}
			begun = append(begun, c)
		}
		return nil
	}
	call := func(from int) error {
		for i, c := range begun[from:] {
			calls.Go(func() {
				if err := begin(calling, c, gate.url+"/mcp", callerKey((from+i)/ofCaller)); err != nil {
					m.told(err)
				}
			})
		}
		if err := m.await(ctx, len(begun)-from); err != nil {
			return gate.failure(err)
		}
		return nil
	}
	held := func() (float64, error) {
		if err := pause(ctx, n.settle); err != nil {
			return 0, err
		}
		m, err := memoryOf(gate.pid())
		return float64(m.resident), err
	}
	var sizes [3]float64 // with some runs, with the connections of the others, and with their runs
	for i, do := range []func() error{
		func() error { return errors.Join(connect(sessionsBefore), call(0)) },
		func() error { return connect(n.sessions) },
		func() error { return call(sessionsBefore) },
	} {
		if err := do(); err != nil {
			return 0, 0, err
		}
		if sizes[i], err = held(); err != nil {
			return 0, 0, err
		}
	}
	each := func(i int) float64 { return max(0, sizes[i]-sizes[0]) / 1024 / float64(n.sessions) }
	return each(1), each(2), nil
}

// touch makes a request that calls nothing.
func touch(ctx context.Context, c *http.Client, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	got, err := c.Do(q)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	_, err = io.Copy(io.Discard, got.Body)
	return err
}

func callerKey(i int) string { return fmt.Sprintf("caller-%d", i) }

// callAgent calls the agent and waits for the answer.
func callAgent(ctx context.Context, c *http.Client, url, key string) error {
	status, text, err := postAgent(ctx, c, url, key, `{}`)
	return errors.Join(err, fmt.Errorf("a run has ended: %d, %.300s", status, text))
}

// beginTask calls the agent for a task.
func beginTask(ctx context.Context, c *http.Client, url, key string) error {
	status, text, err := postAgent(ctx, c, url, key, `{"extensions":{"`+mcp.ExtensionTasks+`":{}}}`)
	if kind, _ := mcp.LookupString(text, "result", "resultType"); err == nil && kind != mcp.ResultTask {
		err = fmt.Errorf("a run is no task: %d, %.300s", status, text)
	}
	return err
}

// postAgent calls the agent, as a client of 2026-07-28 with these capabilities.
func postAgent(ctx context.Context, c *http.Client, url, key, capabilities string) (status int, text []byte, err error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent__waiter","arguments":{"task":"wait"},"_meta":{` +
		`"` + mcp.MetaVersion + `":"2026-07-28","` + mcp.MetaClientInfo + `":{"name":"bench","version":"1"},"` + mcp.MetaCapabilities + `":` + capabilities + `}}}`
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		mcp.HeaderVersion: "2026-07-28", mcp.HeaderMethod: mcp.MethodToolsCall, mcp.HeaderName: "agent__waiter",
	} {
		q.Header.Set(name, value)
	}
	got, err := c.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer got.Body.Close()
	text, err = io.ReadAll(got.Body)
	return got.StatusCode, text, err
}

// slowModel is an endpoint that never answers.
type slowModel struct {
	url    string
	server *http.Server
	asked  chan struct{} // has each request
	failed chan error    // has why a call ended; capacity 1
}

func newSlowModel(ctx context.Context) (*slowModel, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve a model: %w", err)
	}
	m := &slowModel{url: "http://" + listener.Addr().String(), asked: make(chan struct{}), failed: make(chan error, 1)}
	m.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that a client has gone once it has read everything
		select {
		case m.asked <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	})}
	go func() { _ = m.server.Serve(listener) }() // ends with end
	return m, nil
}

func (m *slowModel) end() { m.server.Close() }

// told keeps the first error of a call.
func (m *slowModel) told(err error) {
	select {
	case m.failed <- err:
	default:
	}
}

// await waits until the model is asked by so many more runs.
func (m *slowModel) await(ctx context.Context, more int) error {
	for range more {
		select {
		case <-m.asked:
		case err := <-m.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startTime):
			return fmt.Errorf("the model is not asked within %v", startTime)
		}
	}
	return nil
}
