package references

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/native/enable"
)

// Targets are what a name in the configuration can refer to, as far as it is known.
type Targets struct {
	there   []gate.Request    // every capability, without a caller
	schemas map[string][]byte // of the tools, by every name that rules are about
	Servers []string          // keys of all servers, including those with unknown names
	unseen  []string          // prefixes of unknown names
	Offers  []string          // keys of servers that may be added
}

// NewTargets returns the targets of a configuration alone: any name may belong to
// one of its servers, or to one that may be added.
func NewTargets(c *config.Config) *Targets {
	targets := &Targets{schemas: map[string][]byte{}}
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Offer == nil {
			targets.Servers, targets.unseen = append(targets.Servers, s.Key), append(targets.unseen, build.NameOf(s.Namespace))
			continue
		}
		targets.Offers = append(targets.Offers, s.Key)
		targets.unseen = append(targets.unseen, build.AddedPrefix(s.Key))
	}
	targets.addDeclared(c)
	if len(targets.Offers) > 0 {
		targets.unseen = append(targets.unseen, build.NameOf(enable.Name))
	}
	return targets
}

// Empty tells whether no capability is known; nil targets are empty.
func (targets *Targets) Empty() bool { return targets == nil || len(targets.there) == 0 }

// Add adds an existing capability.
func (targets *Targets) Add(r gate.Request, schema []byte) {
	targets.there = append(targets.there, r)
	if r.Kind != mcp.Tool {
		return
	}
	for _, name := range r.Names().All() {
		targets.schemas[name] = schema
	}
}

// Seen marks the names of a server as known.
func (targets *Targets) Seen(namespace string) {
	if i := slices.Index(targets.unseen, build.NameOf(namespace)); i >= 0 {
		targets.unseen = slices.Delete(targets.unseen, i, i+1)
	}
}

// names returns the existing names and URIs.
func (targets *Targets) names() []gate.Names {
	names := make([]gate.Names, len(targets.there))
	for i := range targets.there {
		names[i] = targets.there[i].Names()
	}
	return names
}

// covers tells whether a name or glob matches something that exists.
func (targets *Targets) covers(glob string) bool {
	return slices.ContainsFunc(targets.there, func(r gate.Request) bool { return r.Names().Restricted(gate.Glob(glob)) })
}

// maybe tells whether a name or glob may match an unknown name.
func (targets *Targets) maybe(glob string) bool {
	return slices.ContainsFunc(targets.unseen, func(begin string) bool {
		return Begins(glob, begin) || Begins(glob, strings.TrimSuffix(begin, "__")+"+") // a URI
	})
}

// closest returns an existing name that was probably meant; empty for none.
func (targets *Targets) closest(name string) string {
	for i := range targets.there {
		if spelling.Misspelt(name, targets.there[i].Exposed) {
			return targets.there[i].Exposed
		}
	}
	return ""
}

// Begins tells whether a glob matches any text with a given prefix.
func Begins(glob, beginning string) bool {
	at := map[int]bool{0: true} // places in the glob
	for i := range len(beginning) {
		next := map[int]bool{}
		for from := range at {
			for p := from; p < len(glob); p++ {
				star := glob[p] == '*'
				switch {
				case star:
					next[p] = true
				case glob[p] == '?' || glob[p] == beginning[i]:
					next[p+1] = true
				}
				if !star {
					break
				}
			}
		}
		at = next
	}
	return len(at) > 0
}

// Known returns the targets of the running gateway with a configuration, or the one
// stored when it last ran.
func Known(ctx context.Context, c *config.Config) (*Targets, error) {
	targets := NewTargets(c)
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := targets.ask(ctx, c)
	if err == nil || !errors.Is(err, admin.ErrNotRunning) {
		return targets, err
	}
	return targets, targets.recall(ctx, c)
}

// checkTime bounds the requests for a gateway's offer.
const checkTime = 5 * time.Second

