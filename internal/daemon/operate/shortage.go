package operate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/store"
)

// A shortage is a fact about this process, and the mode in the store a decision
// about all gateways that share it. So a gateway that runs short is in the mode
// DEGRADED without writing that to the store, which may be what has no room.

// Automatic is who sets a mode where no person does.
const Automatic = "toolgate"

// shortage is what the gateway runs short of, with the mode that follows.
type shortage struct {
	record store.ModeRecord
	under  *store.ModeRecord // in force when it began; another one since is a person's word, and counts
}

// inForce is the mode in force. A shortage counts in NORMAL times alone.
func (o *Operation) inForce() *store.ModeRecord {
	kept := o.Mode.Load()
	if s := o.short.Load(); s.counts(kept) {
		return &s.record
	}
	return kept
}

func (s *shortage) counts(kept *store.ModeRecord) bool {
	return s != nil && s.under == kept && kept.Mode == string(governance.Normal)
}

// change puts another mode in force, tells of it, records it and does what it
// demands of calls under way. setting is held.
func (o *Operation) change(by store.Change, how func()) {
	before := o.inForce()
	how()
	now := o.inForce()
	if before.Mode == now.Mode && before.At.Equal(now.At) && before.Reason == now.Reason {
		return
	}
	o.Log.Warn("operating mode", "mode", now.Mode, "before", before.Mode, "actor", by.Actor, "reason", by.Reason)
	entry := audit.Entry{
		Event: audit.EventChange, Time: time.Now(), Principal: audit.Principal{Subject: by.Actor}, Method: "toolgate/mode", Kind: "mode", Name: now.Mode,
		Outcome: audit.OutcomeOK, Reason: by.Reason,
	}
	if err := o.Record(&entry); err != nil {
		o.Log.Error("audit entry not written", "mode", now.Mode, "err", err)
	}
	o.act(governance.Mode(now.Mode))
}

// runsShort takes over what the gateway runs short of; nothing is the end of it.
func (o *Operation) runsShort(of headroom.Shortage) {
	o.Scarce(of.OfMemory())
	o.setting.Lock()
	defer o.setting.Unlock()
	before := o.short.Load()
	if len(of) == 0 {
		o.change(store.Change{Actor: Automatic, Reason: "there is enough again of what was short"}, func() { o.short.Store(nil) })
		return
	}
	s := &shortage{
		record: store.ModeRecord{
			Mode: string(governance.Degraded), Change: store.Change{Actor: Automatic, Reason: of.String()}, At: time.Now(),
		},
		under: o.Mode.Load(),
	}
	if before != nil {
		s.record.At, s.under = before.record.At, before.under
	}
	o.change(s.record.Change, func() { o.short.Store(s) })
	if !s.counts(o.Mode.Load()) {
		o.Log.Warn("the gateway runs short; the mode that was set stays", "of", of.String(), "mode", o.Mode.Load().Mode)
	}
}

// overruled says what the gateway runs short of while a mode that a person set is
// in force; empty for nothing.
func (o *Operation) overruled() string {
	s, kept := o.short.Load(), o.Mode.Load()
	if s == nil || s.counts(kept) {
		return ""
	}
	return fmt.Sprintf("the gateway runs short: %s; the mode %s that was set stays in force", s.record.Reason, kept.Mode)
}

// Room is what a configuration says is to be watched.
func Room(c *config.Config, state *statedir.Dir) headroom.Options {
	return c.Toolgate.Governance.Degraded.Options(writtenDirs(c, state))
}

// writtenDirs are the folders that a gateway writes to while it serves.
func writtenDirs(c *config.Config, state *statedir.Dir) []string {
	dirs := []string{state.Path}
	if path, ok := strings.CutPrefix(c.Toolgate.Store, "sqlite:"); ok && path != "" {
		dirs = append(dirs, filepath.Dir(path))
	}
	if path := c.Toolgate.Audit.Path; path != "" {
		dirs = append(dirs, filepath.Dir(path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
