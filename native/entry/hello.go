// Package entry serves a shipped plugin in a process of its own, which the program
// of the gateway becomes before the rest of it is initialised.
package entry

import "github.com/toolgate/toolgate/internal/sandbox"

// Hello is the line that the host writes to such a process first.
type Hello struct {
	Policy sandbox.Policy `json:"policy"`
}
