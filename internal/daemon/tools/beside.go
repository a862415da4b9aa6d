package tools

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/native/declared"
)

// This file puts the tools that are declared elsewhere beside those of the file.

// Beside returns a configuration with the tools of the documents and of the store
// added to its own. The sources are for [Tools.Use] once it is in force. Tools that
// conflict are left out, so that external tools never keep a gateway from starting.
func (t *Tools) Beside(file *config.Config, off *build.KeptOff) (*config.Config, Sources) {
	from := t.sourcesOf(file)
	full := *file
	for _, s := range from {
		tools := s.tools()
		err := FitBeside(&full, tools, off)
		if s.refused(err); err == nil {
			full.Toolgate.Tools = slices.Concat(full.Toolgate.Tools, tools)
		} else {
			t.o.Log.Warn("the tools of an address are not served", "address", s.name(), "err", err)
		}
	}
	t.addStored(&full, off)
	return &full, from
}

// FitBeside tells why further tools cannot be added to a configuration, whose
// protected files are off.
func FitBeside(c *config.Config, tools []declared.Settings, off *build.KeptOff) error {
	if len(tools) == 0 {
		return nil
	}
	if err := c.CheckTools(tools); err != nil {
		return err
	}
	with := *c
	with.Toolgate.Tools = slices.Concat(c.Toolgate.Tools, tools)
	off = off.With(&with) // writable folders are checked against what all tools are started from
	if err := off.CheckTools(c.Toolgate.Tools); err != nil {
		return err
	}
	alone := with
	alone.Toolgate.Tools = tools
	byNamespace, err := build.DeclaredTools(&alone, off)
	if err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		b, err := declared.New(namespace, byNamespace[namespace])
		if err != nil {
			return err
		}
		b.Close()
	}
	return nil
}

// Name returns the name of a declared tool with its namespace.
func Name(t *declared.Settings) string { return build.NameOf(t.Namespace) + t.Name }

// toolChanges describes how tools differ, sorted by name, without values that may be
// secret.
func toolChanges(before, after []declared.Settings) []string {
	old := make(map[string]*declared.Settings, len(before))
	for i := range before {
		old[Name(&before[i])] = &before[i]
	}
	var out []string
	for i := range after {
		t := &after[i]
		name := Name(t)
		was := old[name]
		delete(old, name)
		if was == nil {
			out = append(out, name+" is new"+shownTarget(nil, t))
		} else if keys := changedKeys(was, t); len(keys) > 0 {
			out = append(out, name+" has another "+strings.Join(keys, ", ")+shownTarget(was, t))
		}
	}
	for name := range old {
		out = append(out, name+" is gone")
	}
	slices.Sort(out)
	return out
}

// changedKeys returns the keys in which two tools differ.
func changedKeys(a, b *declared.Settings) []string {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	var out []string
	for _, f := range decode.Fields(x.Type()) {
		if !reflect.DeepEqual(x.FieldByIndex(f.Index).Interface(), y.FieldByIndex(f.Index).Interface()) {
			out = append(out, f.Tag.Get("config"))
		}
	}
	return out
}

// shownTarget describes what a tool reaches or runs, if that has changed.
func shownTarget(was, t *declared.Settings) string {
	switch {
	case was == nil:
		return ": " + toolTarget(t)
	case toolTarget(was) != toolTarget(t):
		return ": " + toolTarget(was) + " becomes " + toolTarget(t)
	}
	return ""
}

// toolTarget describes what a tool reaches or runs.
func toolTarget(t *declared.Settings) string {
	if t.Type == "http" {
		return fmt.Sprintf("%s %.120q", cmp.Or(t.Method, "GET"), hidden.URL(t.URL))
	}
	if t.Type == "python" {
		return fmt.Sprintf("%.60s.%.60s in %.120q", t.Module, t.Function, t.Cwd)
	}
	if t.Type == "steps" {
		calls := make([]string, len(t.Steps))
		for i := range t.Steps {
			calls[i] = t.Steps[i].Call
		}
		return fmt.Sprintf("calls of %.200s", strings.Join(calls, ", "))
	}
	return fmt.Sprintf("%.120q", t.Args)
}
