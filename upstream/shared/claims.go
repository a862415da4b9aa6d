package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Claims decide where a server runs that must not run twice.
type Claims interface {
	// Claim returns nil if the server may run here, until Release. After an error it may be
	// claimed, too: what was asked of a database may have been done.
	Claim(ctx context.Context, server string) error
	Release(ctx context.Context, server string) error
}

// claimed are the claims of this gateway, one access after the other. It is safe for
// concurrent use.
type claimed struct {
	claims Claims        // nil claims nothing
	turn   chan struct{} // capacity 1: held by whoever asks the store

	mu sync.Mutex
	by map[string]*offer // who has what was claimed; nil for what is to be released
}

func newClaimed(claims Claims) *claimed {
	return &claimed{claims: claims, turn: make(chan struct{}, 1), by: make(map[string]*offer)}
}

// take waits for the turn.
func (c *claimed) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// set notes who has a server.
func (c *claimed) set(server string, of *offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[server] = of
}

// claim claims the server of an offer.
func (c *claimed) claim(ctx context.Context, of *offer) error {
	if c.claims == nil {
		return nil
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	err := c.claims.Claim(ctx, of.server)
	if err == nil && ctx.Err() != nil { // the answer came too late: the claim may have ended since
		err = context.Cause(ctx)
	}
	if err != nil {
		c.set(of.server, nil)
		return err
	}
	c.set(of.server, of)
	return nil
}

// release releases the server of an offer, unless another has claimed it since.
func (c *claimed) release(ctx context.Context, of *offer) error {
	if c.claims == nil || !c.lose(of) {
		return nil
	}
	return c.free(ctx, of.server)
}

// lose notes that what an offer has claimed is to be released, which [claimed.settle] does. It
// tells whether the offer has claimed it.
func (c *claimed) lose(of *offer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[of.server] != of {
		return false
	}
	c.by[of.server] = nil
	return true
}

// owed returns the servers that are to be released.
func (c *claimed) owed() (servers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for server, of := range c.by {
		if of == nil {
			servers = append(servers, server)
		}
	}
	return servers
}

// free releases a server that is to be released still.
func (c *claimed) free(ctx context.Context, server string) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	if !slices.Contains(c.owed(), server) {
		return nil
	}
	if err := c.claims.Release(ctx, server); err != nil {
		return fmt.Errorf("release the server %s: %w", server, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, server)
	return nil
}

// settle releases what could not be released before.
func (c *claimed) settle(ctx context.Context) error {
	var failed []error
	for _, server := range c.owed() {
		failed = append(failed, c.free(ctx, server))
	}
	return errors.Join(failed...)
}
