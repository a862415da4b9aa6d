package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/handshake"
)

const (
	// maxNative is what a native call may cost more than one that the gateway
	// answers itself, in µs of both processes.
	maxNative = 120.0
	// maxShipped is until when five groups of tools are listed, counted as all starts
	// are from when the gateway listens; maxDelay is how much later it may listen for
	// them, best against best; and maxHandshake until when the process of one has told
	// its handshake, in ms.
	maxShipped, maxDelay, maxHandshake = 300.0, 10.0, 10.0
	// maxPrivate is the private memory of such a process that has nothing to do, in
	// MiB.
	maxPrivate = 12.0
	// utilTools are the tools of the group util, and allTools those of all groups.
	utilTools, allTools = 2, 15
	// handshakes is how many processes are started one after another.
	handshakes = 21
	// maxHandshakeLine bounds what is read of the first line.
	maxHandshakeLine = 256
	// inOneProcess has a toolgate that is built with tagLess answer the group util itself.
	inOneProcess = "BENCH_INSIDE=1"
)

// shippedGroups are the settings of all groups of native tools.
func shippedGroups(dir string) map[string]any {
	return map[string]any{
		"util": map[string]any{}, "system": map[string]any{}, "web": map[string]any{},
		"fs": map[string]any{"roots": []string{dir}}, "code": map[string]any{"roots": []string{dir}},
	}
}

// benchNativeCalls compares an echo of the group util with the same echo in a toolgate
// that is built to run the tool's function in its own process: the same pipeline
// with another process at its end, and with none.
func benchNativeCalls(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	var both [2]*contestant
	var plugins [2]int
	r.extra = map[string]any{
		"native":  map[string]any{"util": map[string]any{}},
		"servers": map[string]any{"util": map[string]any{"namespace": "", "tools": map[string]any{"echo": map[string]any{"rate_limit_per_hour": 1_000_000}}}},
	}
	for i, less := range []string{inOneProcess, ""} {
		r.less = less
		s, err := r.gateway(nil)
		if err != nil {
			return nil, err
		}
		if err := r.ready(s, "modern", utilTools); err != nil {
			return nil, err
		}
		children, err := childrenOf(s.pid())
		if err != nil {
			return nil, err
		}
		if len(children) != 1 {
			return nil, s.failure(fmt.Errorf("%d processes of tools, want 1", len(children)))
		}
		plugins[i] = children[0]
		if both[i], err = r.enroll(s, "modern", n.warm); err != nil {
			return nil, err
		}
	}
	var cpu [2]series
	for round := range n.turns {
		for turn := range both {
			i := (turn + round) % len(both)
			before, err := cpuTime(plugins[i])
			if err != nil {
				return nil, err
			}
			got, used, err := both[i].measure(order{Do: "echo", Count: n.turn, Most: n.roundTime})
			if err != nil {
				return nil, err
			}
			after, err := cpuTime(plugins[i])
			if err != nil {
				return nil, err
			}
			cpu[i] = append(cpu[i], micros(used+after-before, got.Done))
		}
	}
	more := cpu[1].minus(cpu[0])
	return []row{
		{
			name: "native: a call, both processes, more than in one", toolgate: more.both("µs"), limit: fmt.Sprintf("%v µs", maxNative),
			verdict: within(more.median(), maxNative),
		},
		{name: "- the whole call (left: in one process)", reverse: cpu[0].both("µs"), toolgate: cpu[1].both("µs"), ratio: short(cpu[1].per(cpu[0]).median())},
	}, nil
}

