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
// before. A client that answers with a request of its own is answered with the
// question. The error is the refusal while nobody has approved.
func (c *call) approve() error {
	again := c.retry
	switch {
	case again != nil && again.state.approved != nil:
		if c.approved = again.state.approved; !c.approved.covers(c.demands) {
			return refusal.Unapproved("This call needs another approval since it was begun; begin a new one.")
		}
		return nil
	case len(c.demands) == 0:
		return nil
	case again != nil && again.state.resume != resumeApproval:
		return refusal.Unapproved("This call needs an approval since it was begun; begin a new one.")
	case c.request.Method == mcp.MethodComplete:
		return refusal.Unapproved("What needs an approval is not completed.")
	case c.snap.approver == nil:
		return refusal.Unapproved("This call needs an approval, and there is nobody who could give it.")
	}
	a := consent{from: c.snap.approver, question: c.question()}
	found, err := c.approval(&a)
	switch {
	case err != nil:
		return approvalUnavailable(err)
	case c.answer != nil:
		return nil
	case found.State != gate.ApprovalGranted:
		return refusal.NotApproved(found)
	}
	a.id = found.ID
	c.consent, c.approved = a, approvalsOf(c.demands)
	return nil
}

// approval finds out what people say of a call, and asks them.
func (c *call) approval(a *consent) (found gate.Approval, err error) {
	if found, err = c.findApproval(a); err != nil || found.State != gate.ApprovalPending {
		return found, err
	}
	switch {
	case !found.May(gate.ByRequester) || !c.x.declares(mcp.MethodElicit, nil):
		return a.from.Await(c.ctx, found.ID)
	case c.x.Era == mcp.Modern:
		return found, c.askByInputRequest(a, found)
	default:
		return c.askApproval(a, found)
	}
}

// question is what people are asked about the call.
func (c *call) question() gate.Question {
	args := mcp.Lookup(c.request.Params, "arguments")
	if c.request.Method == mcp.MethodRead {
		args = mcp.Quote(c.route.Exposed)
	}
	return c.route.asked(c.x.Identity, args, c.demands)
}

// notifyListed is the question about a call of somebody.
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

// findApproval returns the grant or the question that there is for a call, after the
// answer that its retry brings.
func (c *call) findApproval(a *consent) (gate.Approval, error) {
	if c.retry != nil {
		if err := c.useRound(); err != nil {
			return gate.Approval{}, err
		}
		id, _ := mcp.Unquote(c.retry.state.inner)
		if grant, said := a.parseAnswer(mcp.Lookup(c.retry.responses, approvalInput)); said {
			return a.from.Answer(c.ctx, &a.question, id, grant)
		}
	}
	return a.from.Ask(c.ctx, &a.question)
}

// askApproval puts the question to a legacy client by a request on the stream of the
// call. One that is left unanswered stays open.
func (c *call) askApproval(a *consent, found gate.Approval) (gate.Approval, error) {
	asking, cancel := context.WithTimeout(c.ctx, c.g.opts.Limits.RoundTime)
	defer cancel()
	msg, err := c.x.Session.question(asking, c.x.Identity, c.x.responder, mcp.MethodElicit, revision.Message(c.x.Version, mcp.MethodElicit, a.questionForm()))
	switch {
	case c.ctx.Err() != nil:
		return found, context.Cause(c.ctx)
	case err != nil || msg.Fault() != nil:
		return found, nil
	}
	grant, said := a.parseAnswer(msg.Result())
	if !said {
		return found, nil
	}
	return a.from.Answer(c.ctx, &a.question, found.ID, grant)
}

// partial reads the answer to the question. Neither is one that is no decision, nor one
// that approves of arguments that were not all shown without saying so.
func (a *consent) parseAnswer(answer []byte) (grant, said bool) {
	switch action, _ := mcp.LookupString(answer, "action"); action {
	case "decline":
		return false, true
	case "accept":
		return true, gate.Excerpted(a.question.Args, maxShownArguments).Missing == 0 || string(mcp.Lookup(answer, "content", approvalUnseen)) == "true"
	}
	return false, false
}

