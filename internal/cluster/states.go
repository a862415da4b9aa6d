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
	"time"

	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy/replica"
)

const (
	// stateLabel is that of the seal of what sessions have set.
	stateLabel = seal.Kept + "session"
	// stateTime is how long it is kept after its last change.
	stateTime = 7 * 24 * time.Hour
	// maxState bounds what is kept of one session, in bytes.
	maxState = 256 << 10
)

// States stores what the clients of sessions have set, for the gateway that goes on with
// them. It implements [replica.States]. It is safe for concurrent use.
type States struct {
	s    *store.Store
	keys *seal.Keyring
	log  *slog.Logger
}

// NewStates returns the handle for the states of sessions in a store.
func NewStates(s *store.Store, keys *seal.Keyring, log *slog.Logger) *States {
	return &States{s, keys, log}
}

func stateKey(id string) string {
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
	return st.s.Enqueue(func(ctx context.Context, tx *store.Tx) error {
		at := time.Now()
		const save = `INSERT INTO session_states (id, state, at) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, at = excluded.at`
		if _, err := tx.Exec(ctx, save, stateKey(id), []byte(sealed), at.UnixMilli()); err != nil {
			return fmt.Errorf("save the state of a session: %w", err)
		}
		_, err := tx.Exec(ctx, `DELETE FROM session_states WHERE at < ?`, at.Add(-stateTime).UnixMilli())
		return err
	})
}

// Forget implements [replica.States]. It does not wait for the database.
func (st *States) Forget(id string) {
	err := st.s.Enqueue(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM session_states WHERE id = ?`, stateKey(id))
		return err
	})
	if err != nil {
		st.log.Warn("the state of a session that has ended stays for a week", "err", err)
	}
}

// Load implements [replica.States].
func (st *States) Load(ctx context.Context, id string) (state replica.State, err error) {
	var sealed []byte
	err = st.s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT state FROM session_states WHERE id = ?`, stateKey(id)).Scan(&sealed)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return replica.State{}, nil
	case err != nil:
		return replica.State{}, fmt.Errorf("read the state of a session: %w", err)
	}
	text, err := st.keys.Open(stateLabel, id, string(sealed))
	if err != nil {
		return replica.State{}, fmt.Errorf("read the state of a session: %w", err)
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return replica.State{}, fmt.Errorf("read the state of a session: %w", err)
	}
	return state, nil
}
