package console

import (
	"context"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
)

// Model is all that the console asks of a gateway: the questions of the admin API.
type Model interface {
	Status() admin.Status
	admin.Watched
	admin.BreakerKeeper
	admin.ModeKeeper
	admin.Cataloger
	admin.Explainer
	admin.PolicyReplayer
	admin.Approvals
	admin.Budgets
	admin.UsageReader
	admin.AuditReader
	admin.CallReader
	admin.Tries
	admin.Replicas
	runReader
	admin.Jobs
	admin.SearchReader
}

// runReader reads runs of agents, as [admin.Runs] does. The console cancels none.
type runReader interface {
	Runs(ctx context.Context, q admin.RunQuery) ([]admin.Run, error)
	Run(ctx context.Context, id, principal string) (admin.RunDetails, error)
}

// Role is what somebody may see and do. A higher role may do all that a lower one may.
type Role int

// The roles.
const (
	Nobody    Role = iota // has not signed in
	ViewerOwn             // sees own calls and own questions
	Viewer                // sees the state of the gateway as well
	Auditor               // sees all calls and all questions, but not what they carry
	Admin                 // sees everything, and decides
)

// String is the name of the role in documents and messages.
func (r Role) String() string {
	return [...]string{"nobody", "viewer-own", "viewer", "auditor", "admin"}[r]
}

// person is who looks at a page.
type person struct {
	id   *gate.Identity // nil for an operator of this machine
	role Role
}

// Name is the person for people.
func (p person) Name() string {
	if p.id == nil {
		return admin.Operator()
	}
	return p.id.Subject
}

// Role is the name of the person's role.
func (p person) Role() string { return p.role.String() }

// Admin tells whether the person may decide.
func (p person) Admin() bool { return p.role == Admin }

// is tells whether a principal is the person.
func (p person) is(issuer, tenant, subject string) bool {
	return p.id != nil && p.id.Issuer == issuer && p.id.Tenant == tenant && p.id.Subject == subject
}

// Identities tell who somebody is, and what they may see.
type Identities interface {
	// Authenticated tells whether callers say who they are.
	Authenticated() bool
	// SignIn returns whose an API key or token is. until is when that ends; zero is never.
	SignIn(r *http.Request, key string) (id *gate.Identity, until time.Time, err error)
	// Now returns somebody who has signed in with the rights of this moment; nil if they
	// are not let in any more.
	Now(id *gate.Identity) *gate.Identity
	// Settings returns what stands for the settings in force. It is comparable, and another one
	// after a change.
	Settings() any
	// Role returns the role of somebody.
	Role(id *gate.Identity) Role
}
