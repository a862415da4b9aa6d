package daemon

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
)

// This file keeps the documents of tools at addresses (tool_urls): the last good
// one of each is in force, from a copy that the gateway's key authenticates; one
// that has changed waits for a person.

const (
	// fetchTime bounds one request, with its body.
	fetchTime = 10 * time.Second
	// MaxDocument bounds a document, in bytes.
	MaxDocument = 1 << 20
	// maxFetches is how many are asked for at once.
	maxFetches = 4
	// fetchAgain is how soon one is asked for again of which there is none.
	fetchAgain = 30 * time.Second
	// reloadWait is how long a reload waits for the answers, to show what changes.
	reloadWait = 3 * time.Second
	// documentPurpose separates the MACs of kept documents from all others.
	documentPurpose = "tools of an address"
)

// toolDocument is what an address answered, checked.
type toolDocument struct {
	sum   string
	data  []byte
	tools []config.DeclaredTool
}

// toolSource is an address of tools.
type toolSource struct {
	set config.ToolURL

	mu      sync.Mutex
	kept    *toolDocument // in force; nil for none yet
	waiting *toolDocument // what it answered last, until a person takes it
	problem string        // of the latest answer
	unfit   string        // why what is in force is not served
	since   time.Time     // of the latest change of these
	next    time.Time     // when it is asked; zero for not by itself
	asked   chan struct{} // closed by the answer that is waited for; nil for none
}

// toolSources are all of them. The zero value has none, and needs wake to ask.
type toolSources struct {
	mu   sync.Mutex
	list []*toolSource
	wake chan struct{} // capacity 1
}

// name is the address without what may be secret in it.
func (s *toolSource) name() string {
	u, err := url.Parse(s.set.URL)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// tools are those in force.
func (s *toolSource) tools() []config.DeclaredTool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		return nil
	}
	return s.kept.tools
}

// refused notes why the document in force is not served; nil for that it is.
func (s *toolSource) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit = ""
	if err != nil {
		s.unfit = oneLine(err)
	}
}

// oneLine is an error for the list of servers.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// of returns the sources of a configuration: those that there are where the
// settings are the same, and others with the copy that is kept of them.
func (all *toolSources) of(c *config.Config, in *Daemon) []*toolSource {
	all.mu.Lock()
	defer all.mu.Unlock()
	out := make([]*toolSource, 0, len(c.Toolgate.ToolURLs))
	for _, set := range c.Toolgate.ToolURLs {
		i := slices.IndexFunc(all.list, func(s *toolSource) bool { return s.set == set })
		if i >= 0 {
			out = append(out, all.list[i])
			continue
		}
		s := &toolSource{set: set, since: time.Now()}
		kept, err := s.load(in.State.Path, in.keys)
		if err != nil {
			in.Log.Warn("the copy of tools is not used", "address", s.name(), "err", err)
		}
		s.kept = kept
		if !s.final() {
			s.next = time.Now()
		}
		out = append(out, s)
	}
	return out
}

// use makes sources those of the configuration in force. The copies of others
// that were are removed from a folder.
func (all *toolSources) use(list []*toolSource, dir string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, old := range all.list {
		if !slices.ContainsFunc(list, func(s *toolSource) bool { return s.set.URL == old.set.URL }) {
			_ = os.Remove(filepath.Join(dir, old.file())) // one that stays is used if its address comes back
		}
	}
	all.list = list
	nudge(all.wake)
}

func (all *toolSources) all() []*toolSource {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Clone(all.list)
}

// final tells whether nothing else can come: the document with the hash is there.
func (s *toolSource) final() bool {
	return s.kept != nil && s.set.SHA256 != "" && strings.EqualFold(s.set.SHA256, s.kept.sum)
}

// accept takes what waits, for a person who has asked for a reload, and says what
// that changes. The returned function ends it: by keeping copies, or by leaving
// everything as it was.
func (all *toolSources) accept() (taken []string, end func(in *Daemon, ok bool)) {
	before := make(map[*toolSource]*toolDocument)
	for _, s := range all.all() {
		s.mu.Lock()
		if s.waiting != nil {
			taken = append(taken, s.change())
			before[s] = s.kept
			s.kept, s.waiting, s.since = s.waiting, s.kept, time.Now()
		}
		s.mu.Unlock()
	}
	return taken, func(in *Daemon, ok bool) {
		for s, old := range before {
			s.mu.Lock()
			if ok {
				s.waiting = nil
				s.save(in)
			} else {
				s.kept, s.waiting = old, s.kept
			}
			s.mu.Unlock()
		}
	}
}

// change says what the waiting document changes; mu is held.
func (s *toolSource) change() string {
	var before []config.DeclaredTool
	if s.kept != nil {
		before = s.kept.tools
	}
	what := toolChanges(before, s.waiting.tools)
	if len(what) == 0 {
		what = []string{"the same tools in other words"}
	}
	const most = 20
	if len(what) > most {
		what = append(what[:most], fmt.Sprintf("%d more changes", len(what)-most))
	}
	return fmt.Sprintf("tool_urls %s: %s (sha256 %s)", s.name(), strings.Join(what, "; "), s.waiting.sum)
}

// pending says what waits for a person.
func (all *toolSources) pending() []string {
	var out []string
	for _, s := range all.all() {
		s.mu.Lock()
		if s.waiting != nil {
			out = append(out, s.change())
		}
		s.mu.Unlock()
	}
	return out
}

// rows shows the addresses in the list of servers.
func (all *toolSources) rows() []admin.Server {
	var out []admin.Server
	for _, s := range all.all() {
		s.mu.Lock()
		row := admin.Server{Name: s.name(), Kind: "tools", State: mcp.Ready.String(), Seconds: time.Since(s.since).Seconds()}
		switch {
		case s.kept == nil && s.problem != "" || s.unfit != "":
			row.State = mcp.Failed.String()
		case s.kept == nil:
			row.State = mcp.Starting.String()
		case s.problem != "":
			row.Stale = true
		}
		why := []string{s.unfit, s.problem}
		if s.waiting != nil {
			row.Pending = []string{"tools"}
			why = append(why, pendingReason(row.Pending))
		}
		row.Reason = strings.Join(slices.DeleteFunc(why, func(text string) bool { return text == "" }), "; ")
		s.mu.Unlock()
		out = append(out, row)
	}
	return out
}
