//go:build !windows

package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// renamings are the ways in which the tool a__pid gets another name. Each
// returns the servers and their settings, and the new name.
var renamings = map[string]struct {
	servers  servers
	settings map[string]any
	name     string
}{
	"namespace": {servers{"a": fake("one")}, map[string]any{"a": map[string]any{"namespace": "b"}}, "b__pid"},
	"tool":      {servers{"a": fake("one")}, map[string]any{"a": map[string]any{"tools": map[string]any{"pid": map[string]any{"rename": "number"}}}}, "a__number"},
	"server":    {servers{"b": fake("one")}, map[string]any{"b": map[string]any{"renamed_from": "a"}}, "b__pid"},
	"server alone": {
		servers{"b": fake("one")}, map[string]any{"b": map[string]any{"renamed_from": "a", "namespace": "a"}}, "a__pid",
	},
	"all": {servers{"b": fake("one")}, map[string]any{"b": map[string]any{
		"renamed_from": "a", "namespace": "c", "tools": map[string]any{"pid": map[string]any{"rename": "number"}},
	}}, "c__number"},
}

// A rename keeps the id of a tool, and with it flags, restrictions, classes and
// what is held; also when the gateway was not running meanwhile.
func TestRenamesKeepTheCatalog(t *testing.T) {
	t.Parallel()
	for how, to := range renamings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, restart := range []bool{false, true} {
				h := newHome(t)
				section := map[string]any{"registry": map[string]any{"on_change": "hold"}}
				h.write(t, servers{"a": fake("one")}, section)
				r := h.newRunning(t)
				r.change(t, admin.CatalogChange{Op: admin.CatalogFlag, Name: "a__pid", Tenant: "default"})
				r.change(t, admin.CatalogChange{Op: admin.CatalogRestrict, Name: "a__pid", Persona: "bot"})
				before := r.change(t, admin.CatalogChange{Op: admin.CatalogClassify, Name: "a__pid", Class: "read-only", Risk: "low"})
				section["servers"] = to.settings
				h.write(t, to.servers, section)
				if restart {
					if err := r.End(); err != nil {
						t.Fatal(err)
					}
					r = h.newRunning(t)
				} else if _, err := r.Reload(); err != nil {
					t.Fatal(err)
				}
				r.settle(t)
				r.isHidden(t, r.client(t), to.name)
				after, err := r.CatalogEntry(t.Context(), to.name, "")
				if err != nil || after.ID != before.ID || after.Class != "read-only" || after.State != store.StateActive ||
					len(after.Tenants) != 1 || len(after.DeniedPersonas) != 1 {
					t.Errorf("restart %t: %+v, %v", restart, after, err)
				}
				r.change(t, admin.CatalogChange{Op: admin.CatalogUnflag, Name: to.name, Tenant: "default"})
				text(t, r.client(t), to.name, "{}")
			}
		})
	}
}

// What is held stays held under every new name.
func TestRenamesKeepHolds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	section := map[string]any{"registry": map[string]any{"on_change": "hold"}}
	h.write(t, servers{"a": fake("one")}, section)
	r := h.newRunning(t)
	h.write(t, servers{"a": fake("echo=Another.")}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	r.isHidden(t, r.client(t), "a__echo")
	section["servers"] = map[string]any{"b": map[string]any{"renamed_from": "a"}}
	h.write(t, servers{"b": fake("echo=Another.")}, section)
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	r.isHidden(t, r.client(t), "b__echo")
	text(t, r.client(t), "b__pid", "{}")
}

// Relations follow a rename as far as the ids of their objects do. Where they do
// not, a reload says so, and so does ls.
func TestRenamesAndRelations(t *testing.T) {
	t.Parallel()
	for id, follows := range map[string][]string{
		"":                    {"server alone"}, // by the name that clients know
		"{exposed}":           {"server alone"},
		"{server}/{original}": {"namespace", "tool"},
		"{capability}":        {"namespace", "tool", "server", "server alone", "all"},
	} {
		for how, to := range renamings {
			t.Run(id+" "+how, func(t *testing.T) {
				t.Parallel()
				s := spicedbtest.NewServer()
				section := asking(s.Start(t))
				if id != "" {
					section["spicedb"].(map[string]any)["object_id"] = id
				}
				h := newHome(t)
				h.write(t, servers{"a": fake("one")}, section)
				r := h.newRunning(t)
				object := strings.NewReplacer("{exposed}", "a__pid", "{server}", "a", "{original}", "pid", "{capability}", capabilityOf(t, r, "pid")).Replace(id)
				if id == "" {
					object = "a__pid"
				}
				s.Write(t, "tool:"+object+"#executor@user:local")
				c := r.client(t)
				testwait.Until(t, patience, "the relation holds", func() bool { return tried(t.Context(), c, "a__pid", "{}") == "ok" })
				section["servers"] = to.settings
				h.write(t, to.servers, section)
				got, err := r.Reload()
				if err != nil {
					t.Fatal(err)
				}
				r.settle(t)
				alarms := slices.ContainsFunc(r.Status().Alarms, func(a string) bool { return strings.Contains(a, "spicedb.") })
				if slices.Contains(follows, how) {
					if got := tried(t.Context(), c, to.name, "{}"); got != "ok" {
						t.Errorf("%s: %s", to.name, got)
					}
				} else {
					if got := tried(t.Context(), c, to.name, "{}"); got != "Unknown tool: "+to.name {
						t.Errorf("%s: %s", to.name, got)
					}
					if !alarms {
						t.Errorf("nobody is told: %q", r.Status().Alarms)
					}
					if len(got.Warnings) == 0 && !strings.HasPrefix(how, "server") && how != "all" { // a new server is heard of later
						t.Error("the reload says nothing")
					}
				}
			})
		}
	}
}

// What the automatic reload of a saved file has noted is still told to the person
// who asks for a reload, once.
func TestRenamesNotedByAnAutomaticReload(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	section := asking(s.Start(t))
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, section)
	r := h.newRunning(t)
	section["servers"] = renamings["namespace"].settings
	h.write(t, renamings["namespace"].servers, section)
	for i, reload := range []struct {
		manual, told bool
	}{{false, true}, {true, true}, {true, false}} {
		did, err := r.TakeFile(reload.manual)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(did.Warnings, func(w string) bool { return strings.Contains(w, "tool:b__pid now") })
		if told != reload.told || !told && len(did.Warnings) > 0 {
			t.Errorf("reload %d: %q", i, did.Warnings)
		}
		r.settle(t)
	}
}

func capabilityOf(t *testing.T, r *running, original string) string {
	t.Helper()
	for _, c := range r.Gateway.Capabilities() {
		if c.Original == original {
			return c.CapabilityID
		}
	}
	t.Fatalf("nothing is called %s", original)
	return ""
}
