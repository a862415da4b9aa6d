package build

import (
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/webhook"
)

// Interceptors returns the interceptors of some settings; nil for none.
func Interceptors(settings []intercept.Settings) *intercept.Chain {
	entries := make([]intercept.Entry, 0, len(settings))
	for _, s := range settings {
		entries = append(entries, intercept.Entry{Settings: s, By: webhook.New(s.Name, s.Webhook)})
	}
	return intercept.New(entries)
}
