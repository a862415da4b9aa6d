package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy"
)

// readTime bounds the reading of the audit log.
const readTime = 12 * time.Second

// maxCarried bounds what the recorded calls of one replay carry together, in bytes.
const maxCarried = 16 << 20

// Options are what a [Service] needs of a gateway. All of it is needed.
type Options struct {
	Log  *slog.Logger
	Keys *seal.Keyring
	// Read calls fn with the entries of the audit log since a time, and maybe others, the
	// earliest first, until ctx ends. unreadable says that lines were skipped.
	Read func(ctx context.Context, since time.Time, fn func(*audit.Record)) (unreadable string, err error)
}

// Service decides recorded calls again for administrators, one replay at a time. Make it
// with [New]. It is safe for concurrent use.
type Service struct {
	o       Options
	free    chan struct{} // capacity 1: holds a value while nothing is replayed
	inForce atomic.Pointer[inForce]
	ending  context.Context // of the gateway
	end     context.CancelFunc
}

// inForce is a policy with what it is asked by.
type inForce struct {
	policy *opa.Phase // nil for none
	set    opa.Settings
	limits opa.InputLimits
}

// New returns a service. It replays nothing for good after [Service.Run] has ended.
func New(o Options) *Service {
	s := &Service{o: o, free: make(chan struct{}, 1)}
	s.ending, s.end = context.WithCancel(context.Background())
	s.free <- struct{}{}
	return s
}

// Run ends what is replayed when one of the contexts ends: that of the gateway, which has
// calls to end after it, or that of its parts. It returns then.
func (s *Service) Run(ctx, parts context.Context) error {
	select {
	case <-ctx.Done():
	case <-parts.Done():
	}
	s.end()
	<-s.free // for good
	return nil
}

// Use says which policy is in force; nil is none.
func (s *Service) Use(policy *opa.Phase, set opa.Settings, limits opa.InputLimits) {
	s.inForce.Store(&inForce{policy, set, limits})
}

// loaded returns the policy in force with its files, and why it has none.
func (s *Service) loaded() (now *inForce, files []opa.File, data opa.Data, missing string) {
	if now = s.inForce.Load(); now == nil || now.policy == nil {
		return &inForce{}, nil, data, "the gateway has no policy"
	}
	files, data, ok := now.policy.Loaded()
	if !ok {
		missing = "the policy is evaluated by a policy server (opa.url), which keeps its files"
	}
	return now, files, data, missing
}

// Policy returns the modules of the policy in force.
func (s *Service) Policy() admin.Policy {
	now, files, _, missing := s.loaded()
	p := admin.Policy{Files: []admin.PolicyFile{}, Missing: missing}
	if now.policy != nil {
		p.Revision = now.policy.Status().Revision
	}
	modules, size := slices.DeleteFunc(files, func(f opa.File) bool { return !f.IsModule() }), 0
	for _, f := range modules {
		size += len(f.Data)
	}
	if len(modules) > admin.MaxPolicyFiles || size > admin.MaxPolicyText {
		p.Missing = fmt.Sprintf("the policy has %d files with %d KiB, which is more than can be changed here", len(modules), size>>10)
		return p
	}
	for _, f := range modules {
		p.Files = append(p.Files, admin.PolicyFile{Name: f.Name, Text: strings.ToValidUTF8(string(f.Data), "\uFFFD")})
	}
	return p
}

// message returns the policy of a question: its modules, with all else as it is in force.
func (s *Service) message(q *admin.PolicyReplay) (*policyMessage, []admin.PolicyProblem, error) {
	now, files, data, _ := s.loaded()
	m := &policyMessage{
		Decision: now.set.Decision, RegoVersion: now.set.RegoVersion, Actions: now.set.Actions, PolicyInput: int64(now.limits.PolicyInput), Data: data,
		Files: slices.DeleteFunc(files, opa.File.IsModule),
	}
	size := 0
	for _, f := range q.Files {
		size += len(f.Name) + len(f.Text)
	}
	if len(q.Files) > admin.MaxPolicyFiles || size > admin.MaxPolicyText {
		return nil, nil, fmt.Errorf("%w: a policy may have %d files with %d KiB", admin.ErrReplayBound, admin.MaxPolicyFiles, admin.MaxPolicyText>>10)
	}
	var problems []admin.PolicyProblem
	for _, f := range q.Files {
		if at := invalid(f.Text); at > 0 {
			problems = append(problems, admin.PolicyProblem{File: f.Name, Line: at, Text: "this is not UTF-8"})
		}
		if own := (opa.File{Name: f.Name, Data: []byte(f.Text)}); own.IsModule() {
			m.Files = append(m.Files, own)
			continue
		}
		problems = append(problems, admin.PolicyProblem{File: f.Name, Text: "the name of a module ends in .rego, and not in _test.rego"})
	}
	if len(q.Files) == 0 {
		problems = append(problems, admin.PolicyProblem{Text: "the policy has no file; write one with the rule that decides"})
	}
	return m, problems, nil
}

