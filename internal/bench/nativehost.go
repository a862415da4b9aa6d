package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/toolgate/toolgate/budget"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/plugins/text"
	"github.com/toolgate/toolgate/native/toolapi"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// nativeProgram is a gateway before the group util, which this program ships as
// well. With -stub its calls are answered in the process of the gateway; the
// process of the group is there and idle.
func nativeProgram(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("native", flag.ContinueOnError)
	dir := flags.String("dir", "", "`folder` for sockets and the audit log")
	inside := flags.Bool("stub", false, "answer calls in this process")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	var g *proxy.Gateway
	host, err := native.NewHost(native.Options{Folder: filepath.Join(*dir, "sockets"), Logger: log, Changed: func(key string) { g.Changed(key) }})
	if err != nil {
		return err
	}
	entries, err := audit.Open(filepath.Join(*dir, "audit.jsonl"), audit.Options{
		Logger: log, Mode: audit.BestEffort, Key: audit.Key{ID: "bench", Secret: make([]byte, 32)},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
		err = errors.Join(err, entries.Close())
	}()
	keys, err := seal.NewKeyring(seal.Key{ID: "bench", Secret: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		return err
	}
	g, err = proxy.New(proxy.Options{Authenticator: auth.Loopback{}, Auditor: entries, Keys: keys, Logger: log, Version: "bench"})
	if err != nil {
		return err
	}
	plugin := host.Plugin(native.Spec{Key: text.Name, Shipped: true, Policy: sandbox.Policy{Mode: sandbox.Auto, CPU: startTime * 30}})
	var backend proxy.Backend = plugin
	if *inside {
		if backend, err = newStub(plugin); err != nil {
			return err
		}
	}
	g.Apply(proxy.Config{
		Chain: gate.NewChain(gate.Open{}), Limiter: budget.Unlimited(), Mounts: []proxy.Mount{{Backend: backend}},
	})
	running.Go(func() { _ = plugin.Run(ctx) })
	running.Go(func() { _ = entries.Run(ctx) })
	running.Go(func() { _ = g.Run(ctx) })
	return serve(ctx, "127.0.0.1:0", g.Handler())
}

// stub lists what a plugin does, and runs its tools in this process.
type stub struct {
	*native.Plugin

	tools map[string]toolapi.Tool
}

func newStub(p *native.Plugin) (*stub, error) {
	tools, err := text.Plugin().Open([]byte("{}"))
	if err != nil {
		return nil, err
	}
	s := &stub{p, make(map[string]toolapi.Tool, len(tools))}
	for _, t := range tools {
		s.tools[t.Name] = t
	}
	return s, nil
}

// Call implements proxy.Backend.
func (s *stub) Call(ctx context.Context, call *mcp.Call) (mcp.Answer, error) {
	tool, ok := s.tools[call.Key]
	if !ok {
		return mcp.Answer{}, fmt.Errorf("there is no tool %s", call.Key)
	}
	got, err := tool.Run(ctx, &toolapi.Call{
		Arguments: mcp.Lookup(call.Params, "arguments"), Progress: func(float64, float64, string) {}, Log: func(string, string) {},
	})
	if err != nil {
		return mcp.Answer{}, err
	}
	out := append(mcp.AppendQuote([]byte(`{"content":[{"type":"text","text":`), got.Text), `}],"structuredContent":`...)
	return mcp.Answer{Era: mcp.Modern, Result: append(append(out, got.Structured...), '}')}, nil
}
