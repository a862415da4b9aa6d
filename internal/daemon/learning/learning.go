package learning

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/learn"
	"github.com/toolgate/toolgate/proxy/findview"
	"github.com/toolgate/toolgate/proxy/redact"
)

// Options are what a [Service] stands on.
type Options struct {
	Log   *slog.Logger
	Store *store.Learning
	// Redact finds secrets in queries.
	Redact redact.Filter
	// Mode is the setting in force.
	Mode func() findview.Learning
	// Compared is told of a call after a search that was also ranked with what was learned:
	// the places of the tool, negative for not found.
	Compared func(place, shadow int)
	// Advisers returns all advisers of the gateway.
	Advisers func() []find.Adviser
}

// Service learns. Make it with [New] and run it with [Service.Run]. It is safe for
// concurrent use.
type Service struct {
	o       Options
	events  chan event
	changed chan struct{} // capacity 1: models have changed in the store, or a tenant was forgotten
	dropped atomic.Uint64

	loading sync.Mutex
	models  atomic.Pointer[map[string]held] // by tenant

	mu        sync.Mutex
	forgotten map[string]time.Time // tenants, and when; for as long as a call may follow a search from before
}

// held is a model as the store has it.
type held struct {
	*learn.Model
	version int64
}

// New returns a service that knows nothing yet.
func New(o Options) *Service {
	s := &Service{o: o, events: make(chan event, maxEvents), changed: make(chan struct{}, 1), forgotten: make(map[string]time.Time)}
	s.models.Store(&map[string]held{})
	return s
}

// maxEvents is how many searches and calls wait to be looked at.
const maxEvents = 1024

// event is a search or a call.
type event struct {
	search *proxy.Searched // nil for a call; its View is nil where nothing is compared
	call   called
	at     time.Time
}

// called is a successful call of a tool.
type called struct{ principal, server, tool string }

// Searched takes note of a search.
func (s *Service) Searched(of proxy.Searched) {
	if mode := s.o.Mode(); mode != findview.LearningOff && (len(of.Query.Kinds) == 0 || slices.Contains(of.Query.Kinds, mcp.Tool)) {
		if mode != findview.LearningShadow || s.model(of.Identity.Tenant) == nil {
			of.View = nil // so that the queue does not hold old indexes
		}
		of.Shown = slices.Clone(of.Shown[:min(len(of.Shown), maxShown)]) // its memory is that of the audit entry
		s.note(event{search: &of, at: time.Now()})
	}
}

func (s *Service) note(e event) {
	select {
	case s.events <- e:
	default:
		s.dropped.Add(1)
	}
}

// Auditor returns an auditor that takes note of successful calls, and hands everything to
// next.
func (s *Service) Auditor(next proxy.Auditor) proxy.Auditor { return auditor{next, s} }

type auditor struct {
	proxy.Auditor
	s *Service
}

// End implements [proxy.Auditor].
func (a auditor) End(e *audit.Entry) error {
	a.s.ended(e)
	return a.Auditor.End(e)
}

// Append implements [proxy.Auditor].
func (a auditor) Append(e *audit.Entry) error {
	a.s.ended(e)
	return a.Auditor.Append(e)
}

func (s *Service) ended(e *audit.Entry) {
	if e.Method != mcp.MethodToolsCall || e.Outcome != audit.OutcomeOK || e.Server == "" || s.o.Mode() == findview.LearningOff {
		return
	}
	s.note(event{call: called{principalOf(e), e.Server, e.Name}, at: e.Time})
}

type assumedKey struct{}

// With returns a context in which searches are ranked with what was learned, or without,
// whatever the setting in force is.
func With(ctx context.Context, learned bool) context.Context {
	return context.WithValue(ctx, assumedKey{}, learned)
}

// Advise implements [find.Adviser].
func (s *Service) Advise(ctx context.Context, who find.Caller, query string, v *find.View) func(item int) float64 {
	if assumed, ok := ctx.Value(assumedKey{}).(bool); ok && !assumed || !ok && s.o.Mode() != findview.LearningLive {
		return nil
	}
	return s.model(who.Tenant).Advise(query, v)
}

// model returns the model of a tenant, nil for none.
func (s *Service) model(tenant string) *learn.Model { return (*s.models.Load())[tenant].Model }