// invalid returns the first line of a text that is not UTF-8; 0 for none.
func invalid(text string) int {
	if utf8.ValidString(text) {
		return 0
	}
	at := 1
	for line := range strings.Lines(text) {
		if !utf8.ValidString(line) {
			break
		}
		at++
	}
	return at
}

// Replay decides recorded calls again. Arguments that were recorded are opened if the policy
// reads them. begun tells whether the policy was run, maybe in part: with an error too, what
// was got by then says on how many calls, and whether with their arguments.
func (s *Service) Replay(ctx context.Context, q admin.PolicyReplay) (got admin.PolicyReplayed, begun bool, err error) {
	got.Counts, got.Changed = []admin.PolicyChange{}, []admin.ReplayedCall{}
	policy, problems, err := s.message(&q)
	if err != nil || len(problems) > 0 {
		got.Problems = problems
		return got, false, err
	}
	select {
	case <-s.free:
		defer func() { s.free <- struct{}{} }()
	default:
		return got, false, admin.ErrReplayBusy
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ending, func() { cancel(errEnding) })()

	log := recordedCalls{since: q.Since}
	reading, stop := context.WithTimeoutCause(ctx, readTime, errSlowLog)
	defer stop()
	got.Unreadable, err = s.o.Read(reading, q.Since, log.add)
	if reading.Err() != nil {
		err = context.Cause(reading)
	}
	if err != nil {
		return got, false, err
	}
	got.Calls, got.LeftOut, got.NotAsked = log.calls, log.leftOut, log.notAsked
	ready, verdicts, err := evaluate(ctx, s.o.Log, policy, log.asked, func(c *recorded) json.RawMessage {
		args, err := proxy.OpenInputs(s.o.Keys, c.id, c.inputs)
		if err != nil {
			return nil // they were not recorded, or with a key that is gone
		}
		return args
	})
	got.Problems, got.Arguments = ready.Problems, ready.Arguments
	if err == nil {
		tally(&got, log.asked, verdicts)
	}
	return got, true, err
}

// Why a replay ends before it is done.
var (
	errEnding  = errors.New("the gateway ends")
	errSlowLog = fmt.Errorf("%w: the audit log was not read within %v; choose a shorter time", admin.ErrReplayBound, readTime)
)

// recorded is a call that a policy has decided, as it was recorded.
type recorded struct {
	id     string
	at     time.Time
	asked  Question
	was    string
	inputs string // sealed
	size   int
}

// recordedCalls are the last calls of an audit log that fit the bounds.
type recordedCalls struct {
	since                    time.Time
	calls, leftOut, notAsked int
	asked                    []recorded
	carried                  int // bytes
}

// add adds an entry of the log.
func (l *recordedCalls) add(r *audit.Record) {
	if !IsCall(r) || r.Time.Before(l.since) {
		return
	}
	l.calls++
	was := Was(r)
	if was == "" {
		l.notAsked++
		return
	}
	c := recorded{id: r.CallID, at: r.Time, asked: Asked(r), was: was, inputs: r.Inputs}
	c.size = len(c.inputs) + c.asked.size()
	l.asked = append(l.asked, c)
	l.carried += c.size
	drop := 0
	for ; len(l.asked)-drop > admin.MaxReplayed || l.carried > maxCarried && drop < len(l.asked); drop++ {
		l.carried -= l.asked[drop].size
		l.asked[drop] = recorded{} // which the list would still hold
	}
	l.asked = l.asked[drop:]
	l.leftOut += drop
}

// size is about how many bytes a question takes.
func (q *Question) size() int {
	n := len(q.Server) + len(q.Original) + len(q.Exposed) + len(q.Capability) + len(q.Issuer) + len(q.Tenant) + len(q.Subject) + len(q.Persona) + len(q.Plan)
	for _, g := range q.Groups {
		n += len(g)
	}
	return n
}

// tally counts what changes, and lists the last calls of that.
func tally(got *admin.PolicyReplayed, calls []recorded, verdicts []Verdict) {
	counts := map[admin.PolicyChange]int{}
	for i, v := range slices.Backward(verdicts) {
		c := &calls[i]
		switch v.Compare(c.was) {
		case Unknown:
			got.Undecidable++
		case Same:
			got.Same++
		case Changed:
			counts[admin.PolicyChange{Was: c.was, Now: v.Now}]++
			if len(got.Changed) < admin.MaxReplayChanges {
				got.Changed = append(got.Changed, admin.ReplayedCall{
					ID: c.id, Time: c.at, Who: c.asked.Subject, Tenant: c.asked.Tenant, Tool: c.asked.Exposed, Was: c.was, Now: v.Now, Reason: v.Reason,
				})
			}
		}
	}
	for change, n := range counts {
		change.Calls = n
		got.Counts = append(got.Counts, change)
	}
	slices.SortFunc(got.Counts, func(a, b admin.PolicyChange) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Now, b.Now))
	})
}
