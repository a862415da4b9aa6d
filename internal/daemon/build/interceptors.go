package build

import (
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/server"
	"github.com/toolgate/toolgate/proxy/intercept/webhook"
)

// Interceptors returns the interceptors of some settings; nil for none. servers reaches
// those that servers host.
func Interceptors(settings []intercept.Settings, servers server.Caller) *intercept.Chain {
	entries := make([]intercept.Entry, 0, len(settings))
	for _, s := range settings {
		e := intercept.Entry{Settings: s}
		if s.Server != "" {
			e.By = server.New(s, servers)
		} else {
			e.By = webhook.New(s.Name, s.Webhook)
		}
		entries = append(entries, e)
	}
	return intercept.New(entries)
}
