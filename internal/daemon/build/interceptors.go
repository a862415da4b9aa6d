package build

import (
	"github.com/toolgate/toolgate/proxy/intercept"
	"github.com/toolgate/toolgate/proxy/intercept/plugin"
	"github.com/toolgate/toolgate/proxy/intercept/server"
	"github.com/toolgate/toolgate/proxy/intercept/webhook"
)

// Hosts reaches interceptors in servers and plugins of the configuration.
type Hosts interface {
	server.Caller
	plugin.Asker
}

// Interceptors returns the interceptors of some settings; nil for none.
func Interceptors(settings []intercept.Settings, hosts Hosts) *intercept.Chain {
	entries := make([]intercept.Entry, 0, len(settings))
	for _, s := range settings {
		e := intercept.Entry{Settings: s}
		switch {
		case s.Plugin != "":
			e.By = &plugin.Plugin{Name: s.Name, Key: s.Plugin, By: hosts}
		case s.Server != "":
			e.By = server.New(s, hosts)
		default:
			e.By = webhook.New(s.Name, s.Webhook)
		}
		entries = append(entries, e)
	}
	return intercept.New(entries)
}