// benchNativeStart measures a start with five groups of native tools.
func benchNativeStart(ctx context.Context, l *lab, n *counts) ([]row, error) {
	var listening, without, filled, private series
	for range max(n.fresh, n.rounds) {
		bare, err := nativeStart(ctx, l, false, 0)
		if err != nil {
			return nil, err
		}
		t, err := nativeStart(ctx, l, true, n.settle)
		if err != nil {
			return nil, err
		}
		without, listening = append(without, millis(bare.listening, 1)), append(listening, millis(t.listening, 1))
		filled, private = append(filled, millis(t.filled, 1)), append(private, float64(t.private)/(1<<20))
	}
	return []row{
		{
			name: "native: listens, with five groups of tools (left: without)", reverse: without.both("ms"), toolgate: listening.both("ms"),
			limit: fmt.Sprintf("%v ms more", maxDelay), verdict: within(listening.best()-without.best(), maxDelay),
		},
		{
			name: "- from then until the tools of all five are listed", toolgate: filled.both("ms"), limit: fmt.Sprintf("%v ms", maxShipped),
			verdict: within(filled.best(), maxShipped),
		},
		{
			name: "- private memory of the largest of their processes, idle", toolgate: private.both("MiB"),
			limit: fmt.Sprintf("%v MiB", maxPrivate), verdict: within(private.median(), maxPrivate),
		},
	}, nil
}

// nativeStarting is how a start with native tools went; private is the memory of
// the largest of their processes.
type nativeStarting struct {
	listening, filled time.Duration
	private           int64
}

// nativeStart starts toolgate with five groups or with one server that is not
// there, and lets it rest before memory is measured.
func nativeStart(ctx context.Context, l *lab, groups bool, settle time.Duration) (t nativeStarting, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	m := mounts{"silent": "http://127.0.0.1:9/"}
	want, started := 0, 0
	if groups {
		root := filepath.Join(r.dir, "root")
		if err := os.MkdirAll(root, 0o700); err != nil {
			return t, fmt.Errorf("make a folder: %w", err)
		}
		all := shippedGroups(root)
		m, want, r.extra = nil, allTools, map[string]any{"native": all}
		started = len(all)
	}
	gate, err := r.launch(m)
	if err != nil {
		return t, err
	}
	if err := listens(ctx, gate); err != nil {
		return t, err
	}
	began := time.Now()
	t.listening = began.Sub(gate.since)
	if !groups {
		return t, nil
	}
	if err := r.ready(gate, "modern", want); err != nil {
		return t, err
	}
	t.filled = time.Since(began)
	if err := pause(ctx, settle); err != nil {
		return t, err
	}
	plugins, err := childrenOf(gate.pid())
	if err != nil {
		return t, err
	}
	if len(plugins) != started {
		return t, gate.failure(fmt.Errorf("%d processes of tools, want %d", len(plugins), started))
	}
	for _, pid := range plugins {
		size, err := privateMemory(pid)
		if err != nil {
			return t, err
		}
		t.private = max(t.private, size)
	}
	return t, nil
}

// benchHandshake measures from the start of a process to its handshake.
func benchHandshake(ctx context.Context, l *lab, _ *counts) ([]row, error) {
	var took series
	for range handshakes {
		one, err := timeHandshake(ctx, l.toolgate)
		if err != nil {
			return nil, err
		}
		took = append(took, millis(one, 1))
	}
	return []row{{
		name: "native: process started to handshake", toolgate: took.both("ms"), limit: fmt.Sprintf("%v ms", maxHandshake),
		verdict: within(took.median(), maxHandshake),
	}}, nil
}

func timeHandshake(ctx context.Context, toolgate string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, toolgate, handshake.Argument, "util")
	cmd.Env = []string{handshake.CookieKey + "=" + handshake.CookieValue}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("start a plugin: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("start a plugin: %w", err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a plugin: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(out, maxHandshakeLine)).ReadString('\n')
	took = time.Since(began)
	in.Close() // a plugin ends with its standard input
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil || line != handshake.Line {
		return 0, fmt.Errorf("the handshake of a plugin is %q: %w", line, err)
	}
	return took, nil
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, fmt.Errorf("find the processes of %d: %w", pid, err)
	}
	var out []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("find the processes of %d: %w", pid, err)
			}
			out = append(out, child)
		}
	}
	return out, nil
}

// privateMemory is what a process holds that no other shares, in bytes.
func privateMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	clean, err := statusSize(text, "Private_Clean:")
	if err != nil {
		return 0, err
	}
	dirty, err := statusSize(text, "Private_Dirty:")
	return clean + dirty, err
}
