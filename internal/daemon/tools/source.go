package tools

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/native/declared"
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

// document is what an address answered, checked.
type document struct {
	sum   string
	data  []byte
	tools []declared.Settings
}

// source is an address of tools.
type source struct {
	set config.ToolURL

	mu      sync.Mutex
	kept    *document     // in force; nil for none yet
	waiting *document     // what it answered last, until a person takes it
	problem string        // of the latest answer
	unfit   string        // why what is in force is not served
	since   time.Time     // of the latest change of these
	next    time.Time     // when it is asked; zero for not by itself
	asked   chan struct{} // closed by the answer that is waited for; nil for none
}

// name is the address without what may be secret in it.
func (s *source) name() string {
	u, err := url.Parse(s.set.URL)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// tools are those in force.
func (s *source) tools() []declared.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		return nil
	}
	return s.kept.tools
}

// refused notes why the document in force is not served; nil for that it is.
func (s *source) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit = ""
	if err != nil {
		s.unfit = oneLine(err)
	}
}

// oneLine is an error for the list of servers.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// final tells whether nothing else can come: the document with the hash is there.
func (s *source) final() bool {
	return s.kept != nil && s.set.SHA256 != "" && strings.EqualFold(s.set.SHA256, s.kept.sum)
}

// change says what the waiting document changes; mu is held.
func (s *source) change() string {
	var before []declared.Settings
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
