package agents

import (
	"context"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents"
)

// Sample answers a server's request for sampling by the model of an agent. It is charged as
// an inference of the agent for the caller of the server's call.
func (h *Host) Sample(ctx context.Context, id *gate.Identity, agent string, params []byte) ([]byte, *mcp.Error) {
	settings, ok := h.o.Agents()[agent]
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInternal, "The model cannot be asked at the moment.")
	}
	m, err := h.o.Model(agent, &settings)
	if err != nil {
		h.o.Log.Error("the endpoint of an agent cannot be used", "agent", agent, "err", err)
		return nil, mcp.Errorf(mcp.CodeInternal, "The model cannot be asked at the moment.")
	}
	var budget agents.Budget
	if h.o.Budget != nil {
		budget = h.o.Budget(id, agent)
	}
	return agents.Sample(ctx, &settings, m, budget, h.o.Log, params)
}
