package build

import (
	"time"

	"github.com/toolgate/toolgate/proxy/redact"
)

// LooksSecret tells whether a text has the shape of a known kind of token.
func LooksSecret(value string) bool {
	r, err := redact.New(redact.Options{Tokens: true})
	if err != nil {
		return false
	}
	_, n, err := r.Text(value, time.Now().Add(time.Second))
	return err != nil || n > 0
}
