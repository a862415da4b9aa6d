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
	// Endpoint is the host:port of the SpiceDB. Absent: see builtin.
	Endpoint string `config:"endpoint" format:"target"`
	// Token is the server's preshared key. Absent: none is sent.
	Token secret.Text `config:"token"`
	// TLS encrypts the connection and verifies the server. Absent: yes.
	TLS *bool `config:"tls"`
	// CA is the PEM file of the authorities that the server's certificate may be of. Absent: those of the system.
	CA string `config:"ca" format:"path"`

	Mapping

	// Strict asks the server fully consistent every time and keeps no answer. Absent: answers are kept until the
	// server tells of a change.
	Strict bool `config:"strict"`
	// StrictFor are globs of exposed names for which strict holds. Absent: none.
	StrictFor []string `config:"strict_for"`
	// Timeouts bound the questions to the server. Absent: the defaults of each.
	Timeouts Timeouts `config:"timeouts"`
	// Cache is how many single answers are kept. Absent: 65536.
	Cache int `config:"cache" min:"1" max:"16777216"`
	// Zone is the time zone of the hour that caveats are given. Absent: UTC.
	Zone string `config:"zone" format:"zone"`
	// Builtin answers from the file where there is no server. Absent: it does not.
	Builtin *Relations `config:"builtin"`
}

// Timeouts bound the questions to a SpiceDB.
type Timeouts struct {
	// Call bounds the decision of one request. Absent: 150ms.
	Call time.Duration `config:"call" min:"1ms" max:"1m"`
	// List bounds the decisions of one list, together. Absent: 500ms.
	List time.Duration `config:"list" min:"1ms" max:"1m"`
}

// Relations are who may do what, without a SpiceDB. Subjects are written
// user:alice, team:dev for its members and tenant:acme for its members.
type Relations struct {
	// Teams are people who may do the same, by name. Absent: none.
	Teams map[string]TeamSettings `config:"teams"`
	// Tenants are whom servers belong to, by name. Absent: none.
	Tenants map[string]TenantSettings `config:"tenants"`
	// Servers are who may execute all that a server offers, by its key. Absent: nobody.
	Servers map[string]ServerSettings `config:"servers"`
	// Tools are who may use one tool, by object id, which is the exposed name unless object_id says otherwise. Absent: nobody.
	Tools map[string]ObjectSettings `config:"tools"`
	// Prompts are who may use one prompt, as for tools. Absent: nobody.
	Prompts map[string]ObjectSettings `config:"prompts"`
	// Resources are who may read resources, by the key of their server unless resource_id says otherwise. Absent: nobody.
	Resources map[string]ObjectSettings `config:"resources"`
	// Relations are single relationships, such as tool:gh__search#executor@user:alice. Absent: none.
	Relations []string `config:"relations"`
}

// TeamSettings are people who may do the same.
type TeamSettings struct {
	// Members are users and teams. Absent: nobody.
	Members []string `config:"members"`
}

// TenantSettings are the people of a tenant.
type TenantSettings struct {
	// Admins are users who may execute what the servers of the tenant offer. Absent: nobody.
	Admins []string `config:"admins"`
	// Members are users and teams. Absent: nobody.
	Members []string `config:"members"`
}

// ServerSettings are who may execute all that a server offers.
type ServerSettings struct {
	// Tenant is the tenant that the server belongs to. Absent: none.
	Tenant string `config:"tenant"`
	// Executors are users, teams and tenants. Absent: nobody.
	Executors []string `config:"executors"`
}

// ObjectSettings are who may use one tool, prompt or resource.
type ObjectSettings struct {
	// Owners are users who may use it. Absent: nobody.
	Owners []string `config:"owners"`
	// Executors are users and teams who may use it. Absent: nobody.
	Executors []string `config:"executors"`
	// Banned are users who may not use it, whatever else lets them. Absent: nobody.
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
