package daemon

import (
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/audit"
)

// change is something that somebody did to the gateway.
type change struct {
	what         string // as in "breaker.reset"
	name, server string // what it was done to
	reason       string
	id           *gate.Identity // of who did it; nil for somebody who is known by the actor alone
}

// changed writes into the audit log what somebody has done, or has tried to, and
// returns err.
func (in *Records) changed(actor string, c *change, err error) error {
	kind, _, _ := strings.Cut(c.what, ".")
	e := audit.Entry{
		Event: audit.EventChange, Time: time.Now(), Principal: audit.Principal{Subject: actor}, Method: "toolgate/" + c.what, Kind: kind,
		Name: c.name, Server: c.server, Outcome: audit.OutcomeOK, Reason: c.reason,
	}
	if c.id != nil {
		e.Principal = audit.Principal{
			Issuer: c.id.Issuer, Tenant: c.id.Tenant, Subject: c.id.Subject, Persona: c.id.Persona, Groups: c.id.Groups, Plan: c.id.Plan,
		}
	}
	if err != nil {
		e.Outcome = audit.OutcomeError
		e.Reason = strings.TrimPrefix(c.reason+": "+err.Error(), ": ")
	}
	e.Name, e.Reason = in.hidden.Shown(e.Name), in.hidden.Shown(e.Reason) // people write what they like
	if lost := in.audit.Append(&e); lost != nil {
		in.Log.Error("audit entry not kept", "change", c.what, "name", c.name, "actor", actor, "err", lost)
	}
	return err
}