// approvalInput is the key of the gateway's own question in an input request.
const approvalInput = "approval"

// askByInputRequest answers a modern client with the question.
func (c *call) askByInputRequest(a *consent, found gate.Approval) error {
	result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + approvalInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
	result = append(append(result, a.questionForm()...), "}},\"requestState\":"...)
	result = append(append(result, mcp.Quote(found.ID)...), '}')
	sealed, err := c.g.rounds.seal(c, result, resumeApproval)
	if err != nil {
		return err
	}
	c.rec.step("approval", verdictAsk, "", "")
	c.answer = &response{result: c.g.modernResult(sealed, true, false)}
	return nil
}

// maxShownArguments is how much room a question has for the arguments, in bytes.
const maxShownArguments = 2000

// approvalUnseen is the field of the question's form by which somebody approves of
// what is not shown.
const approvalUnseen = "approve_unseen"

// questionForm is the question about a call, in words for the one who makes it.
func (a *consent) questionForm() []byte {
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
	args, fields := gate.Excerpted(q.Args, maxShownArguments), `{}`
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

// useGrant uses the grant for a call up. Of two equal calls that wait for one grant,
// one gets it.
func (a *consent) useGrant(ctx context.Context) error {
	if a.from == nil {
		return nil
	}
	switch ok, err := a.from.Use(ctx, &a.question); {
	case err != nil:
		return approvalUnavailable(err)
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

// covers tells whether those who approved of a call are all that are to be asked
// about it now.
func (a approvals) covers(demands []gate.Demand) bool {
	return !slices.ContainsFunc(demands, func(d gate.Demand) bool {
		return !slices.ContainsFunc(a, func(by []string) bool { return (by == nil) == (d.By == nil) && slices.Equal(by, d.By) })
	})
}

// decideAgain decides once more on a call whose decision is too old to act on,
// because it waited for a person or for a place.
func (c *call) decideAgain() error {
	if time.Since(c.decided) <= maxDecisionAge {
		return nil
	}
	return c.reconsider()
}

// reconsider decides once more on a call, however old its decision is. What
// people approved of has to be all that is demanded of it.
func (c *call) reconsider() error {
	if err := c.decide(); err != nil {
		return err
	}
	if c.plan.omitted["arguments"] != "" {
		return nil
	}
	if err := c.plan.checkArguments(c); err != nil {
		return err
	}
	return c.approved.checkDemands(c.demands)
}

// checkDemands returns the refusal of a call that is made to need another approval than
// it has.
func (a approvals) checkDemands(demands []gate.Demand) error {
	if a.covers(demands) {
		return nil
	}
	return refusal.Unapproved("While this call waited it was made to need another approval; make it again.")
}

// reconsiderFinal is reconsider for a call that has left its request: by what its
// server was sent, for whoever its client is now. It is safe to use beside the
// request.
func (g *Gateway) reconsiderFinal(ctx context.Context, x *Exchange, r *Route, by approvals, request *mcp.Call) error {
	demands, err := g.permit(ctx, x, r, backendArguments(request), nil, hiddenUnlessUndecided(func() error { return unknown(x, r.Kind, r.Exposed) }))
	if err != nil {
		return err
	}
	more, err := g.checkCallArguments(ctx, x, r, request)
	if err != nil {
		return err
	}
	return by.checkDemands(slices.Concat(demands, more))
}

// hiddenUnlessUndecided is the answer to a caller who knows of something already, because a call or
// a task of it is under way, when it may not be viewed any more. That this cannot be
// decided is no news of whether it exists, and may pass.
func hiddenUnlessUndecided(hidden func() error) func(gate.Decision) error {
	return func(d gate.Decision) error {
		if d.Err != nil {
			return refusal.Undecided(d)
		}
		return hidden()
	}
}

// approvalUnavailable is why a question cannot be asked or an answer not be taken.
func approvalUnavailable(err error) error {
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
