package cluster

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/internal/store"
)

// HeldError tells that a server runs at another member.
type HeldError struct{ Server string }

// Error implements error.
func (e *HeldError) Error() string {
	return e.Server + " must not run twice, and runs at another gateway, or did until its lease ends"
}

// Claims are the servers that must not run at two members at a time. A claim holds as long as
// the lease of its member. It implements [shared.Claims] for one member. It is safe for
// concurrent use.
type Claims struct {
	s    *store.Store
	self func() string
}

// NewClaims returns the claims of a member.
func NewClaims(s *store.Store, self func() string) *Claims { return &Claims{s, self} }

// Claim returns nil if a server may run at this member, and a [HeldError] if it runs at
// another one.
func (c *Claims) Claim(ctx context.Context, server string) error {
	const claim = `INSERT INTO server_claims (server, member)
		SELECT id_server, id_member FROM (SELECT CAST(? AS TEXT) AS id_server, CAST(? AS TEXT) AS id_member) AS me
			WHERE EXISTS (SELECT 1 FROM members WHERE id = id_member AND lease >= ` + now + ` + ?)
		ON CONFLICT (server) DO UPDATE SET member = excluded.member
			WHERE server_claims.member = excluded.member
				OR NOT EXISTS (SELECT 1 FROM members WHERE id = server_claims.member AND lease >= ` + now + `)`
	err := c.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, claim, server, c.self(), lostMargin.Milliseconds())
		if err == nil && n == 0 {
			err = &HeldError{server}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("claim the server %s: %w", server, err)
	}
	return nil
}

// Release lets a server run at another member.
func (c *Claims) Release(ctx context.Context, server string) error {
	return c.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Exec(ctx, `DELETE FROM server_claims WHERE server = ? AND member = ?`, server, c.self())
		if err != nil {
			return fmt.Errorf("release the server %s: %w", server, err)
		}
		if n > 0 {
			tx.Bump(Topic) // those who wait for it look again
		}
		return nil
	})
}
