package spicedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	authzed "github.com/authzed/authzed-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toolgate/toolgate/gate"
)

const (
	// bulkMost is how many objects are asked about one by one; for more of one
	// type everything that the caller has is looked up.
	bulkMost = 200
	// A bulk question has at most so many items and bytes, below the limits of
	// the server (10,000, and 4 MiB of a message).
	bulkItems = 1000
	bulkBytes = 1 << 20
	// pairLogEvery is how often errors of single questions are logged.
	pairLogEvery = 10 * time.Second
)

// outcome is the answer to one question of a batch.
type outcome struct {
	answer
	err error
}

// group is the questions of a batch that are asked together.
type group struct {
	caller
	kind, permission string
	strict           bool

	questions []question       // each once
	at        map[ref]int      // object to its place in questions
	requests  []groupedRequest // what they are for
}

type groupedRequest struct {
	index    int // in the batch
	question int // in the group
}

// groupKey is what the questions of a group have in common.
type groupKey struct {
	caller           string // who asks and what for
	kind, permission string
	strict           bool
}

// CheckAll is [gate.Part.CheckAll]. It answers within
// [Options.ListTimeout]. Up to 200 objects of one type are asked about in bulk;
// for more, everything that the caller has is looked up once and cached.
func (p *Phase) CheckAll(ctx context.Context, rs []gate.Request) ([]gate.Decision, error) {
	decisions := make([]gate.Decision, len(rs))
	if p.client == nil {
		return decisions, errZero
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.ListTimeout, errOverdue)
	defer cancel()
	for round := 1; ; round++ {
		g := p.current.Load()
		allowed, err := p.decide(ctx, g, rs, decisions, round == rounds)
		if err != nil {
			failed := gate.Decision{Reason: reasonIn(err)}
			for i := range decisions {
				decisions[i] = failed
			}
			return decisions, err
		}
		if !allowed || round == rounds || p.current.Load().number == g.number {
			return decisions, nil
		}
	}
}

// decide makes every decision by one generation and tells whether the server
// allowed any just now.
func (p *Phase) decide(ctx context.Context, g *generation, rs []gate.Request, decisions []gate.Decision, full bool) (allowed bool, err error) {
	for _, part := range p.groups(g, rs, decisions) {
		outcomes, err := p.outcomes(ctx, g, part, full || part.strict)
		if err != nil {
			return false, err
		}
		var space [maxKey]byte
		for _, r := range part.requests {
			o := outcomes[r.question]
			if o.err != nil {
				decisions[r.index] = gate.Decision{Reason: reasonIn(o.err), Err: o.err}
				continue
			}
			decisions[r.index] = o.decision()
			allowed = allowed || o.allow
			if !part.strict && g.cacheable() && len(part.questions) <= bulkMost {
				g.answers.put(appendKey(space[:0], &rs[r.index]), o.answer)
			}
		}
		p.logPairs(part, outcomes)
	}
	return allowed, nil
}

// groups decides what needs no question and returns the rest.
func (p *Phase) groups(g *generation, rs []gate.Request, decisions []gate.Decision) []*group {
	var all []*group
	by := map[groupKey]*group{}
	var space [maxKey]byte
	var last *gate.Request
	who := "" // the caller of last
	for i := range rs {
		r := &rs[i]
		if d, ok, err := local(r); ok {
			d.Err = err
			decisions[i] = d
			continue
		}
		strict := p.strict(r)
		if !strict {
			if a, ok := p.cached(g, appendKey(space[:0], r)); ok {
				decisions[i] = a.decision()
				continue
			}
		}
		q, err := p.names.of(r)
		if err != nil {
			decisions[i] = gate.Decision{Reason: ReasonMisconfigured, Err: err}
			continue
		}
		if last == nil || last.Identity != r.Identity || last.Action != r.Action {
			who = string(shortKey(appendCaller(nil, r.Action, r.Identity)))
		}
		last = r
		key := groupKey{who, q.object.kind, q.permission, strict}
		part := by[key]
		if part == nil {
			part = &group{
				caller: caller{r.Identity, r.Action, p.options.Zone},
				kind:   q.object.kind, permission: q.permission, strict: strict,
				at: map[ref]int{},
			}
			by[key] = part
			all = append(all, part)
		}
		part.add(i, q)
	}
	return all
}

// add puts the question of a request into the group.
func (g *group) add(index int, q question) {
	at, ok := g.at[q.object]
	if !ok {
		at = len(g.questions)
		g.at[q.object] = at
		g.questions = append(g.questions, q)
	}
	g.requests = append(g.requests, groupedRequest{index, at})
}

// outcomes answers the questions of a group in their order.
func (p *Phase) outcomes(ctx context.Context, g *generation, part *group, full bool) ([]outcome, error) {
	l, err := p.lookupFor(ctx, g, part, full)
	switch {
	case errors.Is(err, errManyIDs) || err == nil && l == nil:
		return p.bulk(ctx, g, part, full)
	case outdated(err, g.consistency(full)):
		all, err := p.outcomes(ctx, g, part, true)
		p.anew(err)
		return all, err
	case err != nil:
		return nil, err
	}
	all := make([]outcome, len(part.questions))
	for i, q := range part.questions {
		all[i].answer = l.answer(q)
	}
	return all, nil
}

