package daemon

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/mcp"
)

// renameServers moves what the store keeps of renamed servers to their new names.
func (r *reloads) renameServers(c *config.Config) {
	for i := range c.Servers {
		from, to := c.Servers[i].RenamedFrom, c.Servers[i].Key
		if from == "" {
			continue
		}
		log := r.d.log.With("server", to, "renamed_from", from)
		moved, taken, err := r.d.registry.RenameServer(r.d.ctx, from, to)
		switch {
		case err != nil:
			log.Error("what the store keeps of a renamed server is still under its old name; reload to try again", "err", err)
		case moved:
			log.Info("a server was renamed; its flags, restrictions and accepted definitions have moved to the new name")
			r.d.orphaned.server(&c.Toolgate.SpiceDB, from, to)
		case taken:
			log.Warn("the store already has entries under the new name of a renamed server; those under the old name stay there")
		}
	}
}

// mostOrphaned is how many objects are named, and kept, in all.
const mostOrphaned = 20

// orphanedRelations are objects whose relations apply to nothing any more, because what
// they are named after has another name. An orphaned grant takes something away; an
// orphaned ban gives it back. It is safe for concurrent use.
type orphanedRelations struct {
	log *slog.Logger

	mu       sync.Mutex
	settings spicedb.Settings // in force
	texts    []string
	more     int
	reported int // how many of the texts a person has been told by a reload
}

// use takes over settings.
func (l *orphanedRelations) use(s *spicedb.Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = *s
}

// forget drops what was reported. What an automatic reload has noted since then
// stays for the next report.
func (l *orphanedRelations) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reported > 0 {
		l.texts, l.more, l.reported = slices.Clone(l.texts[l.reported:]), 0, 0
	}
}

// report is what problems says, marked as told to a person.
func (l *orphanedRelations) report() []string {
	l.mu.Lock()
	l.reported = len(l.texts)
	l.mu.Unlock()
	return l.problems()
}

// problems says what is orphaned, for people.
func (l *orphanedRelations) problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.texts)
	if l.more > 0 {
		out = append(out, fmt.Sprintf("spicedb.object_id: ... and %d more", l.more))
	}
	return out
}

// server notes that a server has another key.
func (l *orphanedRelations) server(s *spicedb.Settings, from, to string) {
	if s.Endpoint == "" && s.Builtin == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := s.Mapping
	for key, id := range map[string]string{"object_id": m.ObjectID, "resource_id": m.ResourceID, "server_id": m.ServerID} {
		if strings.Contains(id, "server") || id == "" && key != "object_id" {
			l.add(fmt.Sprintf("spicedb.%s: ids have the server's name in them, which is %s and was %s: write its relations anew, %s", key, to, from, keepAll))
		}
	}
}

const keepAll = "or name objects after {capability}, which no rename changes"

// renamed notes what has another name now. It does not block.
func (l *orphanedRelations) renamed(all []registry.Rename) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.settings
	if s.Endpoint == "" && s.Builtin == nil {
		return
	}
	var was, is []spicedb.Capability
	for _, r := range all {
		one := spicedb.Capability{
			Kind: kindOf(r.Kind), Server: r.Server, Original: r.Original, Exposed: r.Is.Exposed, Unsuffixed: r.Is.Unsuffixed, CapabilityID: r.ID, Tenant: "any",
		}
		is = append(is, one)
		if one.Exposed, one.Unsuffixed = r.Was, ""; hashOf(r.Was, r.Is.Stable()) {
			one.Exposed = r.Is.Stable() // a case collision is gone, which changes no id
		}
		was = append(was, one)
	}
	before, err := spicedb.ObjectIDs(s.Mapping, was)
	if err != nil {
		return // such a mapping is not in force
	}
	after, err := spicedb.ObjectIDs(s.Mapping, is)
	if err != nil {
		return
	}
	for i := range before {
		if before[i] != after[i] && before[i] != "" {
			l.add(fmt.Sprintf("spicedb.object_id: relations of %s are not in force, because it is %s now: "+
				"write them anew, or name objects after {server}/{original}, which no rename of a tool or namespace changes", before[i], after[i]))
		}
	}
}

// add notes one; mu is held.
func (l *orphanedRelations) add(text string) {
	if slices.Contains(l.texts, text) {
		return
	}
	if len(l.texts) == mostOrphaned {
		l.more++
		return
	}
	l.texts = append(l.texts, text)
	l.log.Warn("a rename has left relations behind", "what", text)
}

// hashOf tells whether a name is what another one becomes in a case collision.
func hashOf(name, unsuffixed string) bool {
	tail, ok := strings.CutPrefix(name, unsuffixed+"_")
	return ok && len(tail) == len("pgfvt7i")
}

func kindOf(word string) mcp.Kind {
	for _, kind := range mcp.Kinds {
		if kind.String() == word {
			return kind
		}
	}
	return mcp.NoKind
}
