//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// TestPrincipalsModern is TestPrincipals for 2026-07-28, which has no sessions:
// what one principal could take from another there is a cursor and the state of
// a call that waits for an answer.
func TestPrincipalsModern(t *testing.T) {
	s := newSetup(t, object{
		"fix": fixtureServer(t, "http", "modern", "-tools", "1100"),
		"ev":  object{"type": "http", "url": everythingServer(t, true)},
	}, withKeys(nil))
	g := s.up(t)
	g.waitTools(t, ownerKey, "fix__filler_1099", "ev__"+stateTool)

	for who, key := range intruders {
		t.Run(who, func(t *testing.T) {
			mine, thief := &raw{url: g.mcp, key: ownerKey}, &raw{url: g.mcp, key: key}
			t.Run("cursor", func(t *testing.T) {
				result, err := mine.modern(t.Context(), "tools/list", "", object{})
				if err != nil {
					t.Fatal(err)
				}
				var page struct {
					NextCursor string `json:"nextCursor"`
				}
				if err := json.Unmarshal(result, &page); err != nil || page.NextCursor == "" {
					t.Fatalf("the first page has no cursor to steal (%v)", err)
				}
				result, err = thief.modern(t.Context(), "tools/list", "", object{"cursor": page.NextCursor})
				wantInvalidParams(t, "a stolen cursor", result, err)
				if _, err := mine.modern(t.Context(), "tools/list", "", object{"cursor": page.NextCursor}); err != nil {
					t.Errorf("the owner's cursor: %v", err)
				}
			})
			t.Run("state", func(t *testing.T) { testStolenState(t, mine, thief) })
		})
	}
}

// stateTool asks one question and hands out a state with it.
const stateTool = "test_input_required_result_request_state"

// testStolenState answers somebody else's question. The answer of the owner
// counts afterwards, and counts once.
func testStolenState(t *testing.T, mine, thief *raw) {
	name := "ev__" + stateTool
	ask := func(c *raw, state string) (json.RawMessage, error) {
		params := object{"name": name, "arguments": object{}}
		if state != "" {
			params["requestState"] = state
			params["inputResponses"] = object{"confirm": object{"action": "accept", "content": object{"ok": true}}}
		}
		return c.modern(t.Context(), "tools/call", name, params)
	}
	result, err := ask(mine, "")
	if err != nil {
		t.Fatal(err)
	}
	var question struct {
		ResultType   string `json:"resultType"`
		RequestState string `json:"requestState"`
	}
	if err := json.Unmarshal(result, &question); err != nil || question.ResultType != "input_required" || question.RequestState == "" {
		t.Fatalf("the call returns %.300s (%v), want a question with a state", result, err)
	}
	if question.RequestState == "request_state" {
		t.Error("the server's own state is handed out as it is")
	}
	result, err = ask(thief, question.RequestState)
	wantInvalidParams(t, "a stolen state", result, err)
	result, err = ask(thief, "request_state")
	wantInvalidParams(t, "the server's own state", result, err)

	result, err = ask(mine, question.RequestState)
	if err != nil {
		t.Fatalf("the owner's answer: %v", err)
	}
	if text, err := toolText(result); err != nil || text == "" {
		t.Errorf("the owner's answer returns %.300s (%v)", result, err)
	}
	result, err = ask(mine, question.RequestState)
	wantInvalidParams(t, "a state that was used", result, err)
}

func wantInvalidParams(t *testing.T, what string, result json.RawMessage, err error) {
	t.Helper()
	var rpc *rpcError
	if !errors.As(err, &rpc) || rpc.Code != -32602 {
		t.Errorf("%s: %.200s, %v, want JSON-RPC error -32602", what, result, err)
	}
}

// modern makes one request of 2026-07-28. name is what Mcp-Name repeats, "" for
// methods that have none.
func (r *raw) modern(ctx context.Context, method, name string, params object) (json.RawMessage, error) {
	r.id++
	params = with(params, object{"_meta": object{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}},
		"io.modelcontextprotocol/clientInfo":         object{"name": "toolgate-e2e-raw", "version": "1"},
	}})
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": r.id, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("writing a %s request: %w", method, err)
	}
	header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		header["Mcp-Name"] = name
	}
	a, err := r.send(ctx, http.MethodPost, r.url, string(body), header)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return a.result(method, r.id)
}
