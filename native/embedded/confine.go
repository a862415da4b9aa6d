package embedded

import (
	"github.com/toolgate/toolgate/internal/sandbox"
)

// confine confines this process with all its threads and returns the layers in force.
func confine(policy *sandbox.Policy) (layers []string, err error) {
	if policy.Mode == sandbox.Off {
		return nil, nil
	}
	l, err := sandbox.Confine(*policy)
	if err != nil {
		return nil, err
	}
	for _, layer := range l.InForce {
		layers = append(layers, string(layer))
	}
	return layers, nil
}
