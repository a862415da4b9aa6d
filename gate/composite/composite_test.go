package composite_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/composite"
	"github.com/toolgate/toolgate/internal/mcp"
)

// rights is a phase that allows what a table says.
type rights map[string]gate.Effect // by action and exposed name; allowed where it is not there

func (r rights) Part() gate.Part {
	return gate.Part{Name: "rights", ViewClass: func(*gate.Identity) (string, bool) { return "all", true }, Check: func(_ context.Context, q *gate.Request) (gate.Decision, error) {
		effect, written := r[string(q.Action)+" "+q.Exposed]
		switch {
		case !written:
			return gate.Decision{Effect: gate.Allow}, nil
		case effect == gate.Abstain:
			return gate.Decision{}, errors.New("the service is down")
		}
		return gate.Decision{Effect: effect, Reason: "not yours"}, nil
	}}
}

func offers(names ...string) []*gate.Offer {
	o := &gate.Offer{Server: "github"}
	for _, name := range names {
		o.Items = append(o.Items, gate.Offered{Kind: mcp.Tool, Original: name, Exposed: "github__" + name, Definition: []byte(`{}`)})
	}
	return []*gate.Offer{o}
}

var report = composite.Tool{Server: "tools", Original: "report"}

// A tool is for those who may view and call all that it calls, and for nobody while one of
// them is not there.
func TestAllParts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rights rights
		there  []string
		want   gate.Effect
		reason string
		broken bool
	}{
		"all":           {there: []string{"list", "get", "more"}, want: gate.Allow},
		"nothing known": {want: gate.Deny, reason: "it calls github__get, which is not there"},
		"one missing":   {there: []string{"get"}, want: gate.Deny, reason: "it calls github__list, which is not there"},
		"one hidden":    {rights: rights{"view github__list": gate.Deny}, there: []string{"list", "get"}, want: gate.Deny, reason: "it calls github__list, which the caller may not view: rights: not yours"},
		"one to look at": {
			rights: rights{"request github__get": gate.Deny}, there: []string{"list", "get"}, want: gate.Deny,
			reason: "it calls github__get, which the caller may not call: rights: not yours",
		},
		"another hidden": {rights: rights{"view github__more": gate.Deny}, there: []string{"list", "get", "more"}, want: gate.Allow},
		"undecided":      {rights: rights{"view github__list": gate.Abstain}, there: []string{"list", "get"}, want: gate.Deny, reason: "policy_error", broken: true},
	} {
		others := gate.NewChain(tc.rights)
		p := composite.New(composite.Options{
			Of:    map[composite.Tool][]string{report: {"github__get", "github__list"}},
			Views: others, Calls: func() *gate.Chain { return others },
		})
		if tc.there != nil {
			p.Learn(offers(tc.there...))
		}
		chain := gate.NewChain(tc.rights, p)
		for _, action := range []gate.Action{gate.View, gate.Call} {
			d := chain.Decide(t.Context(), &gate.Request{
				Action: action, Kind: mcp.Tool, Server: "tools", Original: "report", Exposed: "tools__report", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local}),
			})
			if d.Effect != tc.want || d.Reason != tc.reason || (d.Err != nil) != tc.broken {
				t.Errorf("%s: %s: %+v", name, action, d)
			}
		}
	}
}

