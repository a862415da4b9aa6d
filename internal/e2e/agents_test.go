//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

// functionScript is a model that calls functions of the client in three turns, two of them at
// once, and then answers.
const functionScript = `{"turns":[{"calls":[{"tool":"pick","args":{"of":1}},{"tool":"pick","args":{"of":2}}]},` +
	`{"calls":[{"tool":"pick","args":{"of":3}}]},{"calls":[{"tool":"pick","args":{"of":4}}]},{"text":"picked all"}]}`

// TestAgentFunctions has an agent ask every client that can be asked to run functions: in both
// eras, over every transport, in three rounds.
func TestAgentFunctions(t *testing.T) {
	script, err := modeltest.Parse([]byte(functionScript))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&modeltest.Server{Script: *script, Key: "model-key"})
	t.Cleanup(server.Close)
	settings := object{"agents": object{"picker": object{"endpoint": server.URL + "/v1", "model": "m", "api_key": "model-key"}}}
	g := startGateway(t, object{}, settings, "agent__picker")
	args := object{"task": "pick", "tools": []object{{"name": "pick"}}}
	asked := clientSides()
	t.Run("cells", func(t *testing.T) {
		forEachCell(t, func(t *testing.T, c mcpClient, to target) {
			if !slices.Contains(asked, side{c.name, to.Era}) || c.name == "mcp-go" && to.Transport == "sse" {
				return // it cannot be asked, or not over this transport
			}
			switch to.Transport {
			case "stdio":
				from := newSetup(t, object{}, settings).stdio(t)
				to.Command, to.Args, to.Env = from.Command, from.Args, from.Env
			case "sse":
				to.URL = g.sse
			default:
				to.URL = g.mcp
			}
			to.Secret, to.AtOnce = newLabel("secret"), 1
			to.Links = []link{{URL: to.URL, Lanes: [][]call{{{ID: "1", Method: "tools/call", Name: "agent__picker", Args: args}}}}}
			r := c.run(t.Context(), to)
			if r.Error != "" || r.Answers["1"].Text != "picked all" {
				t.Errorf("%s: %+v", r.Error, r.Answers["1"])
			}
			for n := range 4 {
				want := fmt.Sprintf(`{"of":%d}`, n+1)
				if !slices.ContainsFunc(r.Asked, func(a string) bool { return strings.Contains(strings.ReplaceAll(a, " ", ""), want) }) {
					t.Errorf("not asked about %s: %q", want, r.Asked)
				}
			}
			if len(r.Asked) != 4 {
				t.Errorf("asked %d times", len(r.Asked))
			}
		})
	})
}
