package upstream

import (
	"context"

	"github.com/toolgate/toolgate/internal/mcp"
)

// SignInTool is the name of the tool that a server lists while nothing is known of it
// because somebody has to sign in first.
const SignInTool = "toolgate_sign_in"

// SignInDefinition is the definition of that tool.
func SignInDefinition() []byte { return signInListing.Items[mcp.Tool][0].Raw }

// signInListing is the listing with that tool alone. It is stale, so that it is neither
// saved nor taken for the list of the server.
var signInListing = newSignInListing()

func newSignInListing() *mcp.Listing {
	const raw = `{"name":"` + SignInTool + `","description":"Sign in to this server, whose tools are listed once that is done. Answers with an address to open in a browser.","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true,"openWorldHint":true}}`
	return &mcp.Listing{
		Era: mcp.Legacy, Version: mcp.LatestLegacy, Capabilities: []byte(`{"tools":{"listChanged":true}}`), Stale: true,
		Items: map[mcp.Kind][]mcp.Item{mcp.Tool: {{Key: SignInTool, Raw: []byte(raw)}}},
	}
}

// signIn answers a call of that tool, once it is known whether there is a connection. own
// is false if the server has a tool of that name itself.
func (s *Server) signIn(ctx context.Context, call *mcp.Call) (_ mcp.Answer, own bool, _ error) {
	if l, _ := s.Listing(); l != signInListing && l.Find(mcp.Tool, SignInTool) != nil {
		return mcp.Answer{}, false, nil
	}
	conn, _, err := s.conn(ctx, call, new(poolWait))
	if err != nil {
		return mcp.Answer{}, true, s.failure(ctx, err)
	}
	conn.finish()
	return mcp.Answer{Era: mcp.Legacy, Result: []byte(`{"content":[{"type":"text","text":"Nobody has to sign in; list the tools again."}]}`)}, true, nil
}