// What is withheld is not there, unless another server offers the name.
func TestWithheldIsNotThere(t *testing.T) {
	t.Parallel()
	others := gate.NewChain(gate.Open{})
	p := composite.New(composite.Options{
		Of: map[composite.Tool][]string{report: {"github__get"}}, Views: others, Calls: func() *gate.Chain { return others },
	})
	chain := gate.NewChain(gate.Open{}, p)
	withheld, another := offers("get"), offers("get")
	withheld[0].Items[0].Withheld = true
	for i, tc := range []struct {
		offers []*gate.Offer
		want   gate.Effect
	}{
		{offers("get"), gate.Allow}, {withheld, gate.Deny}, {append(another, withheld...), gate.Allow}, {withheld, gate.Deny}, {offers("get"), gate.Allow},
	} {
		p.Learn(tc.offers)
		d := chain.Decide(t.Context(), &gate.Request{
			Action: gate.Call, Kind: mcp.Tool, Server: "tools", Original: "report", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local}),
		})
		if d.Effect != tc.want {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// A name that its server does not get, because it is one of another server, is not there.
func TestShadowedIsNotThere(t *testing.T) {
	t.Parallel()
	others := gate.NewChain(gate.Open{})
	p := composite.New(composite.Options{
		Of: map[composite.Tool][]string{report: {"github__get"}}, Views: others, Calls: func() *gate.Chain { return others },
	})
	chain := gate.NewChain(gate.Open{}, p)
	item := gate.Offered{Kind: mcp.Tool, Original: "github__get", Exposed: "github__get"}
	shadowing := &gate.Offer{Server: "free", Items: []gate.Offered{item}}
	own := &gate.Offer{Server: "github", Namespace: "github"}
	for i, tc := range []struct {
		offers []*gate.Offer
		want   gate.Effect
	}{{[]*gate.Offer{shadowing}, gate.Allow}, {[]*gate.Offer{shadowing, own}, gate.Deny}, {[]*gate.Offer{own, shadowing}, gate.Deny}} {
		p.Learn(tc.offers)
		d := chain.Decide(t.Context(), &gate.Request{
			Action: gate.Call, Kind: mcp.Tool, Server: "tools", Original: "report", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local}),
		})
		if d.Effect != tc.want {
			t.Errorf("%d: %+v", i, d)
		}
	}
}

// No server takes the place of the gateway's own tools.
func TestNamesOfTheGatewayAreItsOwn(t *testing.T) {
	t.Parallel()
	others := gate.NewChain(gate.Open{})
	for _, native := range []bool{false, true} {
		p := composite.New(composite.Options{
			Of: map[composite.Tool][]string{report: {"toolgate__find"}}, Views: others, Calls: func() *gate.Chain { return others },
		})
		p.Learn([]*gate.Offer{{Server: "free", Native: native, Items: []gate.Offered{{Kind: mcp.Tool, Original: "toolgate__find", Exposed: "toolgate__find"}}}})
		if parts, _ := p.Parts(report); (parts[0] != nil) != native {
			t.Errorf("native=%t: %+v", native, parts)
		}
	}
}

// A decision about arguments is left to the call, and what else decides still counts.
func TestArgumentsAreLeftToTheCalls(t *testing.T) {
	t.Parallel()
	none := gate.NewChain()
	p := composite.New(composite.Options{
		Of: map[composite.Tool][]string{report: {"github__get"}}, Views: gate.NewChain(gate.Open{}), Calls: func() *gate.Chain { return none },
	})
	p.Learn(offers("get"))
	d := gate.NewChain(gate.Open{}, p).Decide(t.Context(), &gate.Request{
		Action: gate.Call, Kind: mcp.Tool, Server: "tools", Original: "report", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local}),
	})
	if d.Effect != gate.Allow {
		t.Errorf("%+v", d)
	}
}

// What is pinned and what is cached follow what there is.
func TestChangesAreSeen(t *testing.T) {
	t.Parallel()
	others := gate.NewChain(gate.Open{})
	p := composite.New(composite.Options{
		Of: map[composite.Tool][]string{report: {"github__get"}}, Views: others, Calls: func() *gate.Chain { return others },
	})
	chain, id := gate.NewChain(gate.Open{}, p), gate.NewIdentity(gate.Identity{Principal: gate.Local})
	tool := &gate.Capability{Kind: mcp.Tool, Server: "tools", Original: "report"}
	sees := func(c *gate.Chain) bool {
		for _, d := range gate.Views(t.Context(), c, id, "", []*gate.Capability{tool}, func(c *gate.Capability) *gate.Capability { return c }) {
			return d.Effect == gate.Allow
		}
		return false
	}
	before := chain.Pin()
	if sees(chain) || !before.Same(chain.Pin()) {
		t.Error("it is there before its part is")
	}
	p.Learn(offers("get", "list"))
	after := chain.Pin()
	if !sees(chain) || sees(before) || !sees(after) || before.Same(after) {
		t.Error("the part that came is not seen, or in the past")
	}
	p.Learn(offers("get"))
	if !after.Same(chain.Pin()) {
		t.Error("another tool of the server changes the rules")
	}
	p.Learn(offers())
	if sees(chain) {
		t.Error("it is there without its part")
	}
}

