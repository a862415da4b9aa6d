package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
	"github.com/toolgate/toolgate/proxy/revision"
)

// This file brings a call that needs the approval of a person to that person
// (DESIGN 7, Approval): to whoever makes it, by a question of the client's own
// revision, or to others, whom the Approver asks.

// consent is what was said of a call for which people were asked. It is zero
// for a call that needs none.
type consent struct {
	from     Approver
	question gate.Question
	id       string
}

// approve sees to it that the people approve of a call who are to be asked
// before. It returns the question for a client that answers with a request of
// its own, the refusal while nobody has approved, and nothing when the call may
// go on.
func (g *Gateway) approve(ctx context.Context, x *Exchange, r *Route, rec *record, call *mcp.Call, again *retry) (*reply, error) {
	switch {
	case again != nil && again.state.approved != nil:
		if rec.approved = again.state.approved; !rec.approved.cover(rec.demands) {
			return nil, refusal.Unapproved("This call needs another approval since it was begun; begin a new one.")
		}
		return nil, nil
	case len(rec.demands) == 0:
		return nil, nil
	case again != nil && again.state.way != wayApproval:
		return nil, refusal.Unapproved("This call needs an approval since it was begun; begin a new one.")
	case call.Method == mcp.MethodComplete:
		return nil, refusal.Unapproved("What needs an approval is not completed.")
	}
	from := g.snapshot.Load().approver
	if from == nil {
		return nil, refusal.Unapproved("This call needs an approval, and there is nobody who could give it.")
	}
	a := consent{from: from, question: rec.question(x, r, call)}
	found, err := a.found(ctx, g, x, r, rec, call, again)
	if err != nil {
		return nil, approvalDown(err)
	}
	if found.State == gate.ApprovalPending && found.May(gate.ByRequester) && x.declares(mcp.MethodElicit, nil) {
		if x.Era == mcp.Modern {
			return g.askRequester(x, r, rec, call, &a, found)
		}
		if found, err = a.askNow(ctx, g, x, found); err != nil {
			return nil, approvalDown(err)
		}
	} else if found.State == gate.ApprovalPending {
		if found, err = from.Await(ctx, found.ID); err != nil {
			return nil, approvalDown(err)
		}
	}
	if found.State != gate.ApprovalGranted {
		return nil, refusal.NotApproved(found)
	}
	a.id = found.ID
	rec.consent, rec.approved = a, approvalsOf(rec.demands)
	return nil, nil
}

// question is what people are asked about a call.
func (rec *record) question(x *Exchange, r *Route, call *mcp.Call) gate.Question {
	args := mcp.Lookup(call.Params, "arguments")
	if call.Method == mcp.MethodRead {
		args = mcp.Quote(r.Exposed)
	}
	return r.asked(x.Identity, args, rec.demands)
}

// asked is the question about a call of somebody.
func (r *Route) asked(id *gate.Identity, args []byte, demands []gate.Demand) gate.Question {
	hash := mcp.Hash(args)
	capability := r.CapabilityID
	if capability == "" { // of what comes out of a template, for one
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", r.Kind, r.Server, r.Original))
		capability = "unlisted_" + hex.EncodeToString(sum[:])
	}
	return gate.Question{
		Identity: id, CapabilityID: capability, Server: r.Server, Name: r.Exposed,
		Args: args, ArgsHash: hex.EncodeToString(hash[:]), Demands: demands,
	}
}

// found returns the grant or the question that there is for a call, after the
// answer that its retry brings.
func (a *consent) found(ctx context.Context, g *Gateway, x *Exchange, r *Route, rec *record, call *mcp.Call, again *retry) (gate.Approval, error) {
	if again != nil {
		if err := g.rounds.admit(ctx, again, rec); err != nil {
			return gate.Approval{}, err
		}
		id, _ := mcp.Unquote(again.state.inner)
		if grant, said := a.said(mcp.Lookup(again.responses, approvalInput)); said {
			return a.from.Answer(ctx, &a.question, id, grant)
		}
	}
	return a.from.Ask(ctx, &a.question)
}

