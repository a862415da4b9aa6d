package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/bench/raw"
)

// The load generator takes one order per line of standard input and writes one
// report per line of standard output. Its clients stay between the orders.

// order is what the load generator is to do next.
type order struct {
	// Do is open, stream, hang up, echo, say, refused, refusal, nobody, blob, tools, churn,
	// ask, tell or end.
	Do string `json:"do"`
	// Count is how many: clients to open, else calls in all.
	Count int `json:"count,omitempty"`
	// Size is the bytes of each result of blob, or of the arguments of say and
	// refused.
	Size int `json:"size,omitempty"`
	// Most bounds the time; what is not begun by then is left out.
	Most time.Duration `json:"most"`
	// Light calls echo, or blob with a Size, by connections that cost little.
	Light bool `json:"light,omitempty"`
	// Rate is how many calls of a light order begin each second; 0 is as many as there are
	// clients at a time.
	Rate float64 `json:"rate,omitempty"`
	// Tolerate goes on after a call that failed, with a short rest.
	Tolerate bool `json:"tolerate,omitempty"`
}

// report is what came of an order. Moments are nanoseconds of Unix time, 0 for
// never.
type report struct {
	Done   int           `json:"done"` // calls that were answered rightly
	Failed int           `json:"failed"`
	Why    string        `json:"why,omitempty"` // of the first that failed
	Took   time.Duration `json:"took"`
	P50    time.Duration `json:"p50"` // of the calls that were answered rightly
	P99    time.Duration `json:"p99"`
	Items  int           `json:"items,omitempty"` // tools of each list

	FirstFailure int64 `json:"first_failure,omitempty"` // when it was noticed
	LastFailure  int64 `json:"last_failure,omitempty"`
	// Recovered is when the last of the clients that had failed was answered
	// again; 0 when one never was.
	Recovered int64 `json:"recovered,omitempty"`
}

// restAfterFailure keeps a client whose calls fail at once from spinning.
const restAfterFailure = 5 * time.Millisecond

// maxSamples bounds the latencies that are kept of one client.
const maxSamples = 1 << 16

// loadProgram drives many clients in a closed loop: each sends its next call
// when the one before is answered, and checks every answer.
func loadProgram(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	l := &load{}
	flags.StringVar(&l.url, "url", "", "`URL` of the endpoint")
	flags.StringVar(&l.era, "era", "legacy", "legacy, modern or askable")
	prefixes := flags.String("prefix", "", "`texts` before the names of tools, with commas between them; light orders go through all of them")
	flags.StringVar(&l.kind, "kind", "", "`word` of the refusals that are ordered")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l.prefixes = strings.Split(*prefixes, ",")
	return l.serve(ctx, os.Stdin, os.Stdout)
}

// load is the clients of one load generator.
type load struct {
	url, era string
	prefixes []string // before the names of tools; one at least
	kind     string   // of the refusals that are ordered
	clients  []*client
	light    map[int]*raw.Load // by the size of what is called
}

func (l *load) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	defer func() {
		for _, c := range l.clients {
			c.close()
		}
		for _, c := range l.light {
			c.Close()
		}
	}()
	lines := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		r, err := l.do(ctx, &o)
		if err != nil {
			r.Failed++
			r.Why = err.Error()
		}
		if err := answers.Encode(r); err != nil {
			return fmt.Errorf("write a report: %w", err)
		}
	}
	return lines.Err()
}

func (l *load) do(ctx context.Context, o *order) (report, error) {
	if o.Light {
		return l.callLight(ctx, o)
	}
	switch o.Do {
	case "open":
		for n := range o.Count {
			c := newClient(l.url, l.era, l.prefixes[0])
			c.authorize(os.Getenv(tokenVariable))
			l.clients = append(l.clients, c)
			if err := c.open(ctx); err != nil {
				return report{Done: n}, err
			}
		}
		return report{Done: o.Count}, nil
	case "stream":
		for n, c := range l.clients {
			if c.stream != nil {
				continue
			}
			if err := c.listen(ctx); err != nil {
				return report{Done: n}, err
			}
		}
		return report{Done: len(l.clients)}, nil
	case "hang up":
		for _, c := range l.clients {
			c.pool.CloseIdleConnections()
		}
		return report{Done: len(l.clients)}, nil
	case "end":
		for n, c := range l.clients {
			if err := c.end(ctx); err != nil {
				return report{Done: n}, err
			}
		}
		return report{Done: len(l.clients)}, nil
	case "echo":
		return l.loop(ctx, o, (*client).echo)
	case "ask": // each of the latest clients once
		return l.once(ctx, l.clients[max(0, len(l.clients)-o.Count):], (*client).ask)
	case "tell":
		return l.once(ctx, l.clients, (*client).tell)
	case "blob":
		return l.loop(ctx, o, func(c *client, ctx context.Context) error { return c.blob(ctx, o.Size) })
	case "say":
		return l.loop(ctx, o, func(c *client, ctx context.Context) error { return c.say(ctx, o.Size) })
	case "refused":
		return l.loop(ctx, o, func(c *client, ctx context.Context) error { return c.refused(ctx, o.Size) })
	case "refusal":
		return l.loop(ctx, o, func(c *client, ctx context.Context) error { return c.refusal(ctx, l.kind) })
	case "nobody":
		return l.loop(ctx, o, (*client).nobody)
	case "tools":
		return l.tools(ctx, o)
	case "churn":
		return l.loop(ctx, o, (*client).churn)
	}
	return report{}, fmt.Errorf("unknown order %q", o.Do)
}

