package catalogs

import (
	"context"
	"log/slog"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
)

// Unanswered are the servers whose first lists clients waited for in vain, so that the
// next start does not wait for them again. It is safe for concurrent use.
type Unanswered struct {
	meta *store.Meta
	log  *slog.Logger
}

// NewUnanswered returns the servers that a store keeps.
func NewUnanswered(meta *store.Meta, log *slog.Logger) Unanswered { return Unanswered{meta, log} }

func unansweredKey(server string) string { return "unheard/" + server }

// Note keeps servers as they are configured now.
func (u Unanswered) Note(ctx context.Context, specs []upstream.Spec) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	for i := range specs {
		if err := u.meta.Put(ctx, unansweredKey(specs[i].Key), []byte(specs[i].Hash())); err != nil {
			u.log.Warn("a server that does not answer could not be noted; the next start waits for it again", "server", specs[i].Key, "err", err)
		}
	}
}

// Has tells whether a server was waited for in vain, as it is configured now.
func (u Unanswered) Has(ctx context.Context, spec *upstream.Spec) bool {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	hash, ok, err := u.meta.Get(ctx, unansweredKey(spec.Key))
	return err == nil && ok && string(hash) == spec.Hash()
}
