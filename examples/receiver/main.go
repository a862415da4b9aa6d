// Command receiver receives what a gateway reports about its calls, for the examples alone:
// executions of tools and messages to users as a webhook, and traces and metrics as a collector. It also shows what it has
// received, and reads metrics as Prometheus does.
//
//	receiver serve ADDRESS     receive them, and show them
//	receiver feedback ADDRESS  the executions so far, one per line
//	receiver notified ADDRESS  the messages to users so far, one per line
//	receiver traces ADDRESS    the spans so far, one per line
//	receiver pushed ADDRESS    the counters of tools that were sent so far, one per line
//	receiver metrics ADDRESS   the metrics that are served there, one per line
//
// RECEIVER_SECRET is the secret that signs executions and messages, and COLLECTOR_TOKEN the token for
// traces and metrics. The receiver refuses everything without them.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"
)

const (
	// most bounds the stored lines of each kind, and mostBytes a body.
	most      = 1000
	mostBytes = 4 << 20
	// patience bounds a request to a listener.
	patience = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: receiver serve|feedback|notified|traces|pushed|metrics ADDRESS")
	}
	switch verb, address := args[0], args[1]; verb {
	case "serve":
		return serve(ctx, address)
	case "feedback", "notified", "traces", "pushed":
		return get(ctx, "http://"+address+"/"+verb, func(body io.Reader) error {
			_, err := io.Copy(os.Stdout, body)
			return err
		})
	case "metrics":
		return get(ctx, "http://"+address+"/metrics", printMetrics)
	}
	return fmt.Errorf("receiver: %q is none of serve, feedback, notified, traces, pushed and metrics", args[0])
}

// lines holds what arrived, in order of arrival.
type lines struct {
	mu   sync.Mutex
	all  []string
	seen map[string]bool // ids of batches
}

// add stores the lines of a batch once. A batch without an id is always new.
func (l *lines) add(batch string, more []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if batch != "" && l.seen[batch] || len(l.all)+len(more) > most {
		return
	}
	if batch != "" {
		l.seen[batch] = true
	}
	l.all = append(l.all, more...)
}

// ServeHTTP shows the lines.
func (l *lines) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := bufio.NewWriter(w)
	for _, line := range l.all {
		fmt.Fprintln(out, line)
	}
	_ = out.Flush()
}

// reader splits a request into the id of its batch and lines.
type reader func(r *http.Request, body []byte) (batch string, more []string, err error)

// taking stores what arrives, and refuses what it cannot verify.
func (l *lines) taking(read reader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		batch, more, err := read(r, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		l.add(batch, more)
	}
}

// serve answers until the context ends.
func serve(ctx context.Context, address string) error {
	secret, token := os.Getenv("RECEIVER_SECRET"), os.Getenv("COLLECTOR_TOKEN")
	feedback, notified, traces, pushed := &lines{seen: make(map[string]bool)}, &lines{}, &lines{}, &lines{}
	mux := http.NewServeMux()
	mux.Handle("GET /feedback", feedback)
	mux.Handle("POST /feedback", feedback.taking(executions(secret)))
	mux.Handle("GET /notified", notified)
	mux.Handle("POST /notify", notified.taking(notifications(secret)))
	mux.Handle("GET /traces", traces)
	mux.Handle("POST /v1/traces", traces.taking(spans(token)))
	mux.Handle("GET /pushed", pushed)
	mux.Handle("POST /v1/metrics", pushed.taking(counters(token)))
	server := &http.Server{Addr: address, Handler: mux, ReadTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// get asks a listener, and passes its answer on.
func get(ctx context.Context, url string, use func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return use(resp.Body)
}
