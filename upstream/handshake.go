package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream/transport"
)

// probeTime is how long a server on a shared channel may take to answer server/discover
// before the legacy handshake starts as well: some legacy servers ignore unknown methods.
const probeTime = 3 * time.Second

// errNotModern tells that a server answered the probe like a legacy server.
var errNotModern = errors.New("the server is of the legacy era")

// discovery is what a server said about itself.
type discovery struct {
	version            mcp.Version
	info, capabilities []byte
	instructions       string
}

// handshake detects the era of the server, unless it is known, and initializes the
// connection (2026-07-28 basic/versioning, Backward Compatibility).
func (c *Conn) handshake(ctx context.Context, known mcp.Era) error {
	d, err := c.negotiate(ctx, known)
	if err != nil {
		return err
	}
	c.era, c.version = d.version.Era(), d.version
	c.info, c.capabilities, c.instructions = d.info, d.capabilities, d.instructions
	c.settled.Store(true)
	c.link.Negotiated(c.version)
	if c.era == mcp.Legacy {
		raw := mcp.AppendNotification(nil, mcp.NotifyInitialized, nil)
		if err := c.link.Send(ctx, raw, nil); err != nil {
			return fmt.Errorf("the server does not take %s: %w", mcp.NotifyInitialized, err)
		}
	}
	c.link.Ready()
	return nil
}

func (c *Conn) negotiate(ctx context.Context, known mcp.Era) (discovery, error) {
	switch {
	case known == mcp.Legacy || c.kind.LegacyOnly:
		return c.initialize(ctx)
	case known == mcp.Modern:
		return c.discover(ctx)
	case c.shared:
		return c.race(ctx)
	}
	d, err := c.discover(ctx)
	if errors.Is(err, errNotModern) {
		return c.initialize(ctx)
	}
	return d, err
}

// race probes over a channel on which the probe may stay unanswered. After probeTime the
// legacy handshake starts as well, and the first success counts.
func (c *Conn) race(ctx context.Context) (discovery, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		discovery
		err error
	}
	try := func(f func(context.Context) (discovery, error)) <-chan outcome {
		out := make(chan outcome, 1)
		c.wg.Go(func() { // ends with ctx at the latest
			d, err := f(ctx)
			out <- outcome{d, err}
		})
		return out
	}
	probed := try(c.discover)
	timer := time.NewTimer(probeTime)
	defer timer.Stop()
	select {
	case o := <-probed:
		if errors.Is(o.err, errNotModern) {
			return c.initialize(ctx)
		}
		return o.discovery, o.err
	case <-timer.C:
	}
	began := try(c.initialize)
	select {
	case o := <-began:
		if o.err == nil {
			return o.discovery, nil
		}
		if p := <-probed; p.err == nil {
			return p.discovery, nil
		}
		return discovery{}, o.err
	case p := <-probed:
		if p.err == nil {
			return p.discovery, nil
		}
		o := <-began
		return o.discovery, o.err
	}
}

// discover asks a server for its modern side. If the server rejects the version and yet
// lists it as supported, it is asked once more (2026-07-28 basic/versioning, Version
// Negotiation).
func (c *Conn) discover(ctx context.Context) (discovery, error) {
	d, err := c.discoverOnce(ctx)
	if fault, ok := errors.AsType[*mcp.Error](err); ok && fault.Code == mcp.CodeUnsupportedVersion && offers(mcp.Lookup(fault.Data, "supported"), mcp.Modern) {
		return c.discoverOnce(ctx)
	}
	return d, err
}

// discoverOnce asks once. Any answer means a legacy server, except a discovery or an error
// that only modern servers send.
func (c *Conn) discoverOnce(ctx context.Context) (discovery, error) {
	msg, err := c.request(ctx, mcp.Modern, mcp.MethodDiscover, nil)
	if err != nil {
		var status *transport.StatusError
		if ctx.Err() == nil && (errors.As(err, &status) || errors.Is(err, transport.ErrNoAnswer)) && transport.IsRejection(status) {
			return discovery{}, errNotModern
		}
		return discovery{}, err
	}
	if raw := msg.Fault(); raw != nil {
		fault := mcp.ParseError(raw)
		supported := mcp.Lookup(raw, "data", "supported")
		switch {
		case fault.Code == mcp.CodeHeaderMismatch, fault.Code == mcp.CodeMissingCapability:
			return discovery{}, fmt.Errorf("the server is modern and turns %s down: %w", mcp.MethodDiscover, fault)
		case fault.Code == mcp.CodeUnsupportedVersion && offers(supported, mcp.Modern):
			return discovery{}, fmt.Errorf("the server turns down a version that it supports: %w", fault)
		case fault.Code == mcp.CodeUnsupportedVersion && supported != nil && !offers(supported, mcp.Legacy):
			return discovery{}, fmt.Errorf("the server speaks %s, of which toolgate knows none: %w",
				transport.Excerpt(supported), fault)
		}
		return discovery{}, errNotModern
	}
	result := msg.Result()
	if !offers(mcp.Lookup(result, "supportedVersions"), mcp.Modern) {
		return discovery{}, errNotModern
	}
	d := discovery{
		version:      mcp.LatestModern,
		info:         mcp.Lookup(result, "_meta", mcp.MetaServerInfo),
		capabilities: mcp.Lookup(result, "capabilities"),
	}
	d.instructions, _ = mcp.LookupString(result, "instructions")
	return d, nil
}

// offers tells whether a list of versions has one of the era that the gateway supports.
func offers(list []byte, era mcp.Era) bool {
	for e := range mcp.Elements(list) {
		v, err := mcp.Unquote(e.Of(list))
		if err == nil && mcp.Version(v).Supported() && mcp.Version(v).Era() == era {
			return true
		}
	}
	return false
}

// initialize performs the legacy handshake (2025-11-25 basic/lifecycle).
func (c *Conn) initialize(ctx context.Context) (discovery, error) {
	params := []byte(`{"protocolVersion":"` + string(mcp.LatestLegacy) + `","capabilities":`)
	params = append(params, c.declared...)
	params = append(params, `,"clientInfo":`...)
	params = append(params, c.identity...)
	params = append(params, '}')
	msg, err := c.request(ctx, mcp.Legacy, mcp.MethodInitialize, params)
	if err != nil {
		return discovery{}, err
	}
	if raw := msg.Fault(); raw != nil {
		return discovery{}, fmt.Errorf("the server refuses to %s: %w", mcp.MethodInitialize, mcp.ParseError(raw))
	}
	version, _ := mcp.LookupString(msg.Result(), "protocolVersion")
	v := mcp.Version(version)
	if !v.Supported() || v.Era() != mcp.Legacy {
		return discovery{}, fmt.Errorf("the server wants the unknown revision %q of MCP", version)
	}
	d := discovery{
		version:      v,
		info:         mcp.Lookup(msg.Result(), "serverInfo"),
		capabilities: mcp.Lookup(msg.Result(), "capabilities"),
	}
	d.instructions, _ = mcp.LookupString(msg.Result(), "instructions")
	return d, nil
}
