package spicedb

import (
	"fmt"
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings say who is related to what: a SpiceDB, or the file itself; at most one of
// Endpoint and Builtin is set.
type Settings struct {
	// host:port of the SpiceDB server. Default: none; see builtin.
	Endpoint string `config:"endpoint" format:"target"`
	// Preshared key of the SpiceDB server. Default: none.
	Token secret.Text `config:"token"`
	// Encrypts the connection and verifies the server's certificate. Default: true.
	TLS *bool `config:"tls"`
	// PEM file with the certificate authorities for the server's certificate. Default: those of the system.
	CA string `config:"ca" format:"path"`

	Mapping

	// Asks the server fully consistently each time and caches no answer. Default: false; answers are cached until the
	// server reports a change.
	Strict bool `config:"strict"`
	// Globs of exposed names to which strict applies. Default: none.
	StrictFor []string `config:"strict_for"`
	// Timeouts for requests to the SpiceDB server. Default: the default of each setting.
	Timeouts Timeouts `config:"timeouts"`
	// How many single answers are cached. Default: 65536.
	Cache int `config:"cache" min:"1" max:"16777216"`
	// Time zone of the hour that caveats receive. Default: UTC.
	Zone string `config:"zone" format:"zone"`
	// Relationships in this file, for use without a SpiceDB server. Default: none.
	Builtin *Relations `config:"builtin"`
}

// Timeouts bound the questions to a SpiceDB.
type Timeouts struct {
	// Timeout for the decision about one request. Default: 150ms.
	Call time.Duration `config:"call" min:"1ms" max:"1m"`
	// Timeout for all decisions about one list. Default: 500ms.
	List time.Duration `config:"list" min:"1ms" max:"1m"`
}

// Relations are who may do what, without a SpiceDB. Subjects are written
// user:alice, team:dev for its members and tenant:acme for its members.
type Relations struct {
	// Teams of users, by name. Default: none.
	Teams map[string]TeamSettings `config:"teams"`
	// Tenants that own servers, by name. Default: none.
	Tenants map[string]TenantSettings `config:"tenants"`
	// Who may use everything that a server offers, by the server's key. Default: nobody.
	Servers map[string]ServerSettings `config:"servers"`
	// Who may use a single tool, by object ID (its exposed name, unless object_id says otherwise). Default: nobody.
	Tools map[string]ObjectSettings `config:"tools"`
	// Who may use a single prompt, by object ID as for tools. Default: nobody.
	Prompts map[string]ObjectSettings `config:"prompts"`
	// Who may read resources, by the key of their server unless resource_id says otherwise. Default: nobody.
	Resources map[string]ObjectSettings `config:"resources"`
	// Additional single relationships, such as tool:gh__search#executor@user:alice. Default: none.
	Relations []string `config:"relations"`
}

// TeamSettings are people who may do the same.
type TeamSettings struct {
	// Users and teams in the team. Default: none.
	Members []string `config:"members"`
}

// TenantSettings are the people of a tenant.
type TenantSettings struct {
	// Users who may use everything that the tenant's servers offer. Default: none.
	Admins []string `config:"admins"`
	// Users and teams in the tenant. Default: none.
	Members []string `config:"members"`
}

// ServerSettings are who may execute all that a server offers.
type ServerSettings struct {
	// Tenant that owns the server. Default: none.
	Tenant string `config:"tenant"`
	// Users, teams and tenants who may use the server. Default: nobody.
	Executors []string `config:"executors"`
}

// ObjectSettings are who may use one tool, prompt or resource.
type ObjectSettings struct {
	// Users who own it and may use it. Default: nobody.
	Owners []string `config:"owners"`
	// Users and teams who may use it. Default: nobody.
	Executors []string `config:"executors"`
	// Users who may not use it, even if something else allows it. Default: nobody.
	Banned []string `config:"banned"`
}

// Config is the same with the places where each is written, which at tells by the path
// of a value below the section.
func (r *Relations) Config(at func(path string) (file string, line int)) Config {
	entries := func(path string, texts []string) []Entry {
		out := Entries(texts...)
		for i := range out {
			out[i].File, out[i].Line = at(fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	}
	objects := func(path string, all map[string]ObjectSettings) map[string]Object {
		return each(path, all, func(path string, o ObjectSettings) Object {
			return Object{
				Owners: entries(path+".owners", o.Owners), Executors: entries(path+".executors", o.Executors),
				Banned: entries(path+".banned", o.Banned),
			}
		})
	}
	return Config{
		Teams: each("teams", r.Teams, func(path string, t TeamSettings) Team {
			return Team{Members: entries(path+".members", t.Members)}
		}),
		Tenants: each("tenants", r.Tenants, func(path string, t TenantSettings) Tenant {
			return Tenant{Admins: entries(path+".admins", t.Admins), Members: entries(path+".members", t.Members)}
		}),
		Servers: each("servers", r.Servers, func(path string, s ServerSettings) Server {
			return Server{Tenant: s.Tenant, Executors: entries(path+".executors", s.Executors)}
		}),
		Tools: objects("tools", r.Tools), Prompts: objects("prompts", r.Prompts), Resources: objects("resources", r.Resources),
		Relations: entries("relations", r.Relations),
	}
}

// each makes something of each value of a map that has a path.
func each[From, To any](path string, all map[string]From, to func(path string, from From) To) map[string]To {
	out := make(map[string]To, len(all))
	for name, from := range all {
		out[name] = to(path+"."+name, from)
	}
	return out
}

// Check implements [decode.Checker]: it is clear who is asked, and nothing is written
// that means nothing then.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	switch {
	case n == nil || n.IsNull():
		return
	case s.Endpoint != "" && s.Builtin != nil:
		p.At(n.Get("builtin"), path+".builtin", "remove one", "the section has both an endpoint and a builtin")
	case n.Get("endpoint").IsNull() && n.Get("builtin").IsNull():
		p.At(n, path, "add endpoint: host:port, or builtin: {...}", "the section names nobody to ask")
	}
	if s.Builtin != nil {
		for _, of := range []struct {
			key string
			set bool
		}{
			{"token", s.Token != ""},
			{"tls", s.TLS != nil},
			{"ca", s.CA != ""},
			{"strict", s.Strict},
			{"strict_for", s.StrictFor != nil},
			{"timeouts", s.Timeouts != Timeouts{}},
			{"cache", s.Cache != 0},
		} {
			if of.set {
				p.At(n.Get(of.key), path+"."+of.key, "remove it", "a builtin has no server that this is about")
			}
		}
	}
	if s.TLS != nil && !*s.TLS && s.CA != "" {
		p.At(n.Get("ca"), path+".ca", "remove it, or tls: false", "without TLS nothing is verified")
	}
}
