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
			if m := v.inForce.Load(); resting != nil && resting == m {
				v.fill(ctx, m, false) // however many indexes come meanwhile
				continue
			}
			v.wait.Reset()
		case <-again.C:
		}
		again.Stop()
		m := v.inForce.Load()
		resting = nil
		rest, later := v.fill(ctx, m, true)
		switch {
		case rest > 0:
			again.Reset(rest)
			resting = m
		case later > 0:
			again.Reset(later)
		}
	}
}

// fill makes what is missing of the latest index: of what the store has, or with ask also
// by the endpoint. It returns for how long to leave the endpoint alone, and otherwise when
// to try texts again that were set aside; 0 for neither.
func (v *Vectors) fill(ctx context.Context, m *model, ask bool) (rest, later time.Duration) {
	latest := v.latest.Load()
	if m == nil || latest == nil {
		return 0, 0
	}
	x := latest.Value()
	if x == nil {
		return 0, 0
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.ended, stop)()
	later, err := m.complete(ctx, v, x, ask)
	switch {
	case ctx.Err() != nil || !ask:
		return 0, 0
	case err == nil:
		v.wait.Reset()
		if m.problem.Swap(nil) != nil {
			v.log.Info("vectors of definitions are made again")
		}
		return 0, later
	}
	said := err.Error()
	if m.problem.Swap(&said) == nil {
		v.log.Warn("vectors of definitions are not made; they are found by their words alone until the endpoint answers", "err", err)
	}
	rest = v.wait.Next()
	if r, ok := errors.AsType[*refused](err); ok {
		rest = max(rest, r.after)
	}
	return rest, 0
}

// missing is a text without a vector, with the items that have it.
type missing struct {
	key, text    string
	server, name string   // of the first of them
	hashes       []string // of the definitions
}

// complete makes what is missing of an index, and returns when to try texts again that
// were set aside; 0 for none. A batch that fails although the endpoint works is halved
// until the text is alone that it fails for. What fails waits until the others have been
// made, so that nobody's texts keep those of others from being made.
func (m *model) complete(ctx context.Context, v *Vectors, x *find.Index, ask bool) (later time.Duration, err error) {
	m.forget(x)
	todo, err := m.load(ctx, v.store, x, m.missing(x))
	m.loaded.Store(true)
	if err != nil || !ask {
		return 0, err
	}
	now, failed := time.Now(), make(map[string]int) // by server
	work := m.batches(todo, now)
	if len(work) > 0 && !m.sized() { // nobody's text says how many dimensions there are
		if _, err := m.embed(ctx, probe); err != nil {
			return 0, err
		}
	}
	for len(work) > 0 {
		batch := slices.DeleteFunc(work[0], func(of missing) bool { return failed[of.server] >= maxFailed })
		if work = work[1:]; len(batch) == 0 {
			continue
		}
		bad, err := m.make(ctx, v, x, batch)
		if bad != nil {
			err = m.blame(ctx, batch, bad)
		}
		switch {
		case err != nil:
			return 0, err
		case bad != nil && len(batch) > 1:
			half := len(batch) / 2
			work = append(work, batch[:half:half], batch[half:])
		case bad != nil:
			failed[batch[0].server]++
			m.setAside(batch[0].key, bad, now, v.retry)
			v.log.Warn("the embeddings endpoint refuses a definition, which is found by its words alone", "name", batch[0].name, "err", bad)
		}
		if latest := v.latest.Load(); latest.Value() != x { // the newer one is filled next
			return 0, nil
		}
	}
	return m.later(m.missing(x), v.retry), nil
}

// forget drops the vectors of definitions that an index does not have, where they are
// many.
func (m *model) forget(x *find.Index) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.trials) > x.Len() {
		clear(m.trials)
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
	t, complete := m.tableOf(x)
	if complete {
		return nil
	}
	at := map[string]int{} // by key
	for i, read := range x.Items() {
		if t.vectors[i] != nil || x.Hash(i) == "" {
			continue
		}
		item := read()
		said := text(&item)
		key := hash(said)
		j, seen := at[key]
		if !seen {
			j = len(todo)
			at[key] = j
			todo = append(todo, missing{key: key, text: said, server: x.Server(i), name: item.Name})
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

// make asks for the vectors of a batch, and keeps them. bad says what is wrong with the
// endpoint or with its answer, and err what is wrong with the store.
func (m *model) make(ctx context.Context, v *Vectors, x *find.Index, batch []missing) (bad, err error) {
	texts := make([]string, len(batch))
	for i := range batch {
		texts[i] = batch[i].text
	}
	vectors, bad := m.embed(ctx, texts)
	if bad != nil {
		return bad, nil
	}
	bodies := make(map[string][]byte, len(batch))
	for i := range batch {
		delete(m.trials, batch[i].key)
		bodies[batch[i].key] = vectors[i].encode()
	}
	if err := v.store.Save(ctx, m.space, bodies); err != nil {
		return nil, fmt.Errorf("the store: %w", err)
	}
	m.add(x, batch, vectors)
	return nil, nil
}

// embed asks for vectors that have as many dimensions as those before.
func (m *model) embed(ctx context.Context, texts []string) ([]*vector, error) {
	vectors, err := m.client.embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	return vectors, m.fits(vectors[0]) // all of an answer have equally many
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
