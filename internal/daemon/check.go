package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/servers"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/daemon/tools"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// CheckDeclared checks the declared tools of a configuration that is not run.
func CheckDeclared(c *config.Config) error {
	state, err := statedir.Find(c.Path)
	if err != nil {
		return err
	}
	return servers.CheckDeclared(c, build.KeepOff(c, build.OwnFiles(c, state)))
}

// unconfined is something of a configuration that this machine cannot confine as it
// should be.
type unconfined struct {
	Subject string // such as native.code
	Refused bool   // it does not run here; else it runs with less
	Server  bool   // it is a server, which has no sandbox: auto
	Why     string
}

// String says it for people, with what to do.
func (u unconfined) String() string {
	if u.Server {
		return u.Subject + " does not start here, because it has a sandbox: " + u.Why
	}
	if u.Refused {
		return u.Subject + " does not run here, unless sandbox: auto is written: " + u.Why
	}
	return u.Subject + " runs with less confinement than sandbox: required asks for: " + u.Why
}

// UnconfinedOf returns what this machine does not confine as it should: what must be
// confined and does not run, and what runs all the same because of sandbox: auto.
// What is off is as the operator wants it. The machine is asked by available, which is
// [sandbox.Available].
func UnconfinedOf(c *config.Config, available func(sandbox.Policy) (sandbox.Layers, error)) []unconfined {
	var out []unconfined
	add := func(subject string, p sandbox.Policy) {
		if p.Mode == sandbox.Off {
			return
		}
		l, err := available(p)
		if err != nil || len(l.Lacks()) == 0 {
			return // what is wrong with a policy is said where it is read
		}
		why := []string{"this machine lacks " + strings.Join(l.Lacks(), ", ")}
		for _, m := range l.Missing {
			if m.Needed {
				why = append(why, string(m.Layer)+": "+m.Why)
			}
		}
		out = append(out, unconfined{Subject: subject, Refused: p.Mode == sandbox.Required, Why: strings.Join(why, "; ")})
	}
	if n := c.Toolgate.Native.Code; n != nil {
		subject := "native.code"
		if n.Container.Runtime != "" {
			subject += " but for execute"
		}
		add(subject, sandbox.Policy{Mode: n.Sandbox.ForCallers()})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Toolgate.Native.Plugins)) {
		n := c.Toolgate.Native.Plugins[name]
		p := n.Limits.Policy(n.Sandbox)
		if p.Listen = true; n.Network == "full" {
			p.Network = sandbox.FullNetwork
		}
		add("native.plugins."+name, p)
	}
	for i := range c.Servers {
		if p := build.Sandbox(&c.Servers[i]); p != nil && !c.Servers[i].Disabled {
			before := len(out)
			add("servers."+c.Servers[i].Key, *p)
			for ; before < len(out); before++ {
				out[before].Server = true
			}
		}
	}
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		if t.Type == "command" || t.Type == "python" {
			add(fmt.Sprintf("tools[%d] (%s)", i, tools.Name(t)), sandbox.Policy{Mode: t.Sandbox.ForCallers()})
		}
	}
	return out
}

// warnUnconfined writes what is not confined as it should be into the log.
func (r *reloads) warnUnconfined(c *config.Config) {
	for _, u := range UnconfinedOf(c, sandbox.Available) {
		r.d.log.Warn("not confined as it should be", "subject", u.Subject, "runs", !u.Refused, "err", u.Why)
	}
}