// serverDenied is a phase that denies what one server offers.
type serverDenied string

func (s serverDenied) Part() gate.Part {
	return gate.Part{Name: "servers", Check: func(_ context.Context, q *gate.Request) (gate.Decision, error) {
		if q.Server == string(s) {
			return gate.Decision{Effect: gate.Deny, Reason: "not yours"}, nil
		}
		return gate.Decision{Effect: gate.Allow}, nil
	}}
}

// Where two servers offer one exposed name, the caller needs both, in whatever order they
// are listed.
func TestOneNameOfTwoServers(t *testing.T) {
	t.Parallel()
	one, two := offers("get")[0], offers("get")[0]
	two.Server = "other"
	for _, denied := range []string{"github", "other", "none"} {
		for _, all := range [][]*gate.Offer{{one, two}, {two, one}} {
			others := gate.NewChain(serverDenied(denied))
			p := composite.New(composite.Options{
				Of: map[composite.Tool][]string{report: {"github__get"}}, Views: others, Calls: func() *gate.Chain { return others },
			})
			p.Learn(all)
			if parts, _ := p.Parts(report); len(parts) != 2 {
				t.Errorf("%d parts", len(parts))
			}
			d := gate.NewChain(gate.Open{}, p).Decide(t.Context(), &gate.Request{
				Action: gate.Call, Kind: mcp.Tool, Server: "tools", Original: "report", Identity: gate.NewIdentity(gate.Identity{Principal: gate.Local}),
			})
			if (d.Effect == gate.Allow) != (denied == "none") {
				t.Errorf("without %s: %+v", denied, d)
			}
		}
	}
}

// A call that fits none of the servers with its name stops the tool that makes it, and those
// that call this one.
func TestMisfits(t *testing.T) {
	t.Parallel()
	outer := composite.Tool{Server: "tools", Original: "outer"}
	p := composite.New(composite.Options{
		Of:    map[composite.Tool][]string{report: {"github__get"}, outer: {"github__get", "tools__report"}},
		Views: gate.NewChain(gate.Open{}), Calls: func() *gate.Chain { return nil },
		Fits: func(of composite.Tool, call string, definition []byte) []composite.Misfit {
			if of != report || string(definition) == `{"fits":true}` {
				return nil
			}
			return []composite.Misfit{{Text: "a step does not fit " + call, Ends: true}, {Text: "another may fail"}}
		},
	})
	itself := &gate.Offer{Server: "tools", Items: []gate.Offered{{Kind: mcp.Tool, Original: "report", Exposed: "tools__report"}}}
	misfit, fitting := append(offers("get"), itself), append(offers("get"), itself)
	fitting[0].Items[0].Definition = []byte(`{"fits":true}`)
	for i, tc := range []struct {
		offers []*gate.Offer
		stops  string
		all    int
	}{{misfit, "a step does not fit github__get", 2}, {append(slices.Clone(misfit), fitting[0]), "", 0}, {fitting, "", 0}, {nil, "", 0}, {misfit, "a step does not fit github__get", 2}} {
		p.Learn(tc.offers)
		for _, tool := range []composite.Tool{report, outer} {
			if got := p.Stops(tool); got != tc.stops {
				t.Errorf("%d: %v: %q", i, tool, got)
			}
		}
		if got := p.Misfits(); len(got) != tc.all {
			t.Errorf("%d: %q", i, got)
		}
	}
}
