package sqlstore

import (
	"context"
	"time"
)

// Prune forgets what has outlived its use at a time.
func Prune(ctx context.Context, s *Store, now time.Time) error { return s.prune(ctx, now, true) }