// lookupFor returns the lookup that answers a group; nil where its questions
// are better asked one by one.
func (p *Phase) lookupFor(ctx context.Context, g *generation, part *group, full bool) (*lookup, error) {
	first := part.questions[0]
	if len(part.questions) <= bulkMost {
		if full {
			return nil, nil
		}
		return p.looked(g, first, part.caller), nil
	}
	return p.objects(ctx, g, lookupKey(first, part.caller), first, part.caller, full)
}

// bulk asks the questions of a group in as few calls as the limits allow.
func (p *Phase) bulk(ctx context.Context, g *generation, part *group, full bool) ([]outcome, error) {
	all := make([]outcome, 0, len(part.questions))
	context := part.context()
	extra := proto.Size(context) + 64
	for rest := part.questions; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < bulkItems && (n == 0 || size < bulkBytes) {
			q := rest[n]
			size += extra + len(q.object.id) + len(q.subject.id) + len(q.object.kind) + len(q.permission)
			n++
		}
		items := make([]*v1.CheckBulkPermissionsRequestItem, n)
		for i, q := range rest[:n] {
			items[i] = &v1.CheckBulkPermissionsRequestItem{
				Resource: q.object.object(), Permission: q.permission, Subject: q.subject.subject(), Context: context,
			}
		}
		found, err := p.chunk(ctx, g, rest[:n], items, full)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		rest = rest[n:]
	}
	return all, nil
}

// chunk asks some questions in one call.
func (p *Phase) chunk(ctx context.Context, g *generation, questions []question, items []*v1.CheckBulkPermissionsRequestItem, full bool) ([]outcome, error) {
	req := &v1.CheckBulkPermissionsRequest{Consistency: g.consistency(full), Items: items}
	doing := fmt.Sprintf("ask SpiceDB about %d objects for %s", len(items), questions[0].subject)
	asked := p.now()
	var res *v1.CheckBulkPermissionsResponse
	absent := false // the type is; a group has one
	err := p.client.ask(ctx, doing, p.options.ListTimeout, func(ctx context.Context, api *authzed.Client) (err error) {
		res, err = api.CheckBulkPermissions(ctx, req)
		if p.names.untyped(questions[0].object.kind, err) {
			absent = true
			return nil
		}
		return err
	})
	if outdated(err, req.GetConsistency()) {
		all, err := p.chunk(ctx, g, questions, items, true)
		p.anew(err)
		return all, err
	}
	if err != nil {
		return nil, err
	}
	if absent {
		all := make([]outcome, len(items))
		for i := range all {
			all[i].answer = answer{asked: asked, reason: noType(questions[0].object.kind)}
		}
		return all, nil
	}
	if len(res.GetPairs()) != len(items) {
		err := status.Errorf(codes.Internal, "%d answers to %d questions", len(res.GetPairs()), len(items))
		return nil, &Error{Reason: ReasonUnavailable, Endpoint: p.client.endpoint, Doing: doing, Err: err}
	}
	all := make([]outcome, len(items))
	for i, pair := range res.GetPairs() {
		all[i] = p.outcome(questions[i], pair)
		all[i].asked, all[i].revision = asked, res.GetCheckedAt().GetToken()
	}
	return all, nil
}

// outcome reads one pair of a bulk answer. One that fails denies itself alone.
func (p *Phase) outcome(q question, pair *v1.CheckBulkPermissionsPair) outcome {
	fail := func(err error) outcome {
		return outcome{err: &Error{Reason: reasonOf(err), Endpoint: p.client.endpoint, Doing: "ask SpiceDB whether " + q.subject.String() + " has " + q.permission + " on " + q.object.String(), Err: err}}
	}
	if echo := pair.GetRequest(); echo != nil && (echo.GetResource().GetObjectId() != q.object.id || echo.GetPermission() != q.permission) {
		return fail(status.Error(codes.Internal, "the answer is to another question"))
	}
	if e := pair.GetError(); e != nil {
		err := status.ErrorProto(e)
		if p.names.untyped(q.object.kind, err) {
			return outcome{answer: answer{reason: noType(q.object.kind)}}
		}
		return fail(err)
	}
	item := pair.GetItem()
	allow, reason := verdict(q, item.GetPermissionship(), item.GetPartialCaveatInfo())
	return outcome{answer: answer{allow: allow, reason: reason}}
}

// logPairs tells of questions that could not be answered among others that
// could, now and then.
func (p *Phase) logPairs(part *group, outcomes []outcome) {
	failed := 0
	var first error
	for _, o := range outcomes {
		if o.err != nil {
			if failed++; first == nil {
				first = o.err
			}
		}
	}
	if failed == 0 {
		return
	}
	last, now := p.pairLog.Load(), int64(p.now())
	if last != 0 && now-last < int64(pairLogEvery) || !p.pairLog.CompareAndSwap(last, now) {
		return
	}
	p.log.Warn("SpiceDB answers not every question of a list", "type", part.kind, "permission", part.permission,
		"failed", failed, "of", len(outcomes), "error", first)
}