// askNow puts the question to a legacy client by a request on the stream of the
// call. One that is left unanswered stays open.
func (a *consent) askNow(ctx context.Context, g *Gateway, x *Exchange, found gate.Approval) (gate.Approval, error) {
	asking, cancel := context.WithTimeout(ctx, g.opts.Limits.RoundTime)
	defer cancel()
	msg, err := x.Session.question(asking, x.Identity, x.way, mcp.MethodElicit, revision.Message(x.Version, mcp.MethodElicit, a.form()))
	switch {
	case ctx.Err() != nil:
		return found, context.Cause(ctx)
	case err != nil || msg.Fault() != nil:
		return found, nil
	}
	grant, said := a.said(msg.Result())
	if !said {
		return found, nil
	}
	return a.from.Answer(ctx, &a.question, found.ID, grant)
}

// said reads the answer to the question. Neither is one that is no decision, nor one
// that approves of arguments that were not all shown without saying so.
func (a *consent) said(answer []byte) (grant, said bool) {
	switch action, _ := mcp.LookupString(answer, "action"); action {
	case "decline":
		return false, true
	case "accept":
		return true, gate.Excerpted(a.question.Args, maxShown).Missing == 0 || string(mcp.Lookup(answer, "content", approvalUnseen)) == "true"
	}
	return false, false
}

// approvalInput is the key of the gateway's own question in an input request.
const approvalInput = "approval"

// askRequester is the answer that asks a modern client.
func (g *Gateway) askRequester(x *Exchange, r *Route, rec *record, call *mcp.Call, a *consent, found gate.Approval) (*reply, error) {
	result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + approvalInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
	result = append(append(result, a.form()...), "}},\"requestState\":"...)
	result = append(append(result, mcp.Quote(found.ID)...), '}')
	sealed, err := g.rounds.seal(x, r, rec, call, result, wayApproval)
	if err != nil {
		return nil, err
	}
	return &reply{result: g.modernResult(sealed, true, false)}, nil
}

// maxShown is how much room a question has for the arguments, in bytes.
const maxShown = 2000

// approvalUnseen is the field of the question's form by which somebody approves of
// what is not shown.
const approvalUnseen = "approve_unseen"

// form is the question about a call, in words for the one who makes it.
func (a *consent) form() []byte {
	q := &a.question
	var text strings.Builder
	fmt.Fprintf(&text, "May %s be called", q.Name)
	if q.Server != "" {
		fmt.Fprintf(&text, " at the server %s", q.Server)
	}
	text.WriteByte('?')
	for _, d := range q.Demands {
		if d.Reason != "" {
			fmt.Fprintf(&text, " Asked because %s.", strings.TrimSuffix(d.Reason, "."))
		}
	}
	args, fields := gate.Excerpted(q.Args, maxShown), `{}`
	if args.Missing > 0 {
		missing := fmt.Sprintf("%d of %d bytes of the arguments are not shown", args.Missing, len(q.Args))
		fmt.Fprintf(&text, " Attention: %s. Arguments in part: %s (%s)", missing, args.Text, missing)
		fields = `{"` + approvalUnseen + `":{"type":"boolean","title":"Approve also of what is not shown","description":` + string(mcp.Quote(missing+".")) + `}},"required":["` + approvalUnseen + `"]`
	} else if args.Text != "" {
		fmt.Fprintf(&text, " Arguments: %s", args.Text)
	}
	out := append([]byte(`{"message":`), mcp.Quote(text.String())...)
	return append(append(append(out, `,"requestedSchema":{"type":"object","properties":`...), fields...), "}}"...)
}

// use uses the grant for a call up. Of two equal calls that wait for one grant,
// one gets it.
func (a *consent) use(ctx context.Context) error {
	if a.from == nil {
		return nil
	}
	switch ok, err := a.from.Use(ctx, &a.question); {
	case err != nil:
		return approvalDown(err)
	case !ok:
		return refusal.NotApproved(gate.Approval{ID: a.id, State: gate.ApprovalUsed})
	}
	return nil
}

