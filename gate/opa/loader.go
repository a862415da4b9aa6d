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

// loader is the part of a phase that loads policies. Decisions do not touch it.
type loader struct {
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
	p.loader.mu.Lock()
	defer p.loader.mu.Unlock()
	s := p.loader.status
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
// shape, or a rule of the policy has the name of one. A remote server has its
// own data, and SetData does nothing.
func (p *Phase) SetData(d Data) error {
	if p.remote != nil {
		return nil
	}
	p.loader.load.Lock()
	changed, err := p.setData(d)
	p.loader.load.Unlock()
	if err == nil && changed {
		p.changed()
	}
	return err
}

func (p *Phase) setData(d Data) (changed bool, err error) {
	l := &p.loader
	if l.compiled == nil {
		return false, errLoaded
	}
	data, err := d.normal()
	if err != nil || data.canonical == l.data.canonical {
		return false, err
	}
	if err := p.put(context.Background(), l.compiled, data, p.Status().FromCopy); err != nil {
		return false, err
	}
	l.refused = "" // what did not fit the former data may fit these
	return true, nil
}

// replace loads a source in place of the policy in force. Nothing changes when
// it is the same, or cannot be loaded.
func (p *Phase) replace(ctx context.Context, src *source, fromCopy bool) (changed bool, err error) {
	l := &p.loader
	l.load.Lock()
	defer l.load.Unlock()
	if l.compiled != nil && l.compiled.source.hash == src.hash {
		l.refused = ""
		p.agreed()
		return false, nil
	}
	if l.refused == src.hash {
		return false, l.refusal
	}
	c, err := compile(src, p.o.RegoVersion, p.decision)
	if err == nil {
		err = p.put(ctx, c, l.data, fromCopy)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.refused, l.refusal = src.hash, err
		}
		return false, err
	}
	l.refused = ""
	return true, nil
}

// put makes a compiled policy with data the one in force.
func (p *Phase) put(ctx context.Context, c *compiled, data gatewayData, fromCopy bool) error {
	l := &p.loader
	next, err := c.prepare(ctx, &p.o, p.decision, data)
	if err != nil {
		return err
	}
	l.generation++
	next.generation = l.generation
	l.compiled, l.data = c, data
	p.current.Store(next)
	p.values.clear()
	l.mu.Lock()
	l.status.Revision, l.status.Since, l.status.FromCopy = next.revision, time.Now(), fromCopy
	l.mu.Unlock()
	p.o.Logger.LogAttrs(ctx, slog.LevelInfo, "policy in force", slog.String("source", p.sourceName()), slog.String("revision", next.revision))
	return nil
}

// agreed notes that what is in force is what is there.
func (p *Phase) agreed() {
	p.loader.mu.Lock()
	defer p.loader.mu.Unlock()
	p.loader.status.Err, p.loader.status.ErrSince, p.loader.status.FromCopy = nil, time.Time{}, false
}

// failed notes that what is there is not in force, and why.
func (p *Phase) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	l := &p.loader
	l.mu.Lock()
	news := l.status.Err == nil || l.status.Err.Error() != err.Error()
	if l.status.Err == nil {
		l.status.ErrSince = time.Now()
	}
	l.status.Err = err
	l.mu.Unlock()
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
	p.loader.data = data
	if p.o.Bundle != "" {
		return p.startBundle(ctx)
	}
	read := func() (*source, error) { return readPath(p.o.Path) }
	if p.o.Files != nil {
		read = func() (*source, error) { return sourceOf(p.o.Files) }
	}
	src, err := read()
	if err != nil {
		return err
	}
	_, err = p.replace(ctx, src, false)
	return err
}

// Run keeps the policy up to date until ctx ends, and returns nil then: it
// watches the directory or file, or polls the URL. For a remote server, and for
// [Options.Files], it only waits. It is called once.
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
	case p.o.Files != nil:
		<-ctx.Done()
		return nil
	}
	return p.watch(ctx)
}
