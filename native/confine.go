package native

import (
	"fmt"
	"os/exec"

	"github.com/toolgate/toolgate/internal/sandbox"
)

// confine refuses what must be confined: plugins of others run with a clean
// environment and no more.
func confine(_ *exec.Cmd, policy *sandbox.Policy) (layers []string, err error) {
	switch policy.Mode {
	case sandbox.Off, sandbox.Auto:
		return nil, nil
	default:
		return nil, fmt.Errorf("this machine cannot confine the plugin and sandbox is %q: %w", sandbox.Required, errPermanent)
	}
}
