package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
)

// declaredPurpose separates what seals them from all other seals: they may hold
// credentials, and who writes into the store may not choose what runs.
const declaredPurpose = seal.Kept + "declared tool"

// storedTool is a tool of the store.
type storedTool struct {
	record  store.DeclaredRecord
	tool    config.DeclaredTool
	problem string // why it is not served
}

// storedTools are those of the store as they were read last; mu of the instance
// guards them.
type storedTools struct {
	list       []storedTool
	generation int64
}

// loadDeclared reads the tools of the store and tells whether they are not what
// they were. Of a store that was not there at the start there are none, until that
// tells of some.
func (in *Daemon) loadDeclared(ctx context.Context) (changed bool, err error) {
	records, generation, err := in.Store.Declared().List(ctx)
	if errors.Is(err, store.ErrAway) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the tools that are declared in the store: %w", err)
	}
	list := make([]storedTool, len(records))
	for i := range records {
		list[i].record = records[i]
		if list[i].tool, err = in.openTool(&records[i]); err != nil {
			list[i].problem = oneLine(err)
			in.Log.Warn("a tool of the store is not served", "tool", records[i].Name, "err", err)
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	changed = generation != in.stored.generation
	in.stored = storedTools{list, generation}
	return changed, nil
}

// openTool is the tool of a record.
func (in *Daemon) openTool(r *store.DeclaredRecord) (config.DeclaredTool, error) {
	data, err := in.keys.Open(declaredPurpose, r.Name, string(r.Body))
	if err != nil {
		return config.DeclaredTool{}, errors.New("it was not declared with a key of this gateway; set the same toolgate.keys on all that share the store")
	}
	tools, err := config.ParseTools("the store", data)
	i := slices.IndexFunc(tools, func(t config.DeclaredTool) bool { return toolName(&t) == r.Name })
	if err == nil && i < 0 {
		err = errors.New("its document has no such tool")
	}
	if err != nil {
		return config.DeclaredTool{}, err
	}
	return tools[i], nil
}

// addStored puts the tools of the store beside those of a configuration; what does
// not fit is left out.
func (in *Daemon) addStored(c *config.Config, off *build.KeptOff) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []config.DeclaredTool
	for i := range in.stored.list {
		if s := &in.stored.list[i]; s.tool.Name != "" {
			s.problem = ""
			all = append(all, s.tool)
		}
	}
	if fitBeside(c, all, off) == nil {
		c.Toolgate.Tools = slices.Concat(c.Toolgate.Tools, all)
		return
	}
	for i := range in.stored.list {
		s := &in.stored.list[i]
		if s.tool.Name == "" {
			continue
		}
		one := []config.DeclaredTool{s.tool}
		if err := fitBeside(c, one, off); err != nil {
			s.problem = oneLine(err)
			in.Log.Warn("a tool of the store is not served", "tool", s.record.Name, "err", err)
			continue
		}
		c.Toolgate.Tools = slices.Concat(c.Toolgate.Tools, one)
	}
}

// followDeclared keeps up with the tools of the store, until the context ends.
func (in *Daemon) followDeclared(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.storedChanged:
			if err := in.applyDeclared(ctx); err != nil && ctx.Err() == nil {
				in.Log.Error("tools that were declared in the store are not served yet", "err", err)
				select { // before it is tried again
				case <-ctx.Done():
				case <-time.After(addPause):
				}
			}
		}
	}
}

// applyDeclared serves what the store holds now.
func (in *Daemon) applyDeclared(ctx context.Context) error {
	in.reloading.Lock()
	defer in.reloading.Unlock()
	changed, err := in.loadDeclared(ctx)
	if err != nil || !changed {
		return err
	}
	if err = in.apply(in.Current()); err != nil {
		in.mu.Lock()
		in.stored.generation = notServed
		in.mu.Unlock()
		nudge(in.storedChanged)
	}
	return err
}

