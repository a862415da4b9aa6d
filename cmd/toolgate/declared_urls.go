package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/cmd/toolgate/admin"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/mcp"
)

// This file keeps the documents of tools at addresses (tool_urls): the last good
// one of each is in force, from a copy that the gateway's key authenticates; one
// that has changed waits for a person.

const (
	// fetchTime bounds one request, with its body.
	fetchTime = 10 * time.Second
	// maxDocument bounds a document, in bytes.
	maxDocument = 1 << 20
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
func (all *toolSources) of(c *config.Config, in *instance) []*toolSource {
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
		kept, err := s.load(in.state.path, in.keys)
		if err != nil {
			in.log.Warn("the copy of tools is not used", "address", s.name(), "err", err)
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
func (all *toolSources) accept() (taken []string, end func(in *instance, ok bool)) {
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
	return taken, func(in *instance, ok bool) {
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

// askForTools asks every address again, for a person who has asked for a reload,
// and adds to the result what came that waits, and what did not come.
func (in *instance) askForTools(did *admin.Reloaded) {
	sources := in.sources.all()
	var waits []chan struct{}
	for _, s := range sources {
		s.mu.Lock()
		if !s.final() {
			s.next = time.Now()
			if s.asked == nil {
				s.asked = make(chan struct{})
			}
			waits = append(waits, s.asked)
		}
		s.mu.Unlock()
	}
	nudge(in.sources.wake)
	ctx, cancel := context.WithTimeout(in.ctx, reloadWait)
	defer cancel()
	for _, answered := range waits {
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
	did.Pending = append(did.Pending, in.sources.pending()...)
	for _, s := range sources {
		s.mu.Lock()
		if why := strings.TrimPrefix(s.unfit+"; "+s.problem, "; "); why != "" {
			did.Warnings = append(did.Warnings, "tool_urls "+s.name()+": "+strings.TrimSuffix(why, "; "))
		}
		s.mu.Unlock()
	}
}

// followTools asks the addresses when it is time to, until the context ends.
func (in *instance) followTools(ctx context.Context) error {
	for {
		due, next := in.sources.due(time.Now())
		if len(due) > 0 {
			in.fetchTools(ctx, due)
			continue
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-in.sources.wake:
		case <-timer:
		}
	}
}

// due returns the sources that are to be asked now, and when the next one is.
func (all *toolSources) due(now time.Time) (due []*toolSource, next time.Time) {
	for _, s := range all.all() {
		s.mu.Lock()
		switch {
		case s.next.IsZero():
		case !s.next.After(now):
			due = append(due, s)
		case next.IsZero() || s.next.Before(next):
			next = s.next
		}
		s.mu.Unlock()
	}
	return due, next
}

// fetchTools asks addresses, and serves what may be served at once: what has the
// hash that an operator wrote, and the first document of an address.
func (in *instance) fetchTools(ctx context.Context, due []*toolSource) {
	var group errgroup.Group
	group.SetLimit(maxFetches)
	took := make([]bool, len(due))
	for i, s := range due {
		group.Go(func() error {
			data, err := s.fetch(ctx)
			took[i] = in.toolsAnswered(s, data, err)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	if ctx.Err() == nil && slices.Contains(took, true) {
		in.reloading.Lock()
		err := in.apply(in.current())
		in.reloading.Unlock()
		if err != nil {
			in.log.Error("the tools of an address are not served yet", "err", err)
		}
	}
	for _, s := range due {
		s.mu.Lock()
		if s.asked != nil {
			close(s.asked)
			s.asked = nil
		}
		s.mu.Unlock()
	}
}

// fetch asks an address.
func (s *toolSource) fetch(ctx context.Context) ([]byte, error) {
	where, err := egress.ParseTemplate(s.set.URL)
	if err != nil {
		return nil, err
	}
	guard, err := egress.New(where.Policy())
	if err != nil {
		return nil, err
	}
	client := egress.NewClient(guard, egress.Limits{Timeout: fetchTime, Body: maxDocument}, nil)
	defer client.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.set.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/yaml, text/plain;q=0.9, */*;q=0.5")
	req.Header.Set("User-Agent", "toolgate/"+version)
	answer, err := client.Do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case answer.Status >= 300 && answer.Status < 400:
		return nil, fmt.Errorf("it answers %d and leads elsewhere; write the address where the document is", answer.Status)
	case answer.Status != http.StatusOK:
		return nil, fmt.Errorf("it answers %d", answer.Status)
	case answer.Cut:
		return nil, fmt.Errorf("its document is larger than %d bytes", maxDocument)
	}
	return answer.Body, nil
}

// toolsAnswered notes what an address answered, and tells whether it is in force now.
func (in *instance) toolsAnswered(s *toolSource, data []byte, err error) (took bool) {
	var doc *toolDocument
	if err == nil {
		doc, err = s.read(data)
	}
	s.mu.Lock()
	same := err == nil && s.kept != nil && s.kept.sum == doc.sum
	s.mu.Unlock()
	if err == nil && !same {
		// Beside the tools of the file, so that it does not stand in its own way.
		err = fitBeside(in.current(), doc.tools, ownFiles(in.current(), in.state))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = time.Time{}
	if s.set.Refresh > 0 {
		s.next = time.Now().Add(s.set.Refresh)
	}
	problem := ""
	if err != nil {
		problem = oneLine(err)
		if s.kept == nil && (s.next.IsZero() || s.set.Refresh > fetchAgain) {
			s.next = time.Now().Add(fetchAgain)
		}
	}
	if problem != s.problem {
		s.problem, s.since = problem, time.Now()
		if problem != "" {
			in.log.Warn("an address of tools does not answer as it should", "address", s.name(), "kept", s.kept != nil, "err", problem)
		}
	}
	switch {
	case err != nil:
		return false
	case same:
		s.waiting = nil
	case s.kept == nil || s.set.SHA256 != "":
		s.kept, s.waiting, s.since = doc, nil, time.Now()
		s.save(in)
		took = true
	case s.waiting == nil || s.waiting.sum != doc.sum:
		s.waiting, s.since = doc, time.Now()
		in.log.Warn("waits for `toolgate reload`", "change", s.change())
	}
	if s.final() {
		s.next = time.Time{}
	}
	return took
}
