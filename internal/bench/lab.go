package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/built"
)

// lab is where the programs run: their binaries, a folder of their own, and
// all that were started.
type lab struct {
	self     string // this binary, which is also the upstream, the proxy and the load
	toolgate string
	dir      string
	log      io.Writer // progress, for a person; nil for nobody
	count    int
	lessPath string // a toolgate that can do less; empty until it is needed
}

// newLab makes a folder and, unless binary names one, builds toolgate.
func newLab(ctx context.Context, binary string) (_ *lab, err error) {
	if _, err := cpuTime(os.Getpid()); err != nil {
		return nil, fmt.Errorf("this needs Linux: %w", err)
	}
	l := &lab{toolgate: binary}
	if l.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	if l.dir, err = os.MkdirTemp("", "tgbench"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if binary != "" {
		return l, nil
	}
	l.toolgate = filepath.Join(l.dir, "toolgate")
	if err := build(ctx, l.toolgate, ""); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func build(ctx context.Context, to, tag string) error {
	return built.Program(ctx, to, "github.com/toolgate/toolgate/cmd/toolgate", "-tags", tag)
}

// lesser returns a toolgate that can do less for calls, from the source that is here.
func (l *lab) lesser(ctx context.Context) (string, error) {
	if l.lessPath == "" {
		path := filepath.Join(l.dir, tagLess)
		if err := build(ctx, path, tagLess); err != nil {
			return "", err
		}
		l.lessPath = path
	}
	return l.lessPath, nil
}

func (l *lab) close() { os.RemoveAll(l.dir) }

// note tells a person what is going on.
func (l *lab) note(format string, args ...any) {
	if l.log != nil {
		fmt.Fprintf(l.log, format+"\n", args...)
	}
}

// room is a set of running programs that end together.
type room struct {
	*lab
	ctx     context.Context
	running []*process

	extra map[string]any    // settings of the gateways that are started next
	less  string            // what these do less for calls, a variable with its value; empty for toolgate as it is
	token string            // what clients show them; empty for nothing
	shows map[string]string // headers that they send their servers

	pipes    map[string][]string // arguments of this binary for servers that are processes instead
	console  string              // address of their console; empty for none
	redisPid int                 // of the room's own Redis
	defaults bool                // they have the limits and the namespaces that a user gets
}

func (l *lab) enter(ctx context.Context) *room { return &room{lab: l, ctx: ctx} }

// leave ends every program, the last one first.
func (r *room) leave() error {
	var all []error
	for _, p := range slices.Backward(r.running) {
		all = append(all, p.stop())
	}
	r.running = nil
	return errors.Join(all...)
}

func (r *room) start(name string, env []string, binary string, args ...string) (*process, error) {
	p, err := start(r.ctx, name, env, binary, args...)
	if err == nil {
		r.running = append(r.running, p)
	}
	return p, err
}

// server is a program that listens.
type server struct {
	*process
	url     string // without a path
	metrics string // of toolgate: where its counters are
	since   time.Time
}

var served = regexp.MustCompile(`^(http://\S+) (\d+)`)

// serve starts one of our own programs that listen.
func (r *room) serve(program string, args ...string) (*server, error) {
	p, err := r.start(program, os.Environ(), r.self, append([]string{program}, args...)...)
	if err != nil {
		return nil, err
	}
	found, err := p.find(served)
	if err != nil {
		return nil, err
	}
	since, err := strconv.ParseInt(string(found[2]), 10, 64)
	if err != nil {
		return nil, p.failure(err)
	}
	return &server{process: p, url: string(found[1]), since: time.Unix(0, since)}, nil
}

// fastUpstream starts the fast server.
func (r *room) fastUpstream(s setting, args ...string) (*server, error) {
	return r.serve("upstream", append([]string{"-era", s.era, "-answers", s.answers}, args...)...)
}

// setting is the era that all parties speak and the kind of answers.
type setting struct{ era, answers string }

func (s setting) String() string {
	era := "legacy sessions"
	if s.era == "modern" {
		era = "2026-07-28"
	}
	return era + ", " + strings.ToUpper(s.answers)
}

// mounts are the servers of a configuration: keys and URLs.
type mounts map[string]string

// config writes a configuration file for toolgate and returns its path. With
// one server alone, its tools keep their own names.
func (r *room) config(m mounts, address, metrics string) (string, error) {
	servers, settings := map[string]any{}, map[string]any{}
	for key, url := range m {
		entry := map[string]any{"type": "http", "url": url}
		if r.shows != nil {
			entry["headers"] = r.shows
		}
		if args := r.pipes[key]; args != nil {
			entry = map[string]any{"command": r.self, "args": args}
		}
		servers[key] = entry
		own := map[string]any{"client_requests": map[string]any{"per_hour": 100000}}
		if len(m) == 1 && !r.defaults {
			own["namespace"] = ""
		}
		settings[key] = own
	}
	toolgate := map[string]any{
		"listen":  map[string]any{"http": address, "metrics": metrics, "console": r.console},
		"limits":  wide(),
		"servers": settings,
	}
	if r.defaults {
		delete(toolgate, "limits")
	}
	maps.Copy(toolgate, r.extra)
	text, err := json.MarshalIndent(map[string]any{"mcpServers": servers, "toolgate": toolgate}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write a configuration: %w", err)
	}
	r.count++
	dir := filepath.Join(r.dir, strconv.Itoa(r.count))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	path := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write a configuration: %w", err)
	}
	return path, nil
}

// wide are limits that a load stays within, which is of one caller and does the
// same again and again.
func wide() map[string]any {
	limits := map[string]any{"sessions_per_principal": 2000, "parked_per_principal": 2000, "parked_per_server": 2000}
	for _, key := range []string{"identical_calls", "calls_per_principal", "lists_per_minute", "initializes_per_minute", "notifications_per_minute"} {
		limits[key] = 0
	}
	return limits
}

var mcpLine = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/mcp\b`)

// gateway starts toolgate in front of servers, with a state folder of its own,
// and returns when it says that it listens.
func (r *room) gateway(m mounts) (*server, error) {
	s, err := r.launch(m)
	if err != nil {
		return nil, err
	}
	if _, err := s.find(mcpLine); err != nil {
		return nil, err
	}
	return s, nil
}

// launch starts toolgate and returns at once.
func (r *room) launch(m mounts) (*server, error) {
	address, err := freeAddress(r.ctx)
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress(r.ctx)
	if err != nil {
		return nil, err
	}
	file, err := r.config(m, address, metrics)
	if err != nil {
		return nil, err
	}
	home := filepath.Dir(file)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
		"TOOLGATE_STATE=" + filepath.Join(home, "state"),
	}
	binary := r.toolgate
	if r.less != "" {
		if binary, err = r.lesser(r.ctx); err != nil {
			return nil, err
		}
		env = append(env, r.less)
	}
	began := time.Now()
	p, err := r.start("toolgate", env, binary, "up", file)
	if err != nil {
		return nil, err
	}
	return &server{process: p, url: "http://" + address, metrics: "http://" + metrics + "/metrics", since: began}, nil
}

// freeAddress returns a loopback address that nobody listens on at the moment.
func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ready waits until toolgate lists so many tools.
func (r *room) ready(s *server, era string, tools int) error {
	return r.readyWithin(s, era, tools, startTime)
}

func (r *room) readyWithin(s *server, era string, tools int, most time.Duration) error {
	deadline := time.Now().Add(most)
	c := newClient(s.url+"/mcp", era, "")
	c.authorize(r.token)
	defer c.close()
	n := 0
	for {
		err := c.open(r.ctx)
		if err == nil {
			if n, err = c.tools(r.ctx); err == nil && n == tools {
				return c.end(r.ctx)
			}
			err = errors.Join(err, c.end(r.ctx))
		}
		if time.Now().After(deadline) || r.ctx.Err() != nil {
			return s.failure(errors.Join(fmt.Errorf("lists %d tools within %v, want %d", n, most, tools), err, context.Cause(r.ctx)))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// loader starts a load generator on a URL.
func (r *room) loader(url, era string, flags ...string) (*loader, error) {
	flags = append([]string{"load", "-url", url, "-era", era}, flags...)
	p, err := r.start("load", append(os.Environ(), tokenVariable+"="+r.token), r.self, flags...)
	if err != nil {
		return nil, err
	}
	return &loader{p}, nil
}

// loader is a running load generator.
type loader struct{ *process }

// order sends an order and waits for its report. A call that failed is an
// error, unless the order tolerates it.
func (l *loader) order(o order) (report, error) {
	if o.Most <= 0 {
		o.Most = time.Minute
	}
	text, err := json.Marshal(o)
	if err != nil {
		return report{}, fmt.Errorf("order %s: %w", o.Do, err)
	}
	if _, err := l.stdin.Write(append(text, '\n')); err != nil {
		return report{}, l.failure(fmt.Errorf("order %s: %w", o.Do, err))
	}
	line, err := l.line(o.Most + 2*requestTime)
	if err != nil {
		return report{}, fmt.Errorf("order %s: %w", o.Do, err)
	}
	var r report
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("order %s: read the report: %w", o.Do, err)
	}
	if r.Failed > 0 && !o.Tolerate {
		return r, fmt.Errorf("order %s: %d failed, %d done; the first: %s", o.Do, r.Failed, r.Done, r.Why)
	}
	return r, nil
}

// counters are what a Go program says of itself.
type counters struct {
	allocated  float64 // bytes since its start
	heap       float64 // bytes in use
	goroutines float64
}

var counterLine = regexp.MustCompile(`(?m)^(go_memstats_alloc_bytes_total|go_memstats_heap_inuse_bytes|go_goroutines) (\S+)$`)

// counters reads toolgate's own counters.
func (s *server) counters(ctx context.Context) (counters, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics, nil)
	if err != nil {
		return counters{}, err
	}
	r.Close = true // seldom asked: the connection need not wait for the next time
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return counters{}, fmt.Errorf("read the counters: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return counters{}, fmt.Errorf("read the counters: %w", err)
	}
	return parseCounters(text)
}

func parseCounters(text []byte) (counters, error) {
	values := map[string]float64{}
	for _, m := range counterLine.FindAllSubmatch(text, -1) {
		value, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return counters{}, fmt.Errorf("the counter %s: %w", m[1], err)
		}
		values[string(m[1])] = value
	}
	if len(values) != 3 {
		return counters{}, fmt.Errorf("%d of 3 counters are there", len(values))
	}
	return counters{
		allocated: values["go_memstats_alloc_bytes_total"], heap: values["go_memstats_heap_inuse_bytes"],
		goroutines: values["go_goroutines"],
	}, nil
}
