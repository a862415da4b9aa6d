//go:build !windows

package daemon_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
)

// This file holds everything that decides against one plain oracle: lists, calls,
// `why` and `who-can`, over random catalogs, callers and rules of all kinds.

// person is a caller with what rules may be about.
type person struct {
	id, tenant, persona string
	groups, scopes      []string
}

// rule is one rule of a world. Which fields count depends on its kind.
type rule struct {
	kind     string
	about    string // a name, a glob, a plain name, or a server
	callable string // a glob
	who      string // persona, tenant, scope, or the id of a person
	on       bool   // of a flag, or for calls alone
}

// world is a catalog with callers and rules.
type world struct {
	people   []person
	shaping  map[string]any // under servers
	capsules bool           // the phase is there, whatever its rules
	spicedb  bool
	opa      bool
	rules    []rule
	mode     governance.Mode
}

// offered is a tool of the running gateway.
type offered = proxy.Capability

// kinds are all kinds of rules. Those that only take away come first.
var kinds = []string{"ban", "deny", "scope", "off", "restrict", "disable", "forbid", "ask", "pattern", "rate", "spent", "capsule", "executor", "owner", "on"}

// newWorld makes a world.
func newWorld(random *rand.Rand) *world {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	some := func(of ...string) (out []string) {
		for _, s := range of {
			if random.IntN(2) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	w := &world{capsules: random.IntN(2) == 0, spicedb: random.IntN(2) == 0, opa: random.IntN(2) == 0, shaping: map[string]any{}}
	for i := range 4 {
		w.people = append(w.people, person{
			fmt.Sprintf("p%d", i), one("acme", "beta"), one("", "bot", "dev"), some("g", "h"), some("read", "write"),
		})
	}
	for _, server := range []string{"a", "b"} {
		w.shaping[server] = map[string]any{"namespace": one(server, "n"+server)}
		if random.IntN(3) == 0 {
			w.shaping[server].(map[string]any)["tools"] = map[string]any{
				"fail": map[string]any{"hidden": true}, "fault": map[string]any{"rename": one("Echo", "other", "PICTURE")},
			}
		}
	}
	// Most worlds are in the mode in which the other rules can be seen.
	w.mode = governance.Mode(one("NORMAL", "NORMAL", "NORMAL", "NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"))
	for range random.IntN(20) {
		w.rules = append(w.rules, newRule(random, kinds[random.IntN(len(kinds))]))
	}
	return w
}

func newRule(random *rand.Rand, kind string) rule {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	glob := func() string {
		return one("*", "a__*", "b__*", "nb__*", "?__p*", "*__echo", "*__echo*", "a__echo", "a__echo_*", "*ECHO*", "a__pid", "*picture", "*__other", "*_______")
	}
	r := rule{kind: kind, about: glob(), callable: glob(), on: random.IntN(2) == 0}
	switch kind {
	case "capsule":
		r.who = one("", "bot", "dev", "g", "h")
	case "ban", "owner", "off", "restrict", "disable", "on":
		r.about = one("a/echo", "a/ECHO", "a/pid", "b/echo", "b/pid", "b/picture", "c/echo", "b/fault")
		r.who = one("acme", "beta")
		if kind == "restrict" {
			r.who = one("bot", "dev")
		} else if kind == "ban" || kind == "owner" {
			r.who = one("p0", "p1", "p2", "p3")
		}
	case "executor":
		r.about, r.who = one("a", "b", "c"), one("p0", "p1", "p2", "p3")
	case "deny":
		r.about, r.who = one("a__echo", "a__pid", "b__pid", "nb__pid", "b__echo", "a__fail"), one("", "bot", "dev")
	case "scope":
		r.who = one("read", "write")
	case "forbid", "ask":
		r.who = one("NORMAL", "NORMAL", "ALERT", "DEGRADED")
	}
	return r
}

// settings is the toolgate section of a world. Unsuffixed names are those of the
// catalog that there is.
// entered is how often worlds were entered.
func (w *world) settings(all []offered, entered int) map[string]any {
	keys, capsules := []any{}, map[string]any{"none": map[string]any{"visible": []string{}, "callable": []string{}}}
	tools, executors, scopes := map[string]map[string][]string{}, map[string][]string{}, []any{}
	governed, budgets, rates := map[string]map[string]any{}, []any{}, []any{}
	subject := map[string]string{}
	for _, p := range w.people {
		subject[p.id] = "user:" + p.tenant + "/" + p.id
		keys = append(keys, map[string]any{
			"id": p.id, "sha256": sum(p.id), "subject": p.id, "tenant": p.tenant, "persona": p.persona, "groups": p.groups, "scopes": p.scopes,
		})
	}
	relate := func(about, relation, who string) {
		for _, c := range all {
			if c.Server+"/"+c.Original == about {
				name := gate.Names{Exposed: c.Exposed, Unsuffixed: c.Unsuffixed}
				if tools[name.Stable()] == nil {
					tools[name.Stable()] = map[string][]string{}
				}
				tools[name.Stable()][relation] = append(tools[name.Stable()][relation], subject[who])
			}
		}
	}
	for i, r := range w.rules {
		switch r.kind {
		case "capsule":
			set := map[string]any{"visible": []string{r.about}, "callable": []string{r.callable}}
			if r.who == "g" || r.who == "h" {
				set["groups"] = []string{r.who}
			} else if r.who != "" {
				set["personas"] = []string{r.who}
			}
			capsules[fmt.Sprintf("c%d", i)] = set
		case "ban":
			relate(r.about, "banned", r.who)
		case "owner":
			relate(r.about, "owners", r.who)
		case "executor":
			executors[r.about] = append(executors[r.about], subject[r.who])
		case "scope":
			scopes = append(scopes, map[string]any{"match": r.about, "scopes": r.who})
		case "forbid", "ask", "pattern":
			if governed[r.about] == nil {
				governed[r.about] = map[string]any{}
			}
			switch of := governed[r.about]; r.kind {
			case "forbid":
				of["forbidden_in_modes"] = append(listed(of["forbidden_in_modes"]), r.who)
			case "ask":
				of["requires_approval_in_modes"] = append(listed(of["requires_approval_in_modes"]), r.who)
			default:
				of["patterns"] = []any{map[string]any{"in": []string{"/text"}, "deny": "secret"}}
			}
		case "rate": // under a name of its own each time, of which nothing is used
			rates = append(rates, map[string]any{"name": fmt.Sprintf("r%d-%d", entered, i), "per": []string{"principal", "tool"}, "match": r.about, "limit": 1, "window": "1h"})
		case "spent":
			budgets = append(budgets, map[string]any{"name": fmt.Sprintf("b%d", i), "per": "subject", "match": r.about, "limit": 0, "window": "hour"})
		}
	}
	section := map[string]any{
		"governance": map[string]any{"tools": governed}, "budgets": budgets, "rates": rates,
		"servers": w.shaping, "gate": map[string]any{"open": true}, "registry": map[string]any{"on_new": "enable", "on_change": "hold"},
		"auth": map[string]any{"keys": keys, "scopes": map[string]any{"required": scopes}},
	}
	if w.capsules {
		section["capsules"] = capsules
	}
	if w.spicedb {
		on := map[string]any{}
		for server, who := range executors {
			on[server] = map[string]any{"executors": who}
		}
		section["spicedb"] = map[string]any{"subject_id": "{tenant}/{subject}", "builtin": map[string]any{"servers": on, "tools": tools}}
	}
	if w.opa {
		section["opa"] = map[string]any{"path": "policies"}
	}
	return section
}

// policy is the policy of a world.
func (w *world) policy() string {
	text := "package toolgate\n\ndefault decision := false\n\ndefault denied := false\n\ndecision if not denied\n"
	for _, r := range w.rules {
		if r.kind != "deny" {
			continue
		}
		text += fmt.Sprintf("\ndenied if {\n\t%q in input.tool_names\n", r.about)
		if r.who != "" {
			text += fmt.Sprintf("\tinput.persona_id == %q\n", r.who)
		}
		if r.on {
			text += "\tinput.action == \"tool.request\"\n"
		}
		text += "}\n"
	}
	return text
}

func listed(list any) []string {
	all, _ := list.([]string)
	return all
}

// covers matches a glob in the plainest way.
func covers(glob, name string) bool {
	pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
	return regexp.MustCompile(`^(?s:` + pattern + `)$`).MatchString(name)
}

// verdict is what a caller may do with a tool, in words.
type answer struct {
	view, call bool
	scoped     bool // a call is refused for want of a scope
	// after is the phase behind the gate by which a call is not made: governance,
	// approval or budget; empty where the gate denies, and where it is made.
	after string
}

// decide is the oracle.
func (w *world) decide(p *person, c *offered) answer {
	key := c.Server + "/" + c.Original
	plain := c.Unsuffixed
	if plain == "" {
		plain = c.Exposed
	}
	granted := func(glob string) bool {
		return covers(glob, c.Exposed) && (!strings.ContainsAny(glob, "*?") || covers(glob, plain))
	}
	flag, flagged, disabled := false, false, false
	see, run, related, scoped := !w.capsules, !w.capsules, !w.spicedb, false
	for _, r := range w.rules {
		switch r.kind {
		case "on", "off":
			if r.about == key && r.who == p.tenant {
				flag, flagged = r.kind == "on", true // the last one counts
			}
		case "disable":
			disabled = disabled || r.about == key
		case "capsule":
			if r.who != "" && (r.who == p.persona || slices.Contains(p.groups, r.who)) && granted(r.about) {
				see = true
				run = run || granted(r.callable)
			}
		case "executor":
			related = related || r.about == c.Server && r.who == p.id
		case "owner":
			related = related || r.about == key && r.who == p.id
		}
	}
	if flagged && !flag || !flagged && disabled || key == "c/echo" { // which is held
		return answer{}
	}
	for _, r := range w.rules {
		switch r.kind {
		case "restrict":
			if r.about == key && r.who == p.persona {
				return answer{}
			}
		case "ban":
			if w.spicedb && r.about == key && r.who == p.id {
				return answer{}
			}
		case "deny":
			if w.opa && (r.about == c.Exposed || r.about == plain) && (r.who == "" || r.who == p.persona) {
				if run = false; !r.on {
					return answer{}
				}
			}
		case "scope":
			if (covers(r.about, c.Exposed) || covers(r.about, plain)) && !slices.Contains(p.scopes, r.who) {
				scoped = true
			}
		}
	}
	if !see || !related {
		return answer{}
	}
	out := answer{view: true, call: run && !scoped, scoped: scoped}
	if out.call {
		out.after = w.behind(c)
		out.call = out.after == ""
	}
	return out
}

// behind is the phase behind the gate by which a call is not made.
func (w *world) behind(c *offered) string {
	during := func(mode string) bool {
		return mode == string(w.mode) || mode == "NORMAL" && w.mode == governance.Degraded
	}
	after := ""
	if w.mode == governance.Alert || w.mode == governance.Recovery { // no tool here is one that an operator has classed
		after = "approval"
	}
	for _, r := range w.rules {
		about := covers(r.about, c.Exposed) || c.Unsuffixed != "" && covers(r.about, c.Unsuffixed)
		switch {
		case w.mode == governance.Lockdown, r.kind == "forbid" && about && during(r.who):
			return "governance"
		case r.kind == "ask" && about && during(r.who):
			after = "approval"
		case r.kind == "spent" && about && after == "":
			after = "budget"
		}
	}
	if w.mode == governance.Lockdown {
		return "governance"
	}
	return after
}

// has tells whether a rule of a kind is about a tool.
func (w *world) has(kind string, c *offered) bool {
	return slices.ContainsFunc(w.rules, func(r rule) bool {
		return r.kind == kind && (covers(r.about, c.Exposed) || c.Unsuffixed != "" && covers(r.about, c.Unsuffixed))
	})
}

// agreement is a gateway in which worlds are tried.
type agreement struct {
	h      *home
	r      *running
	undone []admin.CatalogChange // what takes the world before out of the store
	worlds int                   // how many were entered
	seen   map[string]int        // refusals behind the gate, by phase
}

// three servers: one with twins, one without, one of whose tools is held.
var agreeing = servers{"a": fake("name=ECHO"), "b": fake(), "c": fake("echo=Another.")}

func newAgreement(t *testing.T) *agreement {
	h := newHome(t)
	if err := os.Mkdir(h.path("policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	section := (&world{people: []person{{id: "p0", tenant: "acme"}}}).settings(nil, 0)
	h.write(t, servers{"a": agreeing["a"], "b": agreeing["b"], "c": fake("one")}, section)
	a := &agreement{h: h, r: h.newRunning(t), seen: map[string]int{}}
	h.write(t, agreeing, section)
	if _, err := a.r.Reload(); err != nil {
		t.Fatal(err)
	}
	a.r.settle(t)
	return a
}

func (a *agreement) tools() []offered {
	return slices.DeleteFunc(a.r.Gateway.Capabilities(), func(c offered) bool { return c.Kind != mcp.Tool })
}

// enter puts a world in force.
func (a *agreement) enter(t *testing.T, w *world) {
	t.Helper()
	if err := os.WriteFile(a.h.path("policies/p.rego"), []byte(w.policy()), 0o600); err != nil {
		t.Fatal(err)
	}
	a.worlds++
	for range 2 { // names first, by which relations go
		a.h.write(t, agreeing, w.settings(a.tools(), a.worlds))
		if _, err := a.r.Reload(); err != nil {
			t.Fatal(err)
		}
		a.r.settle(t)
	}
	for _, c := range a.undone {
		a.change(t, c)
	}
	a.undone = nil
	for _, r := range w.rules {
		do, undo := admin.CatalogChange{Name: r.about}, admin.CatalogChange{Name: r.about}
		switch r.kind {
		case "on", "off":
			do.Op, do.Tenant, do.On, undo.Op, undo.Tenant = admin.CatalogFlag, r.who, r.kind == "on", admin.CatalogUnflag, r.who
		case "restrict":
			do.Op, do.Persona, undo.Op, undo.Persona = admin.CatalogRestrict, r.who, admin.CatalogUnrestrict, r.who
		case "disable":
			do.Op, undo.Op = admin.CatalogDisable, admin.CatalogEnable
		default:
			continue
		}
		a.change(t, do)
		a.undone = append(a.undone, undo)
	}
	a.r.SetApprovals(approval.Options{Settings: approval.Settings{By: []string{gate.ByOperator}, Wait: time.Millisecond, Valid: time.Hour}})
	if _, err := a.r.SetMode(t.Context(), string(w.mode), "a world"); err != nil {
		t.Fatal(err)
	}
}

func (a *agreement) change(t *testing.T, c admin.CatalogChange) {
	t.Helper()
	c.Actor, c.Kind = "alice", "tool"
	if _, err := a.r.ChangeCatalog(t.Context(), c); err != nil && !strings.Contains(err.Error(), "has no") && !strings.Contains(err.Error(), "not") {
		t.Fatalf("%+v: %v", c, err)
	}
}

// differ returns where a world is not as the oracle says, empty for nowhere, and
// what everyone may do.
func (a *agreement) differ(t *testing.T, w *world) (problem string, all map[string]answer) {
	t.Helper()
	a.enter(t, w)
	all = map[string]answer{}
	tools := a.tools()
	byName := map[string]map[string]admin.WhoCan{}
	for i := range tools {
		who, err := a.r.WhoCan(t.Context(), tools[i].Exposed, nil)
		for late := 0; err == nil && late < 100 && slices.ContainsFunc(who, func(one admin.WhoCan) bool { return one.Reason == "policy_error" }); late++ {
			who, err = a.r.WhoCan(t.Context(), tools[i].Exposed, nil)
		}
		if err != nil {
			return fmt.Sprintf("who-can %s: %v", tools[i].Exposed, err), nil
		}
		byName[tools[i].Exposed] = map[string]admin.WhoCan{}
		for _, one := range who {
			byName[tools[i].Exposed][one.Caller] = one
		}
	}
	for n := range w.people {
		p := &w.people[n]
		listed := a.r.toolsOf(t, p.id)
		nothing := a.r.use(t, p.id, "a__nothing", "{}")
		for i := range tools {
			c := &tools[i]
			want, pair := w.decide(p, c), p.id+" "+c.Server+"/"+c.Original
			all[pair] = want
			if got := slices.Contains(listed, c.Exposed); got != want.view {
				return fmt.Sprintf("%s as %s: listed %t, want %+v", pair, c.Exposed, got, want), nil
			}
			why, err := a.r.Why(t.Context(), admin.WhyQuestion{Name: c.Exposed, As: p.id})
			for late := 0; err == nil && why.Call.Reason == "policy_error" && late < 100; late++ { // asked again, as in post
				why, err = a.r.Why(t.Context(), admin.WhyQuestion{Name: c.Exposed, As: p.id})
			}
			if err != nil || (why.View.Effect == "allow") != want.view || (why.Call.Effect == "allow") != want.call || (why.Call.Effect == "ask") != (want.after == "approval") {
				return fmt.Sprintf("%s as %s: why says %+v, %v; want %+v", pair, c.Exposed, why, err, want), nil
			}
			if who := byName[c.Exposed][p.id+" of "+p.tenant]; who.View != want.view || who.Call != (want.call || who.Asks) || who.Asks != (want.after == "approval") {
				return fmt.Sprintf("%s as %s: who-can says %+v; want %+v", pair, c.Exposed, who, want), nil
			}
			if c.Original == "slow" {
				continue // it would wait
			}
			if problem := a.behind(t, w, p, c, want); problem != "" {
				return pair + " as " + c.Exposed + ": " + problem, nil
			}
			if want.call && w.has("rate", c) {
				continue // it was called already
			}
			got := a.r.use(t, p.id, c.Exposed, "{}")
			unknown := got.status == nothing.status && strings.ReplaceAll(got.body, c.Exposed, "a__nothing") == nothing.body
			switch {
			case !want.view && !unknown:
				return fmt.Sprintf("%s as %s: what is hidden answers %+v, what is unknown %+v", pair, c.Exposed, got, nothing), nil
			case want.view && (got.status == http.StatusForbidden) != want.scoped:
				return fmt.Sprintf("%s as %s: %+v; want %+v", pair, c.Exposed, got, want), nil
			case want.view && !want.scoped && (strings.Contains(got.body, `"phase"`) || unknown) == want.call:
				return fmt.Sprintf("%s as %s: %+v; want %+v", pair, c.Exposed, got, want), nil
			}
		}
	}
	return "", all
}

// shrink takes rules out of a world as long as it still is one in which something
// differs.
func (a *agreement) shrink(t *testing.T, w *world, problem string) (*world, string) {
	t.Helper()
	for again := true; again; {
		again = false
		for i := range w.rules {
			less := *w
			less.rules = slices.Delete(slices.Clone(w.rules), i, i+1)
			if found, _ := a.differ(t, &less); found != "" {
				w, problem, again = &less, found, true
				break
			}
		}
	}
	return w, problem
}

// agreeWorlds is how many worlds are tried; `make soak` tries many.
var agreeWorlds = flag.Uint64("agree-worlds", 12, "how many random worlds everything has to agree in")

// Lists, calls, why, who-can and the oracle agree on every caller and tool; what
// is hidden answers like what is unknown; and a rule that restricts never makes
// an allow of a deny.
func TestEverythingAgrees(t *testing.T) {
	t.Parallel()
	a := newAgreement(t)
	allowed, denied := 0, 0
	for seed := range *agreeWorlds {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(random)
		problem, before := a.differ(t, w)
		if problem != "" {
			w, problem = a.shrink(t, w, problem)
			t.Fatalf("seed %d: %s\nin %+v", seed, problem, w)
		}
		more := *w
		added := newRule(random, kinds[random.IntN(slices.Index(kinds, "capsule"))])
		more.rules = append(slices.Clone(w.rules), added)
		problem, after := a.differ(t, &more)
		if problem != "" {
			small, problem := a.shrink(t, &more, problem)
			t.Fatalf("seed %d with one rule more: %s\nin %+v", seed, problem, small)
		}
		for _, pair := range slices.Sorted(maps.Keys(before)) {
			was, is := before[pair], after[pair]
			if is.view && !was.view || is.call && !was.call {
				t.Fatalf("seed %d: %+v makes %+v of %+v for %s in %+v", seed, added, is, was, pair, w)
			}
			if was.call {
				allowed++
			} else {
				denied++
			}
		}
	}
	for _, phase := range []string{"allow", "governance deny", "rate deny", "approval ask", "approval deny", "budget deny"} {
		if a.seen[phase] < 10 {
			t.Errorf("%d calls came to %q: too few to show anything", a.seen[phase], phase)
		}
	}
	if allowed < 200 || denied < 200 {
		t.Errorf("%d pairs are allowed and %d denied: too few of one to show anything", allowed, denied)
	}
}
