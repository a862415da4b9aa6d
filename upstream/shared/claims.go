package shared

import (
	"context"
	"errors"
	"fmt"
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
	claims Claims // nil claims nothing

	turn chan struct{} // capacity 1
	// With the turn: who has what was claimed; nil for what is to be released.
	by map[string]*offer
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

// claim claims the server of an offer.
func (c *claimed) claim(ctx context.Context, of *offer) error {
	if c.claims == nil {
		return nil
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	if err := c.claims.Claim(ctx, of.server); err != nil {
		c.by[of.server] = nil
		return err
	}
	c.by[of.server] = of
	return nil
}

// release releases the server of an offer, unless another has claimed it since.
func (c *claimed) release(ctx context.Context, of *offer) error {
	if c.claims == nil {
		return nil
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	if has, ok := c.by[of.server]; !ok || has != nil && has != of {
		return nil
	}
	c.by[of.server] = nil
	return c.free(ctx, of.server)
}

// free releases a server; the turn is held.
func (c *claimed) free(ctx context.Context, server string) error {
	if err := c.claims.Release(ctx, server); err != nil {
		return fmt.Errorf("release the server %s: %w", server, err)
	}
	delete(c.by, server)
	return nil
}

// lose notes that what an offer has claimed is to be released, which [claimed.settle] does.
func (c *claimed) lose(of *offer) {
	c.turn <- struct{}{} // held for one access to the store, whose context lose ends before
	defer func() { <-c.turn }()
	if c.by[of.server] == of {
		c.by[of.server] = nil
	}
}

// settle releases what could not be released before.
func (c *claimed) settle(ctx context.Context) error {
	if c.claims == nil {
		return nil
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	var failed []error
	for server, of := range c.by {
		if of == nil {
			failed = append(failed, c.free(ctx, server))
		}
	}
	return errors.Join(failed...)
}
