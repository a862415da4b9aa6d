package opa

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// Status is what policy is in force, and whether it is the newest.
type Status struct {
	// Source is the path, or the URL without a password.
	Source string
	// Revision is what decisions carry. Empty for a remote server, whose
	// decisions have its own.
	Revision string
	// Since is when the policy or its data took effect.
	Since time.Time
	// FromCopy tells that it is the last good copy of a bundle whose URL has
	// not answered since the start.
	FromCopy bool
	// Err says why what is there now is not in force, nil if it is.
	Err error
	// ErrSince is when that began.
	ErrSince time.Time
}

// keeper is the part of a phase that loads policies. Decisions do not touch it.
type keeper struct {
	load       sync.Mutex // one load at a time; guards what follows
	compiled   *compiled
	data       gatewayData
	generation uint64
	refused    string // hash of the newest source that could not be loaded
	refusal    error  // and why

	// New uses these, and then Run alone.
	etag   string // of the bundle in force
	copied bool   // the bundle in force is in the copy

	mu     sync.Mutex // guards status
	status Status
}

// Status tells which policy is in force. It does not wait for a load.
func (p *Phase) Status() Status {
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	s := p.keeper.status
	s.Source = p.sourceName()
	return s
}

func (p *Phase) sourceName() string {
	name := p.o.Path + p.o.Bundle + p.o.URL // one is set
	if p.o.Path != "" {
		return name
	}
	u, err := url.Parse(name)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// SetData puts the gateway's part of data in place of the former and returns
// when decisions see it. With an error the former stays: a member has a wrong
// shape, or the policy's own data has the same key. A remote server has its
// own data, and SetData does nothing.
func (p *Phase) SetData(d Data) error {
	if p.remote != nil {
		return nil
	}
	p.keeper.load.Lock()
	changed, err := p.setData(d)
	p.keeper.load.Unlock()
	if err == nil && changed {
		p.changed()
	}
	return err
}

func (p *Phase) setData(d Data) (changed bool, err error) {
	k := &p.keeper
	if k.compiled == nil {
		return false, errLoaded
	}
	data, err := d.normal()
	if err != nil || data.canonical == k.data.canonical {
		return false, err
	}
	if err := p.put(context.Background(), k.compiled, data, p.Status().FromCopy); err != nil {
		return false, err
	}
	k.refused = "" // what did not fit the former data may fit these
	return true, nil
}

// replace loads a source in place of the policy in force. Nothing changes when
// it is the same, or cannot be loaded.
func (p *Phase) replace(ctx context.Context, src *source, fromCopy bool) (changed bool, err error) {
	k := &p.keeper
	k.load.Lock()
	defer k.load.Unlock()
	if k.compiled != nil && k.compiled.source.hash == src.hash {
		k.refused = ""
		p.agreed()
		return false, nil
	}
	if k.refused == src.hash {
		return false, k.refusal
	}
	c, err := compile(src, p.o.RegoVersion, p.decision)
	if err == nil {
		err = p.put(ctx, c, k.data, fromCopy)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.refused, k.refusal = src.hash, err
		}
		return false, err
	}
	k.refused = ""
	return true, nil
}

// put makes a compiled policy with data the one in force.
func (p *Phase) put(ctx context.Context, c *compiled, data gatewayData, fromCopy bool) error {
	k := &p.keeper
	next, err := c.prepare(ctx, &p.o, p.decision, data)
	if err != nil {
		return err
	}
	k.generation++
	next.generation = k.generation
	k.compiled, k.data = c, data
	p.current.Store(next)
	p.cache.clear()
	p.settled.clear()
	k.mu.Lock()
	k.status.Revision, k.status.Since, k.status.FromCopy = next.revision, time.Now(), fromCopy
	k.mu.Unlock()
	p.o.Logger.LogAttrs(ctx, slog.LevelInfo, "policy in force", slog.String("source", p.sourceName()), slog.String("revision", next.revision))
	return nil
}

// agreed notes that what is in force is what is there.
func (p *Phase) agreed() {
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	p.keeper.status.Err, p.keeper.status.ErrSince, p.keeper.status.FromCopy = nil, time.Time{}, false
}

// failed notes that what is there is not in force, and why.
func (p *Phase) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	k := &p.keeper
	k.mu.Lock()
	news := k.status.Err == nil || k.status.Err.Error() != err.Error()
	if k.status.Err == nil {
		k.status.ErrSince = time.Now()
	}
	k.status.Err = err
	k.mu.Unlock()
	if news {
		p.o.Logger.LogAttrs(ctx, slog.LevelError, "the policy cannot be loaded, the last good one stays in force",
			slog.String("source", p.sourceName()), slog.Any("error", err))
	}
}

func (p *Phase) changed() {
	if p.o.OnChange != nil {
		p.o.OnChange()
	}
}

// start loads the first policy.
func (p *Phase) start(ctx context.Context) error {
	data, err := p.o.Data.normal()
	if err != nil {
		return err
	}
	p.keeper.data = data
	if p.o.Bundle != "" {
		return p.startBundle(ctx)
	}
	src, err := readPath(p.o.Path)
	if err != nil {
		return err
	}
	_, err = p.replace(ctx, src, false)
	return err
}

// Run keeps the policy up to date until ctx ends, and returns nil then: it
// watches the directory or file, or polls the URL. For a remote server it only
// waits. It is called once.
func (p *Phase) Run(ctx context.Context) error {
	switch {
	case p.remote != nil:
		<-ctx.Done()
		p.remote.client.CloseIdleConnections()
		return nil
	case p.current.Load() == nil:
		return errors.New("opa: run: the phase was not made by New")
	case p.o.Bundle != "":
		return p.poll(ctx)
	}
	return p.watch(ctx)
}
