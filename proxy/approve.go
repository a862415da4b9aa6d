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

// This file brings a call that needs an approval to the people who can give it (ADR
// 0017). The requester is asked in the way of the client's own revision. Others
// are asked by the Approver.

// consent is the state of the approval that a call needs. It is zero for a call that
// needs none.
type consent struct {
	from     Approver
	question gate.Question
	id       string
}

// approve makes sure that a call has the approval that it needs. Clients that answer
// input requests get the question as their response. The error is the refusal while
// nobody has approved.
func (c *call) approve() error {
	again := c.retry
	switch {
	case again != nil && again.state.approved != nil:
		if c.approved = again.state.approved; !c.approved.covers(c.demands) {
			return refusal.Unapproved("The approval that this call needs has changed since it began; start a new call.")
		}
		return nil
	case len(c.demands) == 0:
		return nil
	case again != nil && again.state.resume != resumeApproval:
		return refusal.Unapproved("This call has come to need an approval since it began; start a new call.")
	case c.request.Method == mcp.MethodComplete:
		return refusal.Unapproved("No completions are given for a call that needs an approval.")
	case c.snap.approver == nil:
		return refusal.Unapproved("This call needs an approval, but nobody is configured who could give it.")
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

// approval finds the decision on a call, or asks for one.
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

// asked returns the question about a call of id.
func (r *Route) asked(id *gate.Identity, args []byte, demands []gate.Demand) gate.Question {
	hash := mcp.Hash(args)
	capability := r.CapabilityID
	if capability == "" { // such as a resource of a template
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", r.Kind, r.Server, r.Original))
		capability = "unlisted_" + hex.EncodeToString(sum[:])
	}
	if from := r.to.mount.MadeFrom[r.Original]; from != "" {
		sum := sha256.Sum256([]byte(from))
		capability += "_" + hex.EncodeToString(sum[:])
	}
	return gate.Question{
		Identity: id, CapabilityID: capability, Server: r.Server, Name: r.Exposed,
		Args: args, ArgsHash: hex.EncodeToString(hash[:]), Demands: demands,
	}
}

// findApproval returns the grant or the open question of a call. It first takes the
// answer that a retry brings.
func (c *call) findApproval(a *consent) (gate.Approval, error) {
	if c.retry != nil {
		if err := c.useRound(); err != nil {
			return gate.Approval{}, err
		}
		id, _ := mcp.Unquote(c.retry.state.inner)
		if grant, said := a.parseAnswer(mcp.Lookup(c.retry.responses, ApprovalInput)); said {
			return a.from.Answer(c.ctx, &a.question, id, grant)
		}
	}
	return a.from.Ask(c.ctx, &a.question)
}

// askApproval puts the question to a legacy client, by a request on the stream of the
// call. A question without an answer stays open.
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

// parseAnswer reads the requester's decision. said is false where the answer is no
// decision, or where it approves of arguments that were not shown completely without
// confirming that.
func (a *consent) parseAnswer(answer []byte) (grant, said bool) {
	switch action, _ := mcp.LookupString(answer, "action"); action {
	case "decline":
		return false, true
	case "accept":
		return true, gate.Excerpted(a.question.Args, maxShownArguments).Missing == 0 || string(mcp.Lookup(answer, "content", approvalUnseen)) == "true"
	}
	return false, false
}

// ApprovalInput is the key of the approval question among the input requests.
const ApprovalInput = "approval"

// askByInputRequest answers a modern client with an input request that holds the
// question.
func (c *call) askByInputRequest(a *consent, found gate.Approval) error {
	result := []byte(`{"resultType":"` + mcp.ResultInputRequired + `","inputRequests":{"` + ApprovalInput + `":{"method":"` + mcp.MethodElicit + `","params":`)
	result = append(append(result, a.questionForm()...), "}},\"requestState\":"...)
	result = append(append(result, mcp.Quote(found.ID)...), '}')
	sealed, err := c.g.rounds.seal(c, result, resumeApproval)
	if err != nil {
		return err
	}
	c.rec.step("approval", verdictAsk, "", "")
	respond(c, response{result: c.g.modernResult(sealed, true, false)})
	return nil
}

// maxShownArguments is how many bytes of the arguments a question shows.
const maxShownArguments = 2000

// approvalUnseen is the form field that confirms arguments which are not shown.
const approvalUnseen = "approve_unseen"

// questionForm is the elicitation form of the question, in words for the requester.
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

// useGrant uses up the grant for a call. When two equal calls wait for one grant, only
// one of them gets it.
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

// approvals name those who approved of a call, in the order of its demands and as
// [gate.Demand] names them. They are nil where nobody did. They travel with the call
// from one round to the next.
type approvals [][]string

func approvalsOf(demands []gate.Demand) approvals {
	by := make(approvals, len(demands))
	for i := range demands {
		by[i] = demands[i].By
	}
	return by
}

// encode adds the approvals as a member to the open object of a sealed state.
func (a approvals) encode(object []byte) []byte {
	if a == nil {
		return object
	}
	by, _ := json.Marshal(a) // never fails on strings
	return append(append(object, `,"approved":`...), by...)
}

// decodeApprovals returns the approvals in a sealed state.
func decodeApprovals(object []byte) (a approvals) {
	if by := mcp.Lookup(object, "approved"); by == nil || json.Unmarshal(by, &a) != nil {
		return nil
	}
	return a
}

// covers reports whether those who approved satisfy all of demands.
func (a approvals) covers(demands []gate.Demand) bool {
	return !slices.ContainsFunc(demands, func(d gate.Demand) bool {
		return !slices.ContainsFunc(a, func(by []string) bool { return (by == nil) == (d.By == nil) && slices.Equal(by, d.By) })
	})
}

// decideIfOld decides again on a call that has waited, when its decision is too old to
// act on. Who is not there may have lost their credential at any time.
func (c *call) decideIfOld() error {
	if c.x.Present == nil && time.Since(c.decided) <= maxDecisionAge {
		return nil
	}
	return c.decideAgain()
}

// decideAgain decides again on a call, however old its decision is. The approvals of the
// call must cover what is demanded now.
func (c *call) decideAgain() error {
	if c.x.Present != nil {
		id, ok := c.x.Present()
		if !ok {
			return revoked()
		}
		x := *c.x
		x.Identity, c.x = id, &x
	}
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

// checkDemands refuses a call when a configuration change demands an approval that the
// call does not have.
func (a approvals) checkDemands(demands []gate.Demand) error {
	if a.covers(demands) {
		return nil
	}
	return refusal.Unapproved("While this call waited, the approval that it needs changed; make the call again.")
}

// decideAgainFor is decideAgain for a call that has outlived its request. It uses the
// arguments that the server was sent and the client's latest identity. It is safe for
// use beside the request.
func (g *Gateway) decideAgainFor(ctx context.Context, x *Exchange, r *Route, by approvals, request *mcp.Call) error {
	demands, err := g.permit(ctx, x, r, backendArguments(request), nil, hiddenUnlessUndecided(func() error { return unknown(x, r.Kind, r.Exposed) }))
	if err != nil {
		return err
	}
	more, err := g.checkCallArguments(ctx, new(gate.Request), x, r, request)
	if err != nil {
		return err
	}
	return by.checkDemands(slices.Concat(demands, more))
}

// stillAllowed implements [mcp.Call.StillAllowed]: it decides again, and it refuses a
// caller whose credential was revoked.
func (d *serverRequests) stillAllowed(ctx context.Context) error {
	err := d.decideAgain(ctx)
	if err = decidedAgain(d.g, d.client(), err); err != nil {
		d.refused.Store(true)
	}
	return err
}

// decidedAgain returns why a call of a caller is refused that was decided on again: with this
// error, or because its credential was revoked.
func decidedAgain(g *Gateway, x *Exchange, err error) error {
	if k, ok := g.opts.Authenticator.(Knowing); ok && !k.Knows(x.Identity) {
		return revoked()
	}
	return err
}

// revoked is the refusal of a caller whose credential was revoked while its call waited.
func revoked() *mcp.Error {
	return mcp.Errorf(mcp.CodeInvalidRequest, "The credential of this call is no longer accepted")
}

// hiddenUnlessUndecided hides something from a caller who knows of it already, because
// a call or a task of it is under way. A gate that cannot decide is reported as such:
// it tells no news about existence and may pass.
func hiddenUnlessUndecided(hidden func() error) func(gate.Decision) error {
	return func(d gate.Decision) error {
		if d.Err != nil {
			return refusal.Undecided(d)
		}
		return hidden()
	}
}

// approvalUnavailable is the refusal when a question cannot be asked or its answer not
// be taken.
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
