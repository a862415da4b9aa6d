package console

import (
	"errors"
	"net/http"
	"slices"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
)

// approvalsData are questions about calls.
type approvalsData struct {
	State string
	Items []approval.Item
	Down  string
}

// mine tells whether somebody may see a question: their own, or all.
func (v *visit) mine(i *approval.Item) bool {
	return v.person.role >= Auditor || v.person.is(i.Issuer, i.Tenant, i.Subject)
}

// veil takes away what a call carries, from those who may not see that.
func (v *visit) veil(i *approval.Item) {
	if v.person.role < Admin && !v.person.is(i.Issuer, i.Tenant, i.Subject) {
		i.Arguments = ""
	}
}

// approvals lists what waits.
func (v *visit) approvals() {
	d := &approvalsData{State: v.r.FormValue("state")}
	if !v.r.URL.Query().Has("state") {
		d.State = string(gate.ApprovalPending)
	}
	items, err := v.model.Approvals(v.r.Context(), d.State)
	if err != nil {
		d.Down = err.Error()
	}
	d.Items = slices.DeleteFunc(items, func(i approval.Item) bool { return !v.mine(&i) })
	for i := range d.Items {
		v.veil(&d.Items[i])
	}
	words := []string{"approvals", "ls"}
	if d.State != string(gate.ApprovalPending) {
		words = append(words, "--state="+d.State)
	}
	v.render(http.StatusOK, &page{Title: "Approvals", View: "approvals", Command: command(words...), Data: d})
}

// approval shows one question with its arguments.
func (v *visit) approval() {
	i, err := v.model.Approval(v.r.Context(), v.r.PathValue("id"))
	switch {
	case errors.Is(err, approval.ErrUnknown), err == nil && !v.mine(&i):
		v.missing()
		return
	case err != nil:
		v.fail(http.StatusServiceUnavailable, "This cannot be shown: "+err.Error())
		return
	}
	v.veil(&i)
	v.render(http.StatusOK, &page{Title: "Approval", View: "approval", Command: command("approvals", "show", i.ID), Data: &i})
}

// answer answers a question. The form names the hash of the arguments that it has shown.
func (v *visit) answer() {
	said := admin.Answer{Do: v.r.PostFormValue("do"), Reason: v.r.PostFormValue("reason"), Hash: v.r.PostFormValue("hash")}
	if !slices.Contains([]string{admin.Approve, admin.Deny, admin.Retract}, said.Do) {
		v.fail(http.StatusUnprocessableEntity, "A question is approved, denied, or its denial is taken back.")
		return
	}
	_, err := v.model.Answer(v.r.Context(), v.r.PathValue("id"), said)
	switch {
	case err == nil:
		http.Redirect(v.w, v.r, "/approvals", http.StatusSeeOther)
	case errors.Is(err, approval.ErrUnknown):
		v.missing()
	case errors.Is(err, approval.ErrNotYours):
		v.fail(http.StatusForbidden, err.Error())
	default:
		v.fail(http.StatusConflict, err.Error())
	}
}
