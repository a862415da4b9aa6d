package tools

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/version"
)

// This file asks addresses for the tools that they declare.

// Ask fetches every address again for a reload. It adds the documents that wait, and
// the failures, to the result.
func (t *Tools) Ask(ctx context.Context, did *admin.Reloaded) {
	sources := t.all()
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
	wake(t.due)
	ctx, cancel := context.WithTimeout(ctx, reloadWait)
	defer cancel()
	for _, answered := range waits {
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
	did.Pending = append(did.Pending, t.Pending()...)
	for _, s := range sources {
		s.mu.Lock()
		if why := strings.TrimPrefix(s.unfit+"; "+s.problem, "; "); why != "" {
			did.Warnings = append(did.Warnings, "tool_urls "+s.name()+": "+strings.TrimSuffix(why, "; "))
		}
		s.mu.Unlock()
	}
}

// follow fetches the addresses when they are due, until the context ends.
func (t *Tools) follow(ctx context.Context) error {
	for {
		due, next := dueNow(t.all(), time.Now())
		if len(due) > 0 {
			t.fetch(ctx, due)
			continue
		}
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.due:
		case <-timer:
		}
	}
}

// dueNow returns the sources that are due, and when the next one is.
func dueNow(all Sources, now time.Time) (due Sources, next time.Time) {
	for _, s := range all {
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

// fetch fetches addresses, and serves at once what needs no consent: documents with a
// pinned hash, and the first document of an address.
func (t *Tools) fetch(ctx context.Context, due Sources) {
	var group errgroup.Group
	group.SetLimit(maxFetches)
	took := make([]bool, len(due))
	for i, s := range due {
		group.Go(func() error {
			data, err := s.fetch(ctx)
			took[i] = t.answered(s, data, err)
			return nil
		})
	}
	_ = group.Wait() // no member returns an error
	if ctx.Err() == nil && slices.Contains(took, true) {
		err := t.o.Apply(ctx, func(context.Context) (bool, error) { return true, nil })
		if err != nil {
			t.o.Log.Error("the tools of an address are not served yet", "err", err)
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

// fetch requests the document of an address.
func (s *source) fetch(ctx context.Context) ([]byte, error) {
	where, err := egress.ParseTemplate(s.set.URL)
	if err != nil {
		return nil, err
	}
	guard, err := egress.New(where.Policy())
	if err != nil {
		return nil, err
	}
	client := egress.NewClient(guard, egress.Limits{Timeout: fetchTime, Body: MaxDocument}, nil)
	defer client.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.set.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/yaml, text/plain;q=0.9, */*;q=0.5")
	req.Header.Set("User-Agent", "toolgate/"+version.Version)
	answer, err := client.Do(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case answer.Status >= 300 && answer.Status < 400:
		return nil, fmt.Errorf("it answers %d and leads elsewhere; write the address where the document is", answer.Status)
	case answer.Status != http.StatusOK:
		return nil, fmt.Errorf("it answers %d", answer.Status)
	case answer.Cut:
		return nil, fmt.Errorf("its document is larger than %d bytes", MaxDocument)
	}
	return answer.Body, nil
}

// answered records the answer of an address, and tells whether it is in force now.
func (t *Tools) answered(s *source, data []byte, err error) (took bool) {
	var doc *document
	if err == nil {
		doc, err = s.read(data)
	}
	s.mu.Lock()
	same := err == nil && s.kept != nil && s.kept.sum == doc.sum
	s.mu.Unlock()
	if err == nil && !same {
		// The base is the file's tools alone, so that the document does not conflict
		// with itself.
		c := t.o.Config()
		err = FitBeside(c, doc.tools, build.KeepOff(c, build.OwnFiles(c, t.o.State)))
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
			t.o.Log.Warn("an address of tools does not answer as it should", "address", s.name(), "kept", s.kept != nil, "err", problem)
		}
	}
	switch {
	case err != nil:
		return false
	case same:
		s.waiting = nil
	case s.kept == nil || s.set.SHA256 != "":
		s.kept, s.waiting, s.since = doc, nil, time.Now()
		s.save(&t.o)
		took = true
	case s.waiting == nil || s.waiting.sum != doc.sum:
		s.waiting, s.since = doc, time.Now()
		t.o.Log.Warn("waits for `toolgate reload`", "change", s.change())
	}
	if s.final() {
		s.next = time.Time{}
	}
	return took
}
