package inside

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/plugins/notify"
	"github.com/toolgate/toolgate/native/toolapi"
)

// notices makes the group notify.
func notices(p *Parts) *toolapi.Plugin {
	return notify.Plugin(&notifier{p, approval.NewPoster()})
}

// notifier tells users something: by the client of the call itself, and by the operator's
// webhook.
type notifier struct {
	parts  *Parts
	poster *approval.Poster
}

var _ notify.Sender = (*notifier)(nil)

// Show implements [notify.Sender]: it is a question without fields, which the user can only
// acknowledge. It goes to the client of the call, because a call can ask nobody else.
func (n *notifier) Show(ctx context.Context, text string) (action string, ok bool) {
	call := inside.CallOf(ctx)
	if call == nil || call.Ask == nil || !call.Askable {
		return "", false
	}
	params := append(mcp.AppendQuote([]byte(`{"mode":"form","message":`), text), `,"requestedSchema":{"type":"object","properties":{}}}`...)
	result, fault := call.AskAndWait(ctx, mcp.MethodElicit, params)
	if fault != nil {
		return "", false
	}
	switch action, _ = mcp.LookupString(result, "action"); action {
	case "accept", "decline", "cancel":
		return action, true
	}
	return "", false
}

// posted is what the receiver gets. Level to At are set in every message.
type posted struct {
	Kind    string    `json:"kind"` // "notification", which no question about an approval has
	Level   string    `json:"level"`
	Title   string    `json:"title,omitempty"`
	Message string    `json:"message"`
	Issuer  string    `json:"issuer,omitempty"` // of the caller, whose user is meant
	Tenant  string    `json:"tenant,omitempty"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
}

// Post implements [notify.Sender].
func (n *notifier) Post(ctx context.Context, notice notify.Notice) error {
	to := n.parts.Notify()
	if to.URL == "" {
		return notify.ErrNowhere
	}
	id, _ := gate.CallerOf(ctx)
	if id == nil {
		return errNoCaller
	}
	out := posted{
		Kind: "notification", Level: notice.Level, Issuer: id.Issuer, Tenant: id.Tenant, Subject: id.Subject, At: time.Now().UTC().Truncate(time.Second),
	}
	var err error
	if out.Title, err = n.parts.redact(notice.Title); err == nil {
		out.Message, err = n.parts.redact(notice.Message)
	}
	if err != nil {
		return fmt.Errorf("post a message without its secrets: %w", err)
	}
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return n.poster.Post(ctx, approval.Receiver{URL: to.URL, Secret: to.Secret}, body)
}
