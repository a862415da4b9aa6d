// Package embedded serves a shipped plugin in a process of its own. The program of the
// gateway becomes that process before the rest of it is initialised (docs/adr/0028).
package embedded

import "github.com/toolgate/toolgate/internal/sandbox"

// Hello is the line that the host writes to such a process first.
type Hello struct {
	Policy sandbox.Policy `json:"policy"`
}
