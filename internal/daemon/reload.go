package daemon

import (
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
)

// TakeFile reads the file again and returns what it did. An automatic reload
// never starts or changes a command, argument, environment, URL or plugin; what
// waits is in the result.
func (d *Daemon) TakeFile(manual bool) (admin.Reloaded, error) {
	did, err := d.reloads.file(manual)
	if err == nil && manual {
		d.tools.Ask(d.ctx, &did)
	}
	return did, err
}

func (r *reloads) file(manual bool) (_ admin.Reloaded, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.d.metrics.Reloaded(err)
		if err != nil {
			r.d.settings.setRefused(err)
		}
	}()
	old := r.d.Current()
	read, err := r.d.opts.Read(old.Path)
	if err != nil {
		r.d.log.Error("reload refused; the old configuration stays in force", "err", err)
		return admin.Reloaded{}, err
	}
	next, pending := read, []config.Pending(nil)
	if !manual {
		next, pending = config.Merge(old, read)
	}
	var accepted []string
	if manual {
		taken, end := r.d.tools.Accept()
		accepted = taken
		defer func() { end(err == nil) }()
		r.d.orphaned.forget()
		if err := r.d.records.Auditor().Reopen(); err != nil {
			r.d.log.Error("the audit log", "err", err)
		}
	}
	if err := r.apply(next); err != nil {
		r.d.log.Error("reload refused; the old configuration stays in force", "err", err)
		return admin.Reloaded{}, err
	}
	r.warnUnconfined(r.d.settings.inForce())
	later := atNextStart(&r.d.settings.boot, &read.Toolgate)
	// What a running gateway cannot take over does not wait for a reload.
	pending = slices.DeleteFunc(pending, func(p config.Pending) bool { return p.Server == "" && startOnly(p.What) })
	r.d.settings.setWaiting(pending, later)
	if r.d.onChange != nil { // also for servers that are gone, or wait
		defer r.d.onChange()
	}
	r.d.state.Remember(next)
	if manual { // a person has asked for this text
		if err := r.d.state.AcceptFiles(read); err != nil {
			r.d.log.Warn("the next start asks whether the configuration is accepted", "err", err)
		}
	}
	for _, p := range pending {
		r.d.log.Warn("waits for `toolgate reload`", "change", p.String())
	}
	r.d.log.Info("configuration reloaded", "file", read.Names())
	for _, path := range later {
		r.d.log.Warn("takes effect at the next start", "setting", path)
	}
	warnings := r.d.orphaned.problems()
	if manual {
		warnings = r.d.orphaned.report()
	}
	var with []string
	for _, f := range read.With {
		with = append(with, f.Path)
	}
	return admin.Reloaded{
		File: read.Path, With: with, Applied: append(applied(old, next), accepted...), Pending: pendingTexts(pending), AtNextStart: append([]string{}, later...),
		Warnings: warnings,
	}, nil
}

// startSettings are the settings that a gateway reads only when it starts, each
// with everything below it. All others are taken over by a reload.
var startSettings = []string{
	"listen", "cluster", "store", "durability", "redis", "budgets_in", "keys", "audit", "retention", "log", "telemetry", "feedback",
	"queue.engine", "queue.url", "queue.tls", "queue.ca", "queue.credentials", "queue.sasl", "queue.queues",
	"governance.mode", "auth.mtls.required",
	"limits.body", "limits.bodies", "limits.connections", "limits.depth", "limits.sessions", "limits.sessions_per_principal", "limits.idle",
	"limits.parked_per_principal", "limits.parked_per_server",
	"limits.kept_results", "limits.kept_results_per_principal", "limits.kept_results_time",
	"limits.in_flight", "limits.page", "limits.instructions",
	"limits.rounds", "limits.round_time", "limits.replay",
	"limits.tasks",
}

// startOnly tells whether a setting is read only at the start.
func startOnly(path string) bool {
	return slices.ContainsFunc(startSettings, func(s string) bool { return path == s || strings.HasPrefix(path, s+".") })
}

// atNextStart names the settings that differ from those at the start and that a
// running gateway cannot take over, sorted.
func atNextStart(boot, now *config.Toolgate) []string {
	return slices.DeleteFunc(changedSettings(boot, now), func(path string) bool { return !startOnly(path) })
}

// applied says what a reload changed, sorted: servers first.
func applied(old, next *config.Config) []string {
	changes := config.Diff(old, next)
	out := []string{}
	add := func(key string, what ...string) {
		if len(what) > 0 {
			out = append(out, "server "+key+": "+strings.Join(what, ", "))
		}
	}
	for _, key := range changes.Added {
		add(key, "added")
	}
	for _, key := range changes.Removed {
		add(key, "removed")
	}
	for _, c := range changes.Changed {
		add(c.Key, slices.Concat(c.Now, c.Pending)...)
	}
	slices.Sort(out)
	for _, path := range changedSettings(&old.Toolgate, &next.Toolgate) {
		if !startOnly(path) {
			out = append(out, "setting "+path)
		}
	}
	return out
}

func pendingTexts(pending []config.Pending) []string {
	out := make([]string, 0, len(pending))
	for _, p := range pending {
		out = append(out, p.String())
	}
	return out
}
