package spicedbtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// Phase is what the contract is about.
type Phase interface {
	gate.Phase
	Check(ctx context.Context, r *gate.Request) (gate.Decision, error)
	CheckAll(ctx context.Context, rs []gate.Request) ([]gate.Decision, error)
	Explain(ctx context.Context, r *gate.Request) (gate.Explanation, error)
}

// Backend is a phase with the default mapping and a way to change what it
// answers from. It begins without relationships.
type Backend struct {
	Phase Phase
	// Write and Delete change relationships; the phase may notice a little
	// later, but within Soon.
	Write, Delete func(tb testing.TB, relationships ...string)
	// Caveats tells whether relationships may carry the caveats of [Schema].
	Caveats bool
}

// Soon bounds the wait for a change to be noticed in a test.
const Soon = 30 * time.Second

// Run runs the contract. Each test opens a backend of its own.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b Backend)
	}{
		{"flat relations", testFlat},
		{"teams, servers and tenants", testHierarchy},
		{"teams that contain each other", testCycle},
		{"prompts and resources", testKinds},
		{"actions", testActions},
		{"names that SpiceDB does not take", testNames},
		{"lists agree with calls", testLists},
		{"one bad name among a thousand", testHostileName},
		{"a revocation is seen", testRevocation},
		{"explanations", testExplain},
		{"a ban is explained", testExplainBan},
		{"caveats", testCaveats},
		{"what is sent to caveats", testContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// User is a caller of tenant acme.
func User(subject string) *gate.Identity {
	return gate.NewIdentity(gate.Identity{
		Principal: gate.Principal{Issuer: "https://issuer.example", Tenant: "acme", Subject: subject},
		Persona:   "bot",
		Groups:    []string{"dev", "ops"},
	})
}

// Tool is a call of a tool of the server gh.
func Tool(name, subject string) gate.Request {
	return gate.Request{
		Action: gate.Call, Kind: mcp.Tool, Server: "gh", Original: name, Exposed: name,
		CapabilityID: "cap_" + name, Identity: User(subject),
	}
}

// effect decides one request.
func effect(t *testing.T, p Phase, r gate.Request) gate.Effect {
	t.Helper()
	d, err := p.Check(t.Context(), &r)
	if err != nil {
		t.Fatalf("%s of %s %q: %v", r.Action, r.Kind, r.Exposed, err)
	}
	return d.Effect
}

// want waits until a request is decided so: what was just written may not have
// been noticed yet.
func want(t *testing.T, p Phase, r gate.Request, e gate.Effect) {
	t.Helper()
	var got gate.Effect
	if !testwait.Within(Soon, func() bool { got = effect(t, p, r); return got == e }) {
		t.Errorf("%s of %s %q by %s: %v, want %v", r.Action, r.Kind, r.Exposed, r.Identity.Subject, got, e)
	}
}

func testFlat(t *testing.T, b Backend) {
	b.Write(t, "tool:search#executor@user:alice", "tool:search#owner@user:olga", "tool:other#executor@user:bob")
	want(t, b.Phase, Tool("search", "alice"), gate.Allow)
	want(t, b.Phase, Tool("search", "olga"), gate.Allow)
	want(t, b.Phase, Tool("search", "bob"), gate.Deny)
	want(t, b.Phase, Tool("other", "alice"), gate.Deny)
	want(t, b.Phase, Tool("none", "alice"), gate.Deny)
	d, err := b.Phase.Check(t.Context(), new(Tool("search", "bob")))
	if err != nil || d.Reason != "user:bob has no execute on tool:search" {
		t.Errorf("reason %q, error %v", d.Reason, err)
	}
	if d, _ := b.Phase.Check(t.Context(), new(Tool("search", "alice"))); d.Revision == "" {
		t.Error("an allow without a revision")
	}
}

func testHierarchy(t *testing.T, b Backend) {
	b.Write(t,
		"team:backend#member@user:alice", "team:backend#member@user:eve",
		"team:dev#member@team:backend#member", "team:all#member@team:dev#member",
		"tenant:acme#admin@user:root", "tenant:acme#member@user:mia", "tenant:acme#member@team:all#member",
		"server:gh#tenant@tenant:acme",
		"server:gh#executor@team:all#member",
		"tool:read#server@server:gh", "tool:write#server@server:gh",
		"tool:write#banned@user:eve", "tool:write#banned@user:root",
	)
	want(t, b.Phase, Tool("read", "alice"), gate.Allow)
	want(t, b.Phase, Tool("read", "root"), gate.Allow)
	want(t, b.Phase, Tool("write", "alice"), gate.Allow)
	want(t, b.Phase, Tool("write", "eve"), gate.Deny)
	want(t, b.Phase, Tool("write", "root"), gate.Deny)
	want(t, b.Phase, Tool("read", "eve"), gate.Allow)
	want(t, b.Phase, Tool("read", "mia"), gate.Deny)
	b.Write(t, "server:gh#executor@tenant:acme#member")
	want(t, b.Phase, Tool("read", "mia"), gate.Allow)
	b.Delete(t, "team:backend#member@user:alice", "server:gh#executor@tenant:acme#member")
	want(t, b.Phase, Tool("read", "alice"), gate.Deny)
	want(t, b.Phase, Tool("read", "root"), gate.Allow)
}

func testCycle(t *testing.T, b Backend) {
	b.Write(t,
		"team:one#member@team:two#member", "team:two#member@user:alice",
		"tool:search#executor@team:one#member",
	)
	want(t, b.Phase, Tool("search", "alice"), gate.Allow)
	want(t, b.Phase, Tool("search", "bob"), gate.Deny)
}

func testKinds(t *testing.T, b Backend) {
	b.Write(t, "prompt:review#executor@user:alice", "resource:gh#reader@user:alice", "tool:review#executor@user:bob")
	of := func(kind mcp.Kind, subject string) gate.Request {
		r := Tool("review", subject)
		r.Kind = kind
		if kind == mcp.Resource || kind == mcp.Template {
			r.Exposed, r.Original = "file:///etc/motd", "file:///etc/motd"
		}
		return r
	}
	for _, kind := range mcp.Kinds {
		alice, bob := gate.Allow, gate.Deny
		if kind == mcp.Tool {
			alice, bob = bob, alice
		}
		want(t, b.Phase, of(kind, "alice"), alice)
		want(t, b.Phase, of(kind, "bob"), bob)
	}
	elsewhere := of(mcp.Resource, "alice")
	elsewhere.Server = "files"
	want(t, b.Phase, elsewhere, gate.Deny)
	unknown := of(mcp.NoKind, "alice")
	if d, err := b.Phase.Check(t.Context(), &unknown); d.Effect != gate.Deny || err == nil {
		t.Errorf("a request of no kind: %v, %v", d.Effect, err)
	}
}

func testActions(t *testing.T, b Backend) {
	b.Write(t, "tool:search#executor@user:alice")
	r := Tool("search", "alice")
	want(t, b.Phase, r, gate.Allow)
	r.Action = gate.View
	want(t, b.Phase, r, gate.Allow)
	r.Action = gate.Enable
	want(t, b.Phase, r, gate.Abstain)
	for _, action := range []gate.Action{"", "admin"} {
		r.Action = action
		if d, err := b.Phase.Check(t.Context(), &r); d.Effect != gate.Deny || err == nil {
			t.Errorf("action %q: %v, %v", action, d.Effect, err)
		}
	}
	r = Tool("search", "alice")
	r.Identity = nil
	if d, _ := b.Phase.Check(t.Context(), &r); d.Effect != gate.Deny {
		t.Errorf("without an identity: %v", d.Effect)
	}
	if d, _ := b.Phase.Check(t.Context(), nil); d.Effect != gate.Deny {
		t.Errorf("without a request: %v", d.Effect)
	}
	for _, broken := range []gate.Request{Tool("", "alice"), Tool("search", "")} {
		if d, err := b.Phase.Check(t.Context(), &broken); d.Effect != gate.Deny || err == nil {
			t.Errorf("tool %q by %q: %v, %v", broken.Exposed, broken.Identity.Subject, d.Effect, err)
		}
	}
}

func testNames(t *testing.T, b Backend) {
	tools := []string{"a.b", "a b", "a=2Eb", "a:b", "ab", "a/b", "ü", strings.Repeat("x", 2000), "x\x00y", "*"}
	users := []string{"alice@example.com", "a b", "*", "auth0|123", "ALICE@example.com"}
	for i, tool := range tools {
		user := users[i%len(users)]
		b.Write(t, "tool:"+spicedb.EncodeID(tool)+"#executor@user:"+spicedb.EncodeID(user))
	}
	for i, tool := range tools {
		for j, user := range users {
			e := gate.Deny
			if j == i%len(users) {
				e = gate.Allow
			}
			want(t, b.Phase, Tool(tool, user), e)
		}
	}
}

func testLists(t *testing.T, b Backend) {
	const most = 450
	var grants []string
	for i := range most {
		switch {
		case i%3 == 0:
			grants = append(grants, fmt.Sprintf("tool:t%d#executor@user:alice", i))
		case i%7 == 0:
			grants = append(grants, fmt.Sprintf("tool:t%d#owner@user:alice", i), fmt.Sprintf("tool:t%d#banned@user:alice", i))
		}
	}
	b.Write(t, grants...)
	want(t, b.Phase, Tool("t0", "alice"), gate.Allow)
	for _, n := range []int{0, 1, 2, 200, 201, most} {
		list := make([]gate.Request, n)
		alice, bob := User("alice"), User("bob")
		for i := range list {
			list[i] = Tool(fmt.Sprintf("t%d", i), "alice")
			list[i].Action, list[i].Identity = gate.View, alice
		}
		compare(t, b.Phase, list)
		for i := range list {
			list[i].Identity = bob
		}
		compare(t, b.Phase, list)
	}
	mixed := []gate.Request{Tool("t0", "alice"), Tool("t1", "alice"), Tool("t0", "bob"), Tool("", "alice"), Tool("t3", "alice")}
	mixed[1].Kind, mixed[4].Action = mcp.Resource, gate.Enable
	compare(t, b.Phase, mixed)
}

// compare compares a list with single questions, before and after they were
// asked.
func compare(t *testing.T, p Phase, list []gate.Request) {
	t.Helper()
	allowed := 0
	var single []gate.Effect
	for range 2 {
		all, err := p.CheckAll(t.Context(), list)
		if err != nil || len(all) != len(list) {
			t.Fatalf("%d decisions for %d requests: %v", len(all), len(list), err)
		}
		if single == nil {
			for i := range list {
				d, _ := p.Check(t.Context(), &list[i])
				single = append(single, d.Effect)
			}
		}
		for i, d := range all {
			if d.Effect != single[i] {
				t.Fatalf("request %d of %d, %q by %s: %v in a list, %v alone", i, len(list), list[i].Exposed, list[i].Identity.Subject, d.Effect, single[i])
			}
			if d.Effect == gate.Allow {
				allowed++
			}
		}
	}
	if len(list) > 2 && list[0].Identity.Subject == "alice" && allowed == 0 {
		t.Fatal("nothing is allowed")
	}
}

func testHostileName(t *testing.T, b Backend) {
	b.Write(t, "tool:good#executor@user:alice")
	want(t, b.Phase, Tool("good", "alice"), gate.Allow)
	for _, n := range []int{100, 1000} {
		for _, bad := range []string{"a b", "", "x\xff", "=", "*", strings.Repeat("z", 5000)} {
			list := make([]gate.Request, n)
			for i := range list {
				list[i] = Tool(fmt.Sprintf("t%d", i), "alice")
			}
			list[n/2].Exposed = bad
			list[n-1] = Tool("good", "alice")
			all, err := b.Phase.CheckAll(t.Context(), list)
			if err != nil {
				t.Fatalf("with %.20q among %d: %v", bad, n, err)
			}
			for i, d := range all {
				if good := i == n-1; good != (d.Effect == gate.Allow) || i != n/2 && d.Err != nil {
					t.Fatalf("with %.20q among %d, %q: %v, %v", bad, n, list[i].Exposed, d.Effect, d.Err)
				}
			}
		}
	}
}

func testRevocation(t *testing.T, b Backend) {
	list := make([]gate.Request, 300)
	for i := range list {
		list[i] = Tool(fmt.Sprintf("t%d", i), "alice")
	}
	listed := func() bool {
		all, err := b.Phase.CheckAll(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		return all[7].Effect == gate.Allow
	}
	for range 5 {
		b.Write(t, "tool:t7#executor@user:alice")
		want(t, b.Phase, Tool("t7", "alice"), gate.Allow)
		if !testwait.Within(Soon, listed) {
			t.Fatal("granted, and not listed")
		}
		b.Delete(t, "tool:t7#executor@user:alice")
		want(t, b.Phase, Tool("t7", "alice"), gate.Deny)
		if listed() {
			t.Fatal("revoked for calls, and still listed")
		}
	}
}

func testExplain(t *testing.T, b Backend) {
	r := Tool("gh__x.y", "alice@example.com")
	e, err := b.Phase.Explain(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	if wanted := "zed permission check tool:gh__x=2Ey execute user:alice=40example=2Ecom"; e.Question != wanted {
		t.Errorf("question %q, want %q", e.Question, wanted)
	}
	if e.Effect != gate.Deny || e.Change == nil || e.Change.Where != spicedb.ChangeWrite || e.Change.Text == "" {
		t.Fatalf("explanation %+v", e)
	}
	b.Write(t, e.Change.Value)
	want(t, b.Phase, r, gate.Allow)
	if e, err = b.Phase.Explain(t.Context(), &r); err != nil || e.Effect != gate.Allow || e.Change != nil || e.Question == "" {
		t.Errorf("after the change: %+v, %v", e, err)
	}
	r.Kind = mcp.Resource
	if e, err = b.Phase.Explain(t.Context(), &r); err != nil || e.Change == nil {
		t.Fatalf("resource: %+v, %v", e, err)
	}
	b.Write(t, e.Change.Value)
	want(t, b.Phase, r, gate.Allow)
	r.Identity = nil
	if e, _ = b.Phase.Explain(t.Context(), &r); e.Effect != gate.Deny {
		t.Errorf("without an identity: %+v", e)
	}
}

func testExplainBan(t *testing.T, b Backend) {
	r := Tool("search", "alice")
	b.Write(t, "tool:search#executor@user:alice")
	want(t, b.Phase, r, gate.Allow)
	b.Write(t, "tool:search#banned@user:alice")
	want(t, b.Phase, r, gate.Deny)
	e, err := b.Phase.Explain(t.Context(), &r)
	if err != nil || e.Effect != gate.Deny || e.Change == nil || e.Change.Where != spicedb.ChangeDelete {
		t.Fatalf("explanation %+v, %v", e, err)
	}
	b.Delete(t, e.Change.Value)
	want(t, b.Phase, r, gate.Allow)
}

func testCaveats(t *testing.T, b Backend) {
	if !b.Caveats {
		return // its relationships carry none
	}
	b.Write(t,
		`tool:always#executor@user:alice[business_hours:{"from":0,"to":24}]`,
		`tool:never#executor@user:alice[business_hours:{"from":0,"to":0}]`,
		`tool:home#executor@user:alice[at_address:{"address":"10.0.0.1"}]`,
	)
	want(t, b.Phase, Tool("always", "alice"), gate.Allow)
	want(t, b.Phase, Tool("never", "alice"), gate.Deny)
	for range 2 {
		d, err := b.Phase.Check(t.Context(), new(Tool("home", "alice")))
		if err != nil || d.Effect != gate.Deny || !strings.HasSuffix(d.Reason, "only under a condition, which needs ip") {
			t.Errorf("conditional: %v, %q, %v", d.Effect, d.Reason, err)
		}
	}
	for _, n := range []int{10, 400} {
		list := make([]gate.Request, n)
		for i := range list {
			list[i] = Tool(fmt.Sprintf("t%d", i), "alice")
		}
		list[3], list[4] = Tool("home", "alice"), Tool("always", "alice")
		all, err := b.Phase.CheckAll(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		if all[3].Effect != gate.Deny || !strings.HasSuffix(all[3].Reason, "needs ip") || all[4].Effect != gate.Allow {
			t.Errorf("in a list of %d: %+v, %+v", n, all[3], all[4])
		}
	}
}

func testContext(t *testing.T, b Backend) {
	if !b.Caveats {
		return // its relationships carry none
	}
	b.Write(t, `tool:search#executor@user:alice[sent:{"want_action":"request","want_group":"ops"}]`)
	r := Tool("search", "alice")
	want(t, b.Phase, r, gate.Allow)
	change := func(f func(*gate.Identity)) gate.Request {
		id := *r.Identity
		id.Groups = slices.Clone(id.Groups)
		f(&id)
		return gate.Request{
			Action: r.Action, Kind: r.Kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed,
			CapabilityID: r.CapabilityID, Identity: gate.NewIdentity(id),
		}
	}
	view := r
	view.Action = gate.View
	for name, other := range map[string]gate.Request{
		"action":  view,
		"tenant":  change(func(id *gate.Identity) { id.Tenant = "other" }),
		"persona": change(func(id *gate.Identity) { id.Persona = "human" }),
		"groups":  change(func(id *gate.Identity) { id.Groups = []string{"dev"} }),
	} {
		if effect(t, b.Phase, other) != gate.Deny {
			t.Errorf("another %s is allowed", name)
		}
	}
	want(t, b.Phase, r, gate.Allow)
}
