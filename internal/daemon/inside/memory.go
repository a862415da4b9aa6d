package inside

import (
	"context"
	"errors"
	"time"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/plugins/memory"
	"github.com/toolgate/toolgate/native/toolapi"
)

// redactTime bounds the search for secrets in a text that is kept.
const redactTime = time.Second

// memories makes the group memory.
func memories(p *Parts) *toolapi.Plugin {
	return memory.Plugin(memory.Options{
		Keeper: keeper{store.NewMemories(p.Store)}, MostTexts: store.MaxMemories, MostBytes: store.MaxMemory, Redact: p.redact,
	})
}

// redact removes secrets from a text, as the audit log does.
func (p *Parts) redact(text string) (string, error) {
	clean, _, err := p.Hidden.Text(text, time.Now().Add(redactTime))
	return clean, err
}

// keeper keeps memories in the store.
type keeper struct{ m *store.Memories }

var _ memory.Keeper = keeper{}

// Save implements [memory.Keeper].
func (k keeper) Save(ctx context.Context, principal string, kind memory.Kind, r memory.Record) (memory.Record, error) {
	got, err := k.m.Save(ctx, principal, store.MemoryRecord{Kind: store.MemoryKind(kind), Name: r.Name, Body: r.Body, ExpiresAt: r.ExpiresAt})
	switch {
	case errors.Is(err, store.ErrTooMany):
		err = memory.ErrFull
	case errors.Is(err, store.ErrTooLarge):
		err = memory.ErrLarge
	}
	return record(&got), err
}

// List implements [memory.Keeper].
func (k keeper) List(ctx context.Context, principal string, kind memory.Kind) ([]memory.Record, error) {
	list, err := k.m.List(ctx, principal, store.MemoryKind(kind))
	out := make([]memory.Record, len(list))
	for i := range list {
		out[i] = record(&list[i])
	}
	return out, err
}

// Delete implements [memory.Keeper].
func (k keeper) Delete(ctx context.Context, principal string, ids ...string) ([]string, error) {
	return k.m.Delete(ctx, principal, ids...)
}

func record(r *store.MemoryRecord) memory.Record {
	return memory.Record{ID: r.ID, Name: r.Name, Body: r.Body, SavedAt: r.SavedAt, ExpiresAt: r.ExpiresAt}
}
