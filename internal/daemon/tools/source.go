package tools

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/native/declared"
)

// This file manages the documents of tools at addresses (tool_urls). The last good
// document of each is in force, from a copy that the gateway's key authenticates. A
// changed document waits for a person.

const (
	// fetchTime bounds one request, with its body.
	fetchTime = 10 * time.Second
	// MaxDocument bounds a document, in bytes.
	MaxDocument = 1 << 20
	// maxFetches bounds concurrent requests.
	maxFetches = 4
	// fetchAgain is the time between requests to an address without a document.
	fetchAgain = 30 * time.Second
	// reloadWait is how long a reload waits for answers, to show the changes.
	reloadWait = 3 * time.Second
	// documentPurpose separates the MACs of kept documents from all others.
	documentPurpose = "tools of an address"
)

// document is a checked document.
type document struct {
	sum   string
	data  []byte
	tools []declared.Settings
}

// source is an address of tools.
type source struct {
	set declared.Address

	mu      sync.Mutex
	kept    *document     // in force; nil for none yet
	waiting *document     // the latest answer, until a person accepts it
	problem string        // the problem with the latest answer
	unfit   string        // why the document in force is not served
	since   time.Time     // of the latest change of these
	next    time.Time     // when it is fetched next; zero: only on request
	asked   chan struct{} // closed when the pending answer arrives; nil: none is pending
}

// name returns the address without its secret parts.
func (s *source) name() string {
	u, err := url.Parse(s.set.URL)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// tools returns the tools in force.
func (s *source) tools() []declared.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		return nil
	}
	return s.kept.tools
}

// refused records why the document in force is not served; nil if it is.
func (s *source) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfit = ""
	if err != nil {
		s.unfit = oneLine(err)
	}
}

// oneLine formats an error for the list of servers.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// final tells whether the document with the pinned hash is in force, so that nothing
// else can come.
func (s *source) final() bool {
	return s.kept != nil && s.set.SHA256 != "" && strings.EqualFold(s.set.SHA256, s.kept.sum)
}

// change describes what the waiting document changes; the caller holds mu.
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
