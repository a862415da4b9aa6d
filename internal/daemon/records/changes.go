package records

import (
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
)

// Change is something that somebody did to the gateway.
type Change struct {
	What         string // as in "breaker.reset"
	Name, Server string // what it was done to
	Reason       string
	Identity     *gate.Identity // of who did it; nil for somebody who is known by the actor alone
}

// Changed writes into the audit log what somebody has done, or has tried to, and
// returns err.
func (r *Records) Changed(actor string, c *Change, err error) error {
	kind, _, _ := strings.Cut(c.What, ".")
	e := audit.Entry{
		Event: audit.EventChange, Time: time.Now(), Principal: audit.Principal{Subject: actor}, Method: "toolgate/" + c.What, Kind: kind,
		Name: c.Name, Server: c.Server, Outcome: audit.OutcomeOK, Reason: c.Reason,
	}
	if c.Identity != nil {
		e.Principal = audit.Principal{
			Issuer: c.Identity.Issuer, Tenant: c.Identity.Tenant, Subject: c.Identity.Subject, Persona: c.Identity.Persona, Groups: c.Identity.Groups, Plan: c.Identity.Plan,
		}
	}
	if err != nil {
		e.Outcome = audit.OutcomeError
		e.Reason = strings.TrimPrefix(c.Reason+": "+err.Error(), ": ")
	}
	e.Name, e.Reason = r.hidden.Shown(e.Name), r.hidden.Shown(e.Reason) // people write what they like
	if failed := r.audit.Append(&e); failed != nil {
		r.log.Error("audit entry not written", "change", c.What, "name", c.Name, "actor", actor, "err", failed)
	}
	return err
}
