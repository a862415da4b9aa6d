package gate_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

// A phase allows, denies or abstains. What no phase allows is denied, and so is what a
// phase cannot decide about.
func ExampleChain() {
	readers := gate.Part{
		Name: "readers",
		Check: func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			switch r.Exposed {
			case "files__read":
				return gate.Decision{Effect: gate.Allow}, nil
			case "files__delete":
				return gate.Decision{Effect: gate.Deny, Reason: "nobody deletes files"}, nil
			case "files__stat":
				return gate.Decision{}, errors.New("the list of readers is gone")
			}
			return gate.Decision{Effect: gate.Abstain}, nil
		},
	}
	chain := gate.NewChain(readers)
	caller := gate.NewIdentity(gate.Identity{Principal: gate.Local})
	for _, name := range []string{"files__read", "files__delete", "files__stat", "files__write"} {
		d := chain.Decide(context.Background(), &gate.Request{
			Action: gate.Call, Kind: mcp.Tool, Server: "files", Exposed: name, Args: []byte(`{}`), Identity: caller,
		})
		fmt.Printf("%s: allowed %t, reason %q\n", name, d.Effect == gate.Allow, d.Reason)
	}
	// Output:
	// files__read: allowed true, reason ""
	// files__delete: allowed false, reason "nobody deletes files"
	// files__stat: allowed false, reason "policy_error"
	// files__write: allowed false, reason "no rule allows it"
}
