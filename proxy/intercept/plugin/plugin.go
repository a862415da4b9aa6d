// Package plugin asks an interceptor in a plugin.
package plugin

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/proxy/intercept"
)

// Asker asks a plugin of the configuration about a call.
type Asker interface {
	Intercept(ctx context.Context, plugin string, in *proto.InterceptRequest) (*proto.InterceptResponse, error)
}

// Plugin is an [intercept.Interceptor] in a plugin. It is safe for concurrent use.
type Plugin struct {
	Name string // of the interceptor
	Key  string // of the plugin
	By   Asker
}

// effects are the decisions of a plugin.
var effects = map[proto.Decision]intercept.Effect{
	proto.Decision_DECISION_DENY: intercept.Deny, proto.Decision_DECISION_ASK: intercept.Ask, proto.Decision_DECISION_ALLOW: intercept.Pass,
}

// Intercept implements [intercept.Interceptor].
func (p *Plugin) Intercept(ctx context.Context, inv *intercept.Invocation) (intercept.Verdict, error) {
	out, err := p.By.Intercept(ctx, p.Key, &proto.InterceptRequest{
		Interceptor: p.Name, Phase: string(inv.Phase), CallId: inv.ID, Method: inv.Method, Principal: inv.Principal, Tenant: inv.Tenant,
		Capsule: inv.Capsule, Server: inv.Server, Name: inv.Name, PayloadJson: inv.Payload,
	})
	if err != nil {
		return intercept.Verdict{}, err
	}
	effect, known := effects[out.GetDecision()]
	if !known {
		return intercept.Verdict{}, fmt.Errorf("the plugin decided %d, which is not known", out.GetDecision())
	}
	v := intercept.Verdict{Effect: effect, Reason: out.GetReason(), Note: out.GetNote()}
	if payload := out.GetPayloadJson(); len(payload) > 0 {
		v.Payload = payload
	}
	return v, nil
}
