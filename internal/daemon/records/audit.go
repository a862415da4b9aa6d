package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/redact"
)

// auditPurpose is what the keys of the chain are derived for.
const auditPurpose = "audit"

// Path is where the audit log of a configuration is.
func Path(c *config.Config, state *statedir.Dir) string {
	if path := c.Toolgate.Audit.Path; path != "" {
		return path
	}
	return filepath.Join(state.Path, "audit.jsonl")
}

// openAudit opens the audit log of the gateway, whose store and keys are there.
func (r *Records) openAudit(c *config.Config, authenticated bool) (*audit.Log, error) {
	if !build.KeepsRecords {
		return audit.Discard(), nil
	}
	keys, err := Keys(c, r.state)
	if err != nil {
		return nil, err
	}
	replica, err := r.state.Replica()
	if err != nil {
		return nil, err
	}
	set := &c.Toolgate.Audit
	o := audit.Options{
		Logger: r.log, Mode: set.Mode, Fsync: set.Fsync, Key: keys[0], Earlier: keys[1:], Replica: replica,
		RotateSize: int64(set.RotateSize), RotateAge: set.RotateAge, Keep: c.Toolgate.Retention.Audit,
		Anchor: func(ctx context.Context, h audit.Head) error {
			return r.store.Anchors().Put(ctx, store.Anchor{Replica: h.Replica, Run: h.Run, Chain: h.Chain, Seq: h.Seq, MAC: h.MAC, At: h.Time})
		},
	}
	if set.Mode == "" && !authenticated {
		o.Mode = audit.BestEffort
	}
	l, err := audit.Open(Path(c, r.state), o)
	if _, held := errors.AsType[*audit.InUseError](err); held {
		return nil, failure.New(failure.Unreachable, err)
	}
	return l, err
}

// Recording is what is to be kept of calls, as it was said at the start.
func Recording(kept audit.Settings, secrets redact.Filter) proxy.Recording {
	r := proxy.Recording{Redact: secrets, Inputs: kept.DecisionInputs}
	fields := kept.Fields
	globs := slices.Sorted(maps.Keys(fields))
	if len(globs) > 0 {
		r.Fields = func(exposed string) (pointers []string) {
			for _, glob := range globs {
				if gate.Glob(glob).Match(exposed) {
					pointers = append(pointers, fields[glob]...)
				}
			}
			return pointers
		}
	}
	return r
}

// Keys are the keys of the chain, the one that signs first.
func Keys(c *config.Config, state *statedir.Dir) ([]audit.Key, error) {
	ring, err := state.Keyring(c.Toolgate.Keys)
	if err != nil {
		return nil, failure.New(failure.Config, err)
	}
	derived, err := ring.Derive(auditPurpose)
	if err != nil {
		return nil, fmt.Errorf("the keys of the audit log: %w", err)
	}
	keys := make([]audit.Key, len(derived))
	for i, k := range derived {
		keys[i] = audit.Key{ID: k.ID, Secret: k.Secret}
	}
	return keys, nil
}
