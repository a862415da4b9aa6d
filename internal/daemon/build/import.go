package build

import (
	"github.com/toolgate/toolgate/config"
)

func Revealed(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, value := range secrets {
		out[name] = value.Reveal()
	}
	return out
}