// approvals are whose answers approved of a call, as [gate.Demand] names them
// for each demand; nil where nobody did. They go with the call from one round to
// the next.
type approvals [][]string

func approvalsOf(demands []gate.Demand) approvals {
	by := make(approvals, len(demands))
	for i := range demands {
		by[i] = demands[i].By
	}
	return by
}

// encode adds the approvals as a member to the open object of a seal.
func (a approvals) encode(object []byte) []byte {
	if a == nil {
		return object
	}
	by, _ := json.Marshal(a) // never fails on texts
	return append(append(object, `,"approved":`...), by...)
}

// decodeApprovals returns the approvals in what a seal holds.
func decodeApprovals(object []byte) (a approvals) {
	if by := mcp.Lookup(object, "approved"); by == nil || json.Unmarshal(by, &a) != nil {
		return nil
	}
	return a
}

// cover tells whether those who approved of a call are all that are to be asked
// about it now.
func (a approvals) cover(demands []gate.Demand) bool {
	return !slices.ContainsFunc(demands, func(d gate.Demand) bool {
		return !slices.ContainsFunc(a, func(by []string) bool { return (by == nil) == (d.By == nil) && slices.Equal(by, d.By) })
	})
}

// decideAgain decides once more on a call whose decision is too old to act on,
// because it waited for a person or for a place.
func (g *Gateway) decideAgain(ctx context.Context, x *Exchange, r *Route, rec *record, call *mcp.Call) error {
	if time.Since(rec.decided) <= decisionAge {
		return nil
	}
	return g.reconsider(ctx, x, r, rec, call)
}

// reconsider decides once more on a call, however old its decision is. What
// people approved of has to be all that is demanded of it.
func (g *Gateway) reconsider(ctx context.Context, x *Exchange, r *Route, rec *record, call *mcp.Call) error {
	if err := g.decide(ctx, x, r, rec); err != nil {
		return err
	}
	if err := g.examine(ctx, x, r, rec, call); err != nil {
		return err
	}
	return rec.approved.still(rec.demands)
}

// still returns the refusal of a call that is made to need another approval than
// it has.
func (a approvals) still(demands []gate.Demand) error {
	if a.cover(demands) {
		return nil
	}
	return refusal.Unapproved("While this call waited it was made to need another approval; make it again.")
}

// reconsiderFinal is reconsider for a call that has left its request: by what its
// server was sent, for whoever its client is now. It is safe to use beside the
// request.
func (g *Gateway) reconsiderFinal(ctx context.Context, x *Exchange, r *Route, by approvals, call *mcp.Call) error {
	var own record
	var err error
	own.demands, err = g.permitOr(ctx, x, r, delivered(call), nil, known(func() error { return unknown(x, r.Kind, r.Exposed) }))
	if err != nil {
		return err
	}
	if err := g.examine(ctx, x, r, &own, call); err != nil {
		return err
	}
	return by.still(own.demands)
}

// known is the answer to a caller who knows of something already, because a call or
// a task of it is under way, when it may not be viewed any more. That this cannot be
// decided is no news of whether it exists, and may pass.
func known(hidden func() error) func(gate.Decision) error {
	return func(d gate.Decision) error {
		if d.Err != nil {
			return refusal.Undecided(d)
		}
		return hidden()
	}
}

// approvalDown is why a question cannot be asked or an answer not be taken.
func approvalDown(err error) error {
	var refused *refusal.Error
	var fault *mcp.Error
	switch {
	case errors.As(err, &refused), errors.As(err, &fault), errors.Is(err, context.Canceled), errors.Is(err, errCancelled), errors.Is(err, errSessionEnded):
		return err
	case errors.Is(err, gate.ErrTooManyQuestions):
		return refusal.TooManyQuestions(err)
	}
	return refusal.ApprovalDown(err)
}
