package daemon

import (
	"context"
	"errors"
	"log/slog"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/descent"
	"github.com/toolgate/toolgate/internal/store"
)

// approvals are the questions to people about calls, and their answers.
type approvals struct {
	service *approval.Service
	webhook *approval.Webhook
	records *records.Records
}

func newApprovals(s *store.Store, r *records.Records, log *slog.Logger) approvals {
	return approvals{service: approval.New(s.Approvals(), log), webhook: approval.NewWebhook(log), records: r}
}

// use has questions asked as a configuration says. Without authentication whoever makes a
// call may answer, because there is nobody else.
func (a *approvals) use(c *config.Config, authenticated bool) {
	o := approval.Options{Settings: c.Toolgate.Approvals}
	if o.By == nil {
		o.By = []string{gate.ByOperator}
		if !authenticated {
			o.By = []string{gate.ByRequester, gate.ByOperator}
		}
	}
	if o.Posts() {
		o.Asked = func(item approval.Item) { a.webhook.Post(o.Webhook, item) }
	}
	a.service.Set(o)
}

// answer gives somebody's answer, and writes it into the audit log.
func (a *approvals) answer(ctx context.Context, id string, said admin.Answer, who approval.Answerer) (item approval.Item, err error) {
	if said.Do == admin.Retract {
		item, err = a.service.Retract(ctx, id, who)
	} else {
		item, err = a.service.Decide(ctx, id, said.Do == admin.Approve, who, said.Reason)
	}
	return a.answered(who.Name, who.Identity, item, id, said.Do, said.Reason, err)
}

// answered writes into the audit log how a question about a call was answered.
func (a *approvals) answered(who string, id *gate.Identity, item approval.Item, question, do, reason string, err error) (approval.Item, error) {
	what := "approvals." + do
	if do == admin.Approve {
		what = "approvals.grant"
	}
	name := question
	if item.Tool != "" {
		name = item.Tool + " " + question
	}
	return item, a.records.Changed(who, &records.Change{What: what, Name: name, Reason: reason, Identity: id}, err)
}

// webhookIssuer is who vouches, in the audit log, for those whose answers come by
// the webhook.
const webhookIssuer = "webhook"

// decideByWebhook takes the answer that the receiver of the webhook has signed. One
// of a process that this gateway has started is none.
func (a *approvals) decideByWebhook(ctx context.Context, id string, grant bool, who approval.Answerer, reason string) (approval.Item, error) {
	if descent.OfRequest(ctx) {
		return approval.Item{}, approval.ErrNotFromHere
	}
	item, err := a.service.Decide(ctx, id, grant, who, reason)
	said := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: webhookIssuer, Tenant: who.Tenant, Subject: who.Subject}, Groups: who.Groups})
	do := admin.Deny
	if grant {
		do = admin.Approve
	}
	return a.answered(who.Name, said, item, id, do, reason, err)
}

// maxListed is how many approvals a list shows.
const maxListed = 200

// Approvals implements [admin.Approvals].
func (ctl *Control) Approvals(ctx context.Context, state string) ([]approval.Item, error) {
	return ctl.d.approvals.service.List(ctx, state, maxListed)
}

// Approval implements [admin.Approvals].
func (ctl *Control) Approval(ctx context.Context, id string) (approval.Item, error) {
	return ctl.d.approvals.service.Get(ctx, id)
}

// Answer implements [admin.Approvals]. An operator who has an API key answers as its
// owner as well. Somebody with the admin role answers as an operator and as whoever it
// is, so that it never counts for a call of their own.
func (ctl *Control) Answer(ctx context.Context, id string, said admin.Answer) (approval.Item, error) {
	who := approval.Answerer{Name: gate.ByOperator, Operator: true, Hash: said.Hash}
	switch {
	case ctl.by.id != nil:
		who.Name, who.Identity = ctl.by.name(), ctl.by.id
	case said.Key != "" && ctl.d.identities.Authenticated():
		owner, err := ctl.d.identities.Identity(ctx, said.Key)
		if err != nil {
			return approval.Item{}, errors.Join(approval.ErrNotYours, err)
		}
		who.Identity, who.Name = owner, approval.Name(owner)
	}
	return ctl.d.approvals.answer(ctx, id, said, who)
}