// callLight carries out a light order with the clients that are open.
func (l *load) callLight(ctx context.Context, o *order) (report, error) {
	if l.light[o.Size] == nil {
		all, host, err := callers(l.clients, l.prefixes, o.Size)
		if err != nil {
			return report{}, err
		}
		light, err := raw.NewLoad(ctx, host, all...)
		if err != nil {
			return report{}, err
		}
		if l.light == nil {
			l.light = map[int]*raw.Load{}
		}
		l.light[o.Size] = light
	}
	f, err := l.light[o.Size].Run(ctx, raw.Run{Count: o.Count, Rate: o.Rate, Most: o.Most})
	return report{Done: f.Done, Took: f.Took, P50: f.P50, P99: f.P99}, err
}

// once lets each of some clients do something once, clients at a time.
func (l *load) once(ctx context.Context, some []*client, call func(*client, context.Context) error) (report, error) {
	parts := make([]tally, len(some))
	places := make(chan struct{}, clients)
	var all sync.WaitGroup
	for i, c := range some {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			sent := time.Now()
			if err := call(c, ctx); err != nil {
				parts[i].failed(err)
				return
			}
			parts[i].answered(sent)
		})
	}
	all.Wait()
	return sum(parts), nil
}

// churn is the whole life of a session with one call in it.
func (c *client) churn(ctx context.Context) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.echo(ctx); err != nil {
		return err
	}
	return c.end(ctx)
}

// tools reads whole lists, which must all have the same number of tools.
func (l *load) tools(ctx context.Context, o *order) (report, error) {
	var items atomic.Int64
	items.Store(-1)
	r, err := l.loop(ctx, o, func(c *client, ctx context.Context) error {
		n, err := c.tools(ctx)
		if err == nil && !items.CompareAndSwap(-1, int64(n)) && items.Load() != int64(n) {
			err = fmt.Errorf("tools/list: %d tools, before %d", n, items.Load())
		}
		return err
	})
	r.Items = int(items.Load())
	return r, err
}

// loop lets every client call until the count is reached or the time is over.
func (l *load) loop(ctx context.Context, o *order, call func(*client, context.Context) error) (report, error) {
	if len(l.clients) == 0 {
		return report{}, errors.New("no clients are open")
	}
	var left atomic.Int64
	left.Store(int64(o.Count))
	began := time.Now()
	parts := make([]tally, len(l.clients))
	var all sync.WaitGroup
	for i, c := range l.clients {
		all.Go(func() {
			for left.Add(-1) >= 0 && time.Since(began) < o.Most && ctx.Err() == nil {
				sent := time.Now()
				if err := call(c, ctx); err != nil {
					parts[i].failed(err)
					if !o.Tolerate {
						return
					}
					time.Sleep(restAfterFailure)
					continue
				}
				parts[i].answered(sent)
			}
		})
	}
	all.Wait()
	r := sum(parts)
	r.Took = time.Since(began)
	return r, nil
}

// tally is what one client has seen.
type tally struct {
	report
	down    bool // the last call failed
	samples []time.Duration
}

func (t *tally) failed(err error) {
	t.Failed++
	t.LastFailure = time.Now().UnixNano()
	if t.FirstFailure == 0 {
		t.FirstFailure, t.Why = t.LastFailure, err.Error()
	}
	t.down = true
}

func (t *tally) answered(sent time.Time) {
	now := time.Now()
	t.Done++
	if len(t.samples) < maxSamples {
		t.samples = append(t.samples, now.Sub(sent))
	}
	if t.down {
		t.down, t.Recovered = false, now.UnixNano()
	}
}

// sum makes one report of those of the clients.
func sum(parts []tally) report {
	var r report
	var samples []time.Duration
	down := false
	for i := range parts {
		p := &parts[i]
		r.Done += p.Done
		r.Failed += p.Failed
		samples = append(samples, p.samples...)
		if p.FirstFailure != 0 && (r.FirstFailure == 0 || p.FirstFailure < r.FirstFailure) {
			r.FirstFailure, r.Why = p.FirstFailure, p.Why
		}
		r.LastFailure = max(r.LastFailure, p.LastFailure)
		r.Recovered = max(r.Recovered, p.Recovered)
		down = down || p.down
	}
	if down {
		r.Recovered = 0
	}
	if len(samples) > 0 {
		slices.Sort(samples)
		r.P50 = samples[len(samples)/2]
		r.P99 = samples[len(samples)*99/100]
	}
	return r
}
