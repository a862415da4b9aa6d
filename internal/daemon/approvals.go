package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/signin"
)

// approvalSettings is what a configuration says of approvals. Without
// authentication whoever makes a call may answer, because there is nobody else.
func (in *Daemon) approvalSettings(c *config.Config, authenticated bool) approval.Settings {
	a := c.Toolgate.Approvals
	s := approval.Settings{By: a.By, Wait: a.Wait, Valid: a.Valid}
	if s.By == nil {
		s.By = []string{gate.ByOperator}
		if !authenticated {
			s.By = []string{gate.ByRequester, gate.ByOperator}
		}
	}
	if slices.Contains(a.Ask, "webhook") {
		to := approval.Target{URL: a.Webhook.URL, Secret: a.Webhook.Secret.Reveal()}
		s.Asked = func(item approval.Item) { in.webhook.Post(to, item) }
	}
	return s
}

// Doors are everything that the main listener serves. Where there is no webhook,
// its path is like any other.
func (in *Daemon) Doors() http.Handler {
	secret := func() string {
		a := in.Current().Toolgate.Approvals
		if !slices.Contains(a.Ask, "webhook") {
			return ""
		}
		return a.Webhook.Secret.Reveal()
	}
	gateway := in.Gateway.Handler()
	answers, signIn := in.Gateway.CountFailures(in.Approvals.Callback(secret, in.decideByWebhook)), in.Gateway.CountFailures(in.SignIn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, approval.CallbackPath) && secret() != "" {
			answers.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, signin.Path) {
			signIn.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}

// maxListed is how many approvals a list shows.
const maxListed = 200

// Approvals implements [admin.Approvals].
func (ctl *Control) Approvals(ctx context.Context, state string) ([]approval.Item, error) {
	return ctl.in.Approvals.List(ctx, state, maxListed)
}

// Approval implements [admin.Approvals].
func (ctl *Control) Approval(ctx context.Context, id string) (approval.Item, error) {
	return ctl.in.Approvals.Get(ctx, id)
}

// Answer implements [admin.Approvals]. An operator who has an API key answers as its
// owner as well. Somebody with the admin role answers as an operator and as whoever it
// is, so that it never counts for a call of their own.
func (ctl *Control) Answer(ctx context.Context, id string, said admin.Answer) (approval.Item, error) {
	who := approval.Answerer{Name: gate.ByOperator, Operator: true, Hash: said.Hash}
	switch {
	case ctl.by.id != nil:
		who.Name, who.Identity = ctl.by.name(), ctl.by.id
	case said.Key != "" && ctl.in.Identities.Authenticated():
		owner, err := ctl.in.Identities.Identity(ctx, said.Key)
		if err != nil {
			return approval.Item{}, errors.Join(approval.ErrNotYours, err)
		}
		who.Identity, who.Name = owner, approval.Name(owner)
	}
	return ctl.in.answerAs(ctx, id, said, who)
}

// answerAs is the answer of somebody, and its line in the audit log.
func (in *Daemon) answerAs(ctx context.Context, id string, said admin.Answer, who approval.Answerer) (item approval.Item, err error) {
	if said.Do == admin.Retract {
		item, err = in.Approvals.Retract(ctx, id, who)
	} else {
		item, err = in.Approvals.Decide(ctx, id, said.Do == admin.Approve, who, said.Reason)
	}
	return in.answered(who.Name, who.Identity, item, id, said.Do, said.Reason, err)
}

// webhookIssuer is who vouches, in the audit log, for those whose answers come by
// the webhook.
const webhookIssuer = "webhook"

// decideByWebhook takes the answer that the receiver of the webhook has signed. One
// of a process that this gateway has started is none.
func (in *Daemon) decideByWebhook(ctx context.Context, id string, grant bool, who approval.Answerer, reason string) (approval.Item, error) {
	if admin.FromDescendant(ctx) {
		return approval.Item{}, approval.ErrNotFromHere
	}
	item, err := in.Approvals.Decide(ctx, id, grant, who, reason)
	said := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: webhookIssuer, Tenant: who.Tenant, Subject: who.Subject}, Groups: who.Groups})
	do := admin.Deny
	if grant {
		do = admin.Approve
	}
	return in.answered(who.Name, said, item, id, do, reason, err)
}
