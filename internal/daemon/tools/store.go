package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/declared"
)

// declaredPurpose separates the seals of declared tools from all others. The tools may
// contain credentials, and write access to the store must not decide what runs.
const declaredPurpose = seal.Kept + "declared tool"

// storedTool is a tool in the store.
type storedTool struct {
	record  store.DeclaredRecord
	tool    declared.Settings
	problem string // why it is not served
}

// Load reads the tools in the store and tells whether they have changed. If the store
// was unreachable at the start, there are none until it answers.
func (t *Tools) Load(ctx context.Context) (changed bool, err error) {
	records, generation, err := t.o.Store.List(ctx)
	if errors.Is(err, store.ErrUnreached) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the tools that are declared in the store: %w", err)
	}
	list := make([]storedTool, len(records))
	for i := range records {
		list[i].record = records[i]
		if list[i].tool, err = t.open(&records[i]); err != nil {
			list[i].problem = oneLine(err)
			t.o.Log.Warn("a tool of the store is not served", "tool", records[i].Name, "err", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	changed = generation != t.generation
	t.stored, t.generation = list, generation
	return changed, nil
}

// open decrypts the tool of a record.
func (t *Tools) open(r *store.DeclaredRecord) (declared.Settings, error) {
	data, err := t.o.Keys.Open(declaredPurpose, r.Name, string(r.Body))
	if err != nil {
		return declared.Settings{}, errors.New("it was not declared with a key of this gateway; set the same toolgate.keys on all that share the store")
	}
	tools, err := config.ParseTools("the store", data)
	i := slices.IndexFunc(tools, func(tool declared.Settings) bool { return Name(&tool) == r.Name })
	if err == nil && i < 0 {
		err = errors.New("its document has no such tool")
	}
	if err != nil {
		return declared.Settings{}, err
	}
	return tools[i], nil
}

// addStored adds the tools of the store to a configuration. Tools that conflict are
// left out.
func (t *Tools) addStored(c *config.Config, off *build.KeptOff) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []declared.Settings
	for i := range t.stored {
		if s := &t.stored[i]; s.tool.Name != "" {
			s.problem = ""
			all = append(all, s.tool)
		}
	}
	if FitBeside(c, all, off) == nil {
		c.Toolgate.Tools = slices.Concat(c.Toolgate.Tools, all)
		return
	}
	for i := range t.stored {
		s := &t.stored[i]
		if s.tool.Name == "" {
			continue
		}
		one := []declared.Settings{s.tool}
		if err := FitBeside(c, one, off); err != nil {
			s.problem = oneLine(err)
			t.o.Log.Warn("a tool of the store is not served", "tool", s.record.Name, "err", err)
			continue
		}
		c.Toolgate.Tools = slices.Concat(c.Toolgate.Tools, one)
	}
}

// unserved records that the store's tools could not be served.
func (t *Tools) unserved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation = notServed
}

// Stored returns the tools in the store, for an administrator.
func (t *Tools) Stored() []admin.DeclaredTool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]admin.DeclaredTool, 0, len(t.stored))
	for i := range t.stored {
		s := &t.stored[i]
		one := admin.DeclaredTool{
			Name: s.record.Name, Type: s.tool.Type, Problem: s.problem, Actor: s.record.Actor, Reason: s.record.Reason, ChangedAt: s.record.ChangedAt,
		}
		if s.tool.Name != "" {
			one.Target = toolTarget(&s.tool)
		}
		out = append(out, one)
	}
	return out
}

// Declare writes tools into the store and serves them.
func (t *Tools) Declare(ctx context.Context, d *admin.Declaration, by store.Change) (admin.Declared, error) {
	tools, err := config.ParseTools(d.File, d.Data)
	if err != nil {
		return admin.Declared{}, err
	}
	if len(tools) == 0 {
		return admin.Declared{}, fmt.Errorf("%s has no tools", d.File)
	}
	records := make([]store.DeclaredRecord, len(tools))
	for i := range tools {
		name := Name(&tools[i])
		sealed, err := t.o.Keys.Seal(declaredPurpose, name, d.Data)
		if err != nil {
			return admin.Declared{}, err
		}
		records[i] = store.DeclaredRecord{Name: name, Body: []byte(sealed), Change: by}
	}
	// They are added to all others, and replace stored tools with the same name.
	t.mu.Lock()
	beside := *t.o.InForce()
	var before []declared.Settings
	for i := range t.stored {
		s := &t.stored[i]
		same := func(tool declared.Settings) bool { return Name(&tool) == s.record.Name }
		if s.problem == "" && slices.ContainsFunc(tools, same) {
			before = append(before, s.tool)
			beside.Toolgate.Tools = slices.DeleteFunc(slices.Clone(beside.Toolgate.Tools), same)
		}
	}
	t.mu.Unlock()
	if err := FitBeside(&beside, tools, build.KeepOff(&beside, build.OwnFiles(&beside, t.o.State))); err != nil {
		return admin.Declared{}, err
	}
	if err := t.o.Store.Put(ctx, records); err != nil {
		return admin.Declared{}, err
	}
	return admin.Declared{Changes: append([]string{}, toolChanges(before, tools)...)}, t.rows.Apply(ctx)
}

// Undeclare removes a tool from the store and stops serving it.
func (t *Tools) Undeclare(ctx context.Context, name string) error {
	ok, err := t.o.Store.Remove(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %.100q; `toolgate tools store ls` lists those that are", admin.ErrNoTool, name)
	}
	if err != nil {
		return err
	}
	return t.rows.Apply(ctx)
}
