package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
)

// governed returns the rules of a configuration, sorted by what they match.
func governed(c *config.Config) []governance.Rule {
	dir := ""
	if c.Path != "" {
		dir = filepath.Dir(c.Path)
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
	}
	rules := c.Toolgate.Governance.Rules(dir, func(path string) gate.Rule { return RuleAt(c, "governance."+path+".") })
	return append(rules, declaredRules(c)...)
}

// OwnFilesRule forbids paths to the gateway's own files, with and without
// authentication. Writing them means choosing what runs.
func OwnFilesRule(own []string) governance.Rule {
	r := governance.Rule{Match: "*", ByName: true}
	for _, path := range own {
		r.ForbiddenPaths = append(r.ForbiddenPaths, governance.Literal(path))
	}
	return r
}

// RuleAt returns the place of a rule: its first line.
func RuleAt(c *config.Config, prefix string) gate.Rule {
	var at gate.Rule
	for path, o := range c.Origins {
		if strings.HasPrefix(path, prefix) && o.Kind == tree.OriginFile && (at.Line == 0 || o.Line < at.Line) {
			at = gate.Rule{File: o.File, Line: o.Line}
		}
	}
	return at
}

func homeDir() string {
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return home
}

// operatorClasses returns the classes that the annotations under servers give to
// tools.
func operatorClasses(c *config.Config) func(server, tool string) governance.Operator {
	type key struct{ server, tool string }
	said := make(map[key]governance.Operator)
	for i := range c.Servers {
		for name, t := range c.Servers[i].Tools {
			hints := governance.ReadHints(annotated(t.Annotations))
			if hints.ReadOnly != nil || hints.Destructive != nil {
				said[key{c.Servers[i].Key, name}] = governance.Operator{ReadOnly: hints.ReadOnly, Destructive: hints.Destructive}
			}
		}
	}
	return func(server, tool string) governance.Operator { return said[key{server, tool}] }
}

// annotated returns a tool definition with only annotations.
func annotated(annotations json.RawMessage) []byte {
	if annotations == nil {
		return nil
	}
	return append(append([]byte(`{"annotations":`), annotations...), '}')
}

// OwnFiles returns the files and folders of a gateway: its configuration and its
// state. Each is included as configured and by its real path.
func OwnFiles(c *config.Config, state *statedir.Dir) []string {
	t := &c.Toolgate
	all := slices.Concat([]string{c.Path}, c.Files, []string{
		state.Path, state.Socket, t.Audit.Path, t.OPA.Path, t.OPA.BundleKey, t.Registry.Seed,
		t.Listen.TLS.Key, t.Listen.TLS.Cert, t.Listen.TLS.ClientCA, t.SpiceDB.CA, t.Queue.CA, t.Queue.Credentials,
	})
	if path, ok := strings.CutPrefix(t.Store, "sqlite:"); ok && path != "" {
		all = append(all, path, path+"-wal", path+"-shm", path+"-journal")
	}
	for _, plugin := range t.Native.Plugins {
		all = append(all, plugin.Path)
	}
	for _, k := range t.Keys {
		all = append(all, k.File)
	}
	all = append(all, namedFiles(c)...)
	if self, err := os.Executable(); err == nil {
		all = append(all, self)
	}
	var own []string
	for _, path := range all {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			continue // the process's working directory is gone
		}
		own = append(own, abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			own = append(own, real)
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// RuleWatch checks whether the names in the configuration exist.
type RuleWatch struct {
	// Look returns all problems; known is false while they cannot be determined.
	Look func(context.Context) (found []governance.Problem, known bool)
	Wake chan struct{} // capacity 1

	mu    sync.Mutex
	found []governance.Problem
}

// Run checks whenever the catalog has changed, and reports new problems, until the
// context ends.
func (w *RuleWatch) Run(ctx context.Context, alarm func(governance.Problem)) {
	said := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Wake:
		}
		found, known := w.Look(ctx)
		if !known {
			continue
		}
		w.mu.Lock()
		w.found = found
		w.mu.Unlock()
		now := make(map[string]bool, len(found))
		for _, p := range found {
			if now[p.Error()] = true; !said[p.Error()] {
				alarm(p)
			}
		}
		said = now
	}
}

// Changed triggers a new check.
func (w *RuleWatch) Changed() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// Problems returns the latest problems, for people.
func (w *RuleWatch) Problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, p := range w.found {
		out = append(out, ProblemText(p))
	}
	return out
}

func ProblemText(p governance.Problem) string {
	if place := p.Rule.Place(); place != "" {
		return fmt.Sprintf("%s: %s", place, p.Error())
	}
	return p.Error()
}