// ask asks the running gateway.
func (targets *Targets) ask(ctx context.Context, c *config.Config) error {
	state, err := statedir.Find(c.Path)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(state.Path, "admin.token"))
	if err != nil {
		return admin.ErrNotRunning // no gateway has run with this configuration yet
	}
	control := &admin.Client{Path: state.Socket, Token: strings.TrimSpace(string(token)), Timeout: checkTime}
	status, err := control.Status(ctx)
	if err != nil {
		return err
	}
	all, err := control.Capabilities(ctx)
	if err != nil {
		return err
	}
	for _, s := range status.Servers {
		if s.State == mcp.Ready.String() || s.Tools+s.Prompts+s.Resources+s.Templates > 0 {
			targets.Seen(s.Namespace)
		}
		if !slices.Contains(targets.Servers, s.Name) {
			targets.Servers = append(targets.Servers, s.Name)
		}
	}
	for _, one := range all {
		kind, _ := kindNamed(one.Kind)
		targets.Add(gate.Request{Kind: kind, Server: one.Server, Original: one.Original, Exposed: one.Name, Unsuffixed: one.Unsuffixed, CapabilityID: one.CapabilityID}, one.Schema)
	}
	targets.Seen(enable.Name)
	return nil
}

// recall reads the catalog in the store. If a server's names there do not match its
// present configuration, its names count as unknown.
func (targets *Targets) recall(ctx context.Context, c *config.Config) error {
	records, err := statedir.KnownCatalog(ctx, c)
	if err != nil {
		return err
	}
	byServer := map[string][]*store.RegistryRecord{}
	for i := range records {
		r := &records[i]
		if _, named := kindNamed(r.Kind); named && r.State != store.StateOrphaned {
			byServer[r.Server] = append(byServer[r.Server], r)
		}
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		kept := byServer[s.Key]
		if len(kept) == 0 || s.Offer != nil || s.Disabled || slices.ContainsFunc(kept, func(r *store.RegistryRecord) bool { return !NamedNow(s, r) }) {
			continue
		}
		targets.Seen(s.Namespace)
		for _, r := range kept {
			kind, _ := kindNamed(r.Kind)
			targets.Add(gate.Request{Kind: kind, Server: r.Server, Original: r.Original, Exposed: r.Name, CapabilityID: r.ID}, r.Schema)
		}
	}
	return nil
}

// LastOffers returns the tools of the servers of a configuration as the servers have last listed
// them, by the records of earlier runs.
func LastOffers(c *config.Config, records []store.RegistryRecord) (all []*gate.Offer) {
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled {
			continue
		}
		o := &gate.Offer{Server: s.Key, Namespace: s.Namespace}
		for j := range records {
			r := &records[j]
			if r.Server != s.Key || r.Kind != mcp.Tool.String() || r.State == store.StateOrphaned || !NamedNow(s, r) {
				continue
			}
			listed := r.Definition
			if r.HeldDefinition != nil { // nobody has accepted it yet
				listed = r.HeldDefinition
			}
			o.Items = append(o.Items, gate.Offered{Kind: mcp.Tool, Original: r.Original, Exposed: r.Name, CapabilityID: r.ID, Definition: listed})
		}
		all = append(all, o)
	}
	return all
}

// NamedNow tells whether the name in a record matches the present settings of its
// server.
func NamedNow(s *config.Server, r *store.RegistryRecord) bool {
	if kind, _ := kindNamed(r.Kind); kind != mcp.Tool && kind != mcp.Prompt {
		return s.Namespace == "" || strings.Contains(r.Name, s.Namespace+"+")
	}
	plain := build.NameOf(s.Namespace) + cmp.Or(s.Tools[r.Original].Rename, r.Original)
	const tail = 8 // "_" and 7 characters, the suffix of a name that had to be changed
	changed := len(r.Name) > tail && r.Name[len(r.Name)-tail] == '_'
	return r.Name == plain || changed && strings.HasPrefix(r.Name, build.NameOf(s.Namespace))
}

// kindNamed parses a kind; ok is false for other words.
func kindNamed(word string) (kind mcp.Kind, ok bool) {
	i := slices.IndexFunc(mcp.Kinds[:], func(k mcp.Kind) bool { return k.String() == word })
	if i < 0 {
		return 0, false
	}
	return mcp.Kinds[i], true
}

// addDeclared adds the declared tools of a configuration.
func (targets *Targets) addDeclared(c *config.Config) {
	if len(c.Toolgate.ToolURLs) > 0 {
		targets.unseen = append(targets.unseen, build.NameOf("")) // what they hold may have any name
	}
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		if t.Template {
			targets.unseen = append(targets.unseen, build.DynamicPrefix, build.NameOf(enable.Name))
			continue
		}
		if !slices.Contains(targets.Servers, t.Namespace) {
			targets.Servers = append(targets.Servers, t.Namespace)
		}
		targets.Add(gate.Request{Kind: mcp.Tool, Server: t.Namespace, Original: t.Name, Exposed: build.NameOf(t.Namespace) + t.Name}, t.InputSchema)
	}
}
