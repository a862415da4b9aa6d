package vectors

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/proxy/find"
)

const (
	// maxRest is the longest wait between attempts that fail.
	maxRest = 5 * time.Minute
	// loadChunk is how many vectors are read from the store at once.
	loadChunk = 1000
	// maxRefused is how many texts of one attempt the endpoint may refuse until that is
	// taken for an error of the settings.
	maxRefused = 16
)

// Run makes the vectors of definitions that are missing, one batch after the other, until
// ctx ends. What fails is tried again, after a wait that grows to 5 minutes or is what the
// endpoint asks for.
func (v *Vectors) Run(ctx context.Context) error {
	defer v.Use(&Settings{})
	var resting *model // the one that is left alone until again
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.wake:
			if resting != nil && resting == v.inForce.Load() {
				continue // however many indexes come meanwhile
			}
			v.wait.Reset()
		case <-again.C:
		}
		again.Stop()
		m := v.inForce.Load()
		resting = nil
		if rest := v.fill(ctx, m); rest > 0 {
			again.Reset(rest)
			resting = m
		}
	}
}

// fill makes what is missing of the latest index. It returns after how long to try again,
// 0 for not.
func (v *Vectors) fill(ctx context.Context, m *model) time.Duration {
	latest := v.latest.Load()
	if m == nil || latest == nil {
		return 0
	}
	x := latest.Value()
	if x == nil {
		return 0
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.ended, stop)()
	err := m.complete(ctx, v, x)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		v.wait.Reset()
		if m.problem.Swap(nil) != nil {
			v.log.Info("vectors of definitions are made again")
		}
		return 0
	}
	said := err.Error()
	if m.problem.Swap(&said) == nil {
		v.log.Warn("vectors of definitions are not made; they are found by their words alone until the endpoint answers", "err", err)
	}
	rest := v.wait.Next()
	if r, ok := errors.AsType[*refused](err); ok {
		rest = max(rest, r.after)
	}
	return rest
}

// missing is a text without a vector, with the items that have it.
type missing struct {
	key, text string
	hashes    []string // of the definitions
}

// complete makes what is missing of an index.
func (m *model) complete(ctx context.Context, v *Vectors, x *find.Index) error {
	m.forget(x)
	todo := m.missing(x)
	todo, err := m.load(ctx, v.store, x, todo)
	m.loaded.Store(true)
	if err != nil {
		return err
	}
	left := maxRefused
	for batch := range slices.Chunk(todo, maxBatch) {
		if err := m.make(ctx, v, x, batch, &left); err != nil {
			return err
		}
		if latest := v.latest.Load(); latest.Value() != x { // the newer one is filled next
			return nil
		}
	}
	return nil
}

// forget drops the vectors of definitions that an index does not have, where they are
// many.
func (m *model) forget(x *find.Index) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refused) > x.Len() {
		clear(m.refused)
	}
	if len(m.known) <= 2*x.Len() {
		return
	}
	there := make(map[string]*vector, x.Len())
	for i := range x.Len() {
		if known := m.known[x.Hash(i)]; known != nil {
			there[x.Hash(i)] = known
		}
	}
	m.known = there
}

// missing returns the texts of an index that have no vector, each once.
func (m *model) missing(x *find.Index) (todo []missing) {
	t, _ := m.tableOf(x)
	at := map[string]int{} // by key
	for i, known := range t.vectors {
		if known != nil || x.Hash(i) == "" {
			continue
		}
		said := text(x.Item(i))
		key := hash(said)
		if m.refused[key] {
			continue
		}
		j, seen := at[key]
		if !seen {
			j = len(todo)
			at[key] = j
			todo = append(todo, missing{key: key, text: said})
		}
		todo[j].hashes = append(todo[j].hashes, x.Hash(i))
	}
	return todo
}

// load takes from the store what it has, and returns the rest.
func (m *model) load(ctx context.Context, s Store, x *find.Index, todo []missing) (rest []missing, err error) {
	for some := range slices.Chunk(todo, loadChunk) {
		keys := make([]string, len(some))
		for i := range some {
			keys[i] = some[i].key
		}
		bodies, err := s.Load(ctx, m.space, keys)
		if err != nil {
			return nil, fmt.Errorf("the store: %w", err)
		}
		vectors := make([]*vector, len(some))
		for i := range some {
			got, err := decode(bodies[some[i].key])
			if err != nil || m.fits(got) != nil { // it is made again
				rest = append(rest, some[i])
				continue
			}
			vectors[i] = got
		}
		m.add(x, some, vectors)
	}
	return rest, nil
}

// make asks for the vectors of a batch, and keeps them. left is how many texts the
// endpoint may still refuse: a batch that it refuses is halved until the text is found.
func (m *model) make(ctx context.Context, v *Vectors, x *find.Index, batch []missing, left *int) error {
	texts := make([]string, len(batch))
	for i := range batch {
		texts[i] = batch[i].text
	}
	vectors, err := m.client.embed(ctx, texts)
	if r, ok := errors.AsType[*refused](err); ok && r.ofTexts() && *left > 0 {
		if len(batch) > 1 {
			half := len(batch) / 2
			return errors.Join(m.make(ctx, v, x, batch[:half], left), m.make(ctx, v, x, batch[half:], left))
		}
		if *left--; *left > 0 {
			m.refused[batch[0].key] = true
			v.log.Warn("the embeddings endpoint refuses a definition, which is found by its words alone", "status", r.status, "name", x.Item(m.itemOf(x, batch[0].hashes[0])).Name)
			return nil
		}
	}
	if err != nil {
		return err
	}
	bodies := make(map[string][]byte, len(batch))
	for i := range batch {
		if err := m.fits(vectors[i]); err != nil {
			return err
		}
		bodies[batch[i].key] = vectors[i].encode()
	}
	if err := v.store.Save(ctx, m.space, bodies); err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	m.add(x, batch, vectors)
	return nil
}

// itemOf returns the item with a hash.
func (m *model) itemOf(x *find.Index, hash string) int {
	for i := range x.Len() {
		if x.Hash(i) == hash {
			return i
		}
	}
	return 0
}

// add makes vectors of texts known. Those that are nil are passed over.
func (m *model) add(x *find.Index, of []missing, vectors []*vector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, one := range vectors {
		if one == nil {
			continue
		}
		one.lot = lot(of[i].key)
		for _, h := range of[i].hashes {
			m.known[h] = one
		}
	}
	if t := m.table.Load(); t != nil {
		if now := t.of.Value(); now != nil {
			x = now // what is searched by now, which may be a newer one
		}
	}
	m.tabulate(x)
}

// lot draws a number from a key.
func lot(key string) uint32 {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(raw)
}