// DeclaredTools implements [admin.Declarer].
func (in *Daemon) DeclaredTools(context.Context) ([]admin.DeclaredTool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]admin.DeclaredTool, 0, len(in.stored.list))
	for i := range in.stored.list {
		s := &in.stored.list[i]
		one := admin.DeclaredTool{
			Name: s.record.Name, Type: s.tool.Type, Problem: s.problem, Actor: s.record.Actor, Reason: s.record.Reason, ChangedAt: s.record.ChangedAt,
		}
		if s.tool.Name != "" {
			one.Target = toolTarget(&s.tool)
		}
		out = append(out, one)
	}
	return out, nil
}

func (in *Daemon) declare(ctx context.Context, d *admin.Declaration, by store.Change) (admin.Declared, error) {
	tools, err := config.ParseTools(d.File, d.Data)
	if err != nil {
		return admin.Declared{}, err
	}
	if len(tools) == 0 {
		return admin.Declared{}, fmt.Errorf("%s has no tools", d.File)
	}
	records := make([]store.DeclaredRecord, len(tools))
	for i := range tools {
		name := toolName(&tools[i])
		sealed, err := in.keys.Seal(declaredPurpose, name, d.Data)
		if err != nil {
			return admin.Declared{}, err
		}
		records[i] = store.DeclaredRecord{Name: name, Body: []byte(sealed), Change: by}
	}
	// They stand beside all others, but in the place of those of their names here.
	in.mu.Lock()
	beside := *in.inForce
	var before []config.DeclaredTool
	for i := range in.stored.list {
		s := &in.stored.list[i]
		same := func(t config.DeclaredTool) bool { return toolName(&t) == s.record.Name }
		if s.problem == "" && slices.ContainsFunc(tools, same) {
			before = append(before, s.tool)
			beside.Toolgate.Tools = slices.DeleteFunc(slices.Clone(beside.Toolgate.Tools), same)
		}
	}
	in.mu.Unlock()
	if err := fitBeside(&beside, tools, build.KeepOff(&beside, build.OwnFiles(&beside, in.State))); err != nil {
		return admin.Declared{}, err
	}
	if err := in.Store.Declared().Put(ctx, records); err != nil {
		return admin.Declared{}, err
	}
	return admin.Declared{Changes: append([]string{}, toolChanges(before, tools)...)}, in.applyDeclared(ctx)
}

func (in *Daemon) undeclare(ctx context.Context, name string) error {
	ok, err := in.Store.Declared().Remove(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %.100q; `toolgate tools declared` lists those that are", admin.ErrNoTool, name)
	}
	if err != nil {
		return err
	}
	return in.applyDeclared(ctx)
}

// DeclareTools implements [admin.Declarer].
func (in *Daemon) DeclareTools(ctx context.Context, d admin.Declaration) (admin.Declared, error) {
	out, err := in.declare(ctx, &d, store.Change{Actor: gate.ByOperator, Reason: d.Reason})
	return out, in.Records.Changed(admin.Operator(), &records.Change{What: "tools.declare", Name: d.File, Reason: d.Reason}, err)
}

// UndeclareTool implements [admin.Declarer].
func (in *Daemon) UndeclareTool(ctx context.Context, name, reason string) error {
	return in.Records.Changed(admin.Operator(), &records.Change{What: "tools.undeclare", Name: name, Reason: reason}, in.undeclare(ctx, name))
}

// DeclareTools implements [admin.Declarer].
func (a administrator) DeclareTools(ctx context.Context, d admin.Declaration) (admin.Declared, error) {
	out, err := a.declare(ctx, &d, a.by(d.Reason))
	return out, a.Records.Changed(a.name(), &records.Change{What: "tools.declare", Name: d.File, Reason: d.Reason, Identity: a.id}, err)
}

// UndeclareTool implements [admin.Declarer].
func (a administrator) UndeclareTool(ctx context.Context, name, reason string) error {
	return a.Records.Changed(a.name(), &records.Change{What: "tools.undeclare", Name: name, Reason: reason, Identity: a.id}, a.undeclare(ctx, name))
}
