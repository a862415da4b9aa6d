package cluster

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/replica"
)

const (
	// stateLabel is that of the seal of what sessions have set.
	stateLabel = seal.Kept + "session"
	// sweepEvery is how often the states of sessions that cannot go on are removed.
	sweepEvery = time.Hour
	// maxState bounds what is kept of one session, in bytes.
	maxState = 64 << 10
)

// States stores what the clients of sessions have set, for the gateway that goes on with
// them. It implements [replica.States]. It is safe for concurrent use.
type States struct {
	s    *store.Store
	keys *seal.Keyring
	log  *slog.Logger

	mu    sync.Mutex
	swept time.Time // when states were last removed
}

// NewStates returns the handle for the states of sessions in a store.
func NewStates(s *store.Store, keys *seal.Keyring, log *slog.Logger) *States {
	return &States{s: s, keys: keys, log: log}
}

// stateKey is where the state of a session is; that it has ended is at a place of its own, so
// that a state which comes late does not replace it.
func stateKey(id string, ended bool) string {
	if ended {
		id += " ended"
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// Save implements [replica.States]. It does not wait for the database.
func (st *States) Save(id string, state replica.State) {
	err := st.save(id, state)
	if err != nil {
		st.log.Warn("what a client has set for its session cannot go on elsewhere", "err", err)
	}
}

func (st *States) save(id string, state replica.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if len(text) > maxState {
		return fmt.Errorf("it has %d bytes, more than %d", len(text), maxState)
	}
	sealed, err := st.keys.Seal(stateLabel, id, text)
	if err != nil {
		return err
	}
	now := time.Now()
	err = st.s.Enqueue(func(ctx context.Context, tx *store.Tx) error {
		const save = `INSERT INTO session_states (id, state, at) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, at = excluded.at`
		if _, err := tx.Exec(ctx, save, stateKey(id, state.Ended), []byte(sealed), now.UnixMilli()); err != nil {
			return fmt.Errorf("save the state of a session: %w", err)
		}
		return nil
	})
	if err != nil || !st.sweeps(now) {
		return err
	}
	return st.s.Enqueue(func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM session_states WHERE at < ?`, now.Add(-replica.CarriedTime).UnixMilli()); err != nil {
			return fmt.Errorf("remove the states of sessions: %w", err)
		}
		return nil
	})
}

// sweeps reports whether it is time to remove states.
func (st *States) sweeps(now time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if now.Sub(st.swept) < sweepEvery {
		return false
	}
	st.swept = now
	return true
}

// Load implements [replica.States].
func (st *States) Load(ctx context.Context, id string) (replica.State, error) {
	var state replica.State
	err := st.s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, ended := range []bool{true, false} {
			var sealed []byte
			err := tx.QueryRow(ctx, `SELECT state FROM session_states WHERE id = ?`, stateKey(id, ended)).Scan(&sealed)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			state, err = st.open(id, string(sealed))
			return err
		}
		return nil
	})
	if err != nil {
		return replica.State{}, fmt.Errorf("read the state of a session: %w", err)
	}
	return state, nil
}

// open returns a state that was sealed.
func (st *States) open(id, sealed string) (state replica.State, err error) {
	text, err := st.keys.Open(stateLabel, id, sealed)
	if err != nil {
		return replica.State{}, err
	}
	err = json.Unmarshal(text, &state)
	return state, err
}
