package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// offerBoth replaces the backend's lists for clients that it may ask something, and for
// all others.
func (b *script) offerBoth(t testing.TB, capabilities string, full, plain []string) {
	t.Helper()
	other := newScript(t, b.name, mcp.Legacy)
	other.offer(t, mcp.Legacy, capabilities, plain...)
	b.offer(t, mcp.Legacy, capabilities, full...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listing.WithoutCapabilities = other.listing
}

// newVarying returns a legacy backend that lists a, and confirm to clients that it may
// ask something, fallback to all others.
func newVarying(t testing.TB, name string) *script {
	b := &script{name: name}
	b.offerBoth(t, everything, []string{tool("a"), tool("confirm")}, []string{tool("a"), tool("fallback")})
	return b
}

// openAs initializes a legacy session of a client with capabilities.
func (r *rig) openAs(version mcp.Version, capabilities string, headers ...string) string {
	r.t.Helper()
	w := r.post(request("0", "initialize", `{"protocolVersion":"`+string(version)+`","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`), headers...)
	if w.code() != http.StatusOK || w.field("Mcp-Session-Id") == "" {
		r.t.Fatalf("initialize: status %d, %s", w.code(), w.text())
	}
	return w.field("Mcp-Session-Id")
}

func TestListsWithoutClientFeatures(t *testing.T) {
	full, plain := []string{"s__a", "s__confirm"}, []string{"s__a", "s__fallback"}
	elicitation, all := Questions{Elicitation: true}, Questions{Sampling: true, Elicitation: true, Roots: true}
	for _, tt := range []struct {
		declared string
		may      Questions
		want     []string
	}{
		{`{}`, all, plain},
		{`{"experimental":{"elicitation":{}},"tasks":{}}`, all, plain},
		{`{"elicitation":null,"sampling":true,"roots":[]}`, all, plain},
		{`{"elicitation":{}}`, all, full},
		{`{"sampling":{}}`, all, full},
		{`{"roots":{"listChanged":true}}`, all, full},
		{`{"roots":{}}`, elicitation, plain}, // nothing that this server may ask
		{`{"roots":{},"sampling":{}}`, elicitation, plain},
		{`{"roots":{},"elicitation":{}}`, elicitation, full},
	} {
		for _, version := range []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
			b := newVarying(t, "s")
			mounts := mounted(b)
			mounts[0].Questions = tt.may
			r := newRig(t, mounts)
			session := r.openAs(version, tt.declared)
			got, _ := listed(t, mcp.Tool, r.legacy(session, "1", "tools/list", ""))
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, declared %s to a server that may ask %+v: %q, want %q", version, tt.declared, tt.may, got, tt.want)
				continue
			}
			// Calls follow the list: tools of the other set are as unknown as nonsense.
			for _, name := range []string{"s__a", "s__confirm", "s__fallback"} {
				before := len(b.seen(mcp.MethodToolsCall))
				answer := r.legacy(session, "7", "tools/call", `{"name":"`+name+`"}`).text()
				calls := b.seen(mcp.MethodToolsCall)
				if !slices.Contains(tt.want, name) {
					nonsense := strings.ReplaceAll(r.legacy(session, "7", "tools/call", `{"name":"s__nonsense"}`).text(), "s__nonsense", name)
					if answer != nonsense || len(calls) != before {
						t.Errorf("%s, which is not listed, is answered %s; nonsense %s", name, answer, nonsense)
					}
					continue
				}
				if len(calls) != before+1 || calls[before].WithoutCapabilities != slices.Equal(tt.want, plain) {
					t.Errorf("declared %s: %s, which is listed, was called as %+v", tt.declared, name, calls[before:])
				}
			}
		}
	}
}

// The lists of a modern client do not depend on what it declares.
func TestModernClientsAreShownTheFullList(t *testing.T) {
	b := newVarying(t, "s")
	r := newRig(t, mounted(b))
	nothing := strings.Replace(modernBody("1", "tools/list", "", ""), `{"sampling":{},"elicitation":{"form":{}}}`, `{}`, 1)
	got, _ := listed(t, mcp.Tool, r.do(modernRequest(nothing)))
	if want := []string{"s__a", "s__confirm"}; !slices.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	r.modern("1", "tools/call", `"name":"s__confirm"`)
	if calls := b.seen(mcp.MethodToolsCall); len(calls) != 1 || calls[0].WithoutCapabilities {
		t.Errorf("calls %+v", calls)
	}
}

// A batch, in which no client can be asked, uses the session's lists.
func TestBatchesAreAnsweredFromTheListOfTheSession(t *testing.T) {
	r := newRig(t, mounted(newVarying(t, "s")))
	session := r.openAs(mcp.V20250326, `{"elicitation":{}}`)
	got := r.post(`[`+request("1", "tools/list", "")+`]`, "Mcp-Session-Id", session).text()
	if !strings.Contains(got, "s__confirm") || strings.Contains(got, "s__fallback") {
		t.Errorf("the batch is answered %s", got)
	}
}

// What is equal in both sets has one name, one id and one decision. A case collision in
// one set does not rename anything in the other.
func TestNamesAndIDsAreOfBothSets(t *testing.T) {
	b := &script{name: "s"}
	b.offerBoth(t, everything,
		[]string{tool("read"), tool("both"), `prompt {"name":"ask"}`, `resource {"uri":"x:a","name":"a"}`},
		[]string{tool("Read"), tool("both"), `resource {"uri":"x:a","name":"a"}`, `template {"uriTemplate":"x:{b}","name":"b"}`})
	var issued []CapabilityKey
	var told []string
	r := newRig(t, mounted(b), func(o *Options, c *Config) {
		c.Listed = func(names []string) { told = names }
		o.CapabilityIDs = func(_ context.Context, keys []CapabilityKey) ([]string, error) {
			issued = append(issued, keys...)
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = k.Kind + " " + k.Original
			}
			return ids, nil
		}
	})
	if len(issued) != 6 || len(slices.Compact(slices.Clone(issued))) != 6 {
		t.Errorf("ids are issued for %v", issued)
	}
	snap := r.snapshot.Load()
	names := make(map[string][]string) // by capability id
	for _, c := range snap.everyCatalog() {
		for _, kind := range mcp.Kinds {
			for _, route := range c.lists[kind].entries {
				if route.CapabilityID != kind.String()+" "+route.Original {
					t.Errorf("%s has the id %q", route.Original, route.CapabilityID)
				}
				names[route.CapabilityID] = append(names[route.CapabilityID], route.Exposed)
			}
		}
	}
	for id, n := range names {
		if len(slices.Compact(n)) != 1 {
			t.Errorf("%s has the names %q", id, n)
		}
	}
	if names["tool read"][0] == "s__read" || names["tool Read"][0] == "s__Read" || names["tool read"][0] == names["tool Read"][0] {
		t.Errorf("twins of two sets are named %q and %q", names["tool read"], names["tool Read"])
	}
	if got := r.Names(); !slices.IsSorted(got) || len(got) != 6 || !slices.Equal(got, told) {
		t.Errorf("the names of everything are %q", got)
	}
	// Why explains items that only some clients see.
	if w := r.Why(t.Context(), person("alice"), Scope{}, names["tool Read"][0], nil); w == nil || w.Original != "Read" {
		t.Errorf("why says %+v of what is in the plain set alone", w)
	}
}

// A server that lists the same to everyone costs nothing more.
func TestOneSetIsOneCatalog(t *testing.T) {
	r := newRig(t, mounted(newScript(t, "s", mcp.Legacy, tool("a")), newScript(t, "m", mcp.Modern, tool("b"))))
	snap := r.snapshot.Load()
	for features, c := range snap.byFeatures {
		if c != snap.catalog {
			t.Errorf("clients that can be asked %b have a catalog of their own", features)
		}
	}
	if snap.varies() || snap.catalog.byServer["s"].withoutFeatures != nil {
		t.Error("a second set is kept")
	}
}

// Each client sees the right set of each server, whatever the other servers do, and
// equal catalogs are shared.
func TestCatalogsBySet(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var mounts []Mount
		for i := range 1 + random.IntN(4) {
			b := newScript(t, fmt.Sprintf("s%d", i), mcp.Legacy, tool("a"))
			m := Mount{Backend: b, Namespace: b.name}
			if random.IntN(2) == 0 {
				m.Backend = newVarying(t, b.name)
			}
			m.Questions = Questions{Sampling: random.IntN(2) == 0, Elicitation: random.IntN(2) == 0, Roots: random.IntN(2) == 0}
			mounts = append(mounts, m)
		}
		snap := newRig(t, mounts).snapshot.Load()
		for features := range allFeatures + 1 {
			for i := range mounts {
				q := mounts[i].Questions
				asked := q.Sampling && features&samplingFeature != 0 || q.Elicitation && features&elicitationFeature != 0 || q.Roots && features&rootsFeature != 0
				l, _ := mounts[i].Backend.Listing()
				want := l.WithoutCapabilities != nil && !asked && q != (Questions{})
				if got := snap.catalogOf(person("alice"), features).byServer[mounts[i].Backend.Name()].isWithoutFeatures; got != want {
					t.Fatalf("clients that can be asked %03b at a server that may ask %+v: plain %v, want %v", features, q, got, want)
				}
			}
		}
	}
}

// A client is told of a change if the lists of its own set have changed.
func TestListChangedBySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newVarying(t, "s")
		r := newRig(t, mounted(b)).run()
		streams := map[string]*recorder{}
		for name, capabilities := range map[string]string{"full": `{"elicitation":{}}`, "plain": `{}`} {
			streams[name], _ = r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", r.openAs(mcp.V20251125, capabilities)))
		}
		streams["full modern"], _ = r.begin(modernRequest(modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")))
		hears := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			for name, w := range streams {
				told := strings.Count(w.next(), `"method":"notifications/tools/list_changed"`)
				expected := 0
				for _, who := range want {
					if strings.HasPrefix(name, who) {
						expected = 1
					}
				}
				if told != expected {
					t.Errorf("%s: %s was told %d times, want %d", when, name, told, expected)
				}
			}
		}
		offer := func(announced [2]uint64, full, plain []string) {
			b.offerBoth(t, everything, full, plain)
			b.mu.Lock()
			b.listing.Announced = map[mcp.Kind]uint64{mcp.Tool: announced[0]}
			b.listing.WithoutCapabilities.Announced = map[mcp.Kind]uint64{mcp.Tool: announced[1]}
			b.mu.Unlock()
			r.Changed("s")
		}
		a, confirm, fallback := tool("a"), tool("confirm"), tool("fallback")
		hears("at the beginning")
		offer([2]uint64{}, []string{a, confirm, tool("b")}, []string{a, fallback})
		hears("one more in the full set", "full")
		offer([2]uint64{}, []string{a, confirm, tool("b")}, []string{a})
		hears("one less in the plain set", "plain")
		offer([2]uint64{}, []string{a, confirm, tool("b")}, nil)
		hears("nothing in the plain set", "plain")
		offer([2]uint64{}, []string{a, confirm}, []string{a})
		hears("another in each", "full", "plain")
		offer([2]uint64{1, 0}, []string{a, confirm}, []string{a})
		hears("announced where it may ask", "full")
		offer([2]uint64{1, 1}, []string{a, confirm}, []string{a})
		hears("announced where it may not", "plain")
		b.offer(t, mcp.Legacy, everything, a, confirm)
		b.mu.Lock()
		b.listing.Announced = map[mcp.Kind]uint64{mcp.Tool: 1}
		b.mu.Unlock()
		r.Changed("s")
		hears("one set for everyone", "plain")
		offer([2]uint64{1, 4}, []string{a, confirm}, []string{confirm, a})
		hears("two sets with the same tools")
	})
}

// The result of initialize describes the set of the client.
func TestInitializeByClientFeatures(t *testing.T) {
	b := &script{name: "s"}
	b.offerBoth(t, `{"tools":{}}`, []string{tool("a")}, []string{tool("a"), `prompt {"name":"p"}`})
	b.listing.Instructions, b.listing.WithoutCapabilities.Instructions = "I may ask.", "I shall not ask."
	b.listing.WithoutCapabilities.Capabilities = []byte(`{"tools":{},"prompts":{}}`)
	r := newRig(t, mounted(b))
	initialize := func(capabilities string) string {
		return r.post(request("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`}`)).text()
	}
	if got := initialize(`{"elicitation":{}}`); !strings.Contains(got, "s__*: I may ask.") || strings.Contains(got, `"prompts"`) {
		t.Errorf("initialize with client features: %s", got)
	}
	if got := initialize(`{}`); !strings.Contains(got, "s__*: I shall not ask.") || !strings.Contains(got, `"prompts"`) {
		t.Errorf("initialize without client features: %s", got)
	}
}

// Each set has its own subscriptions and updates, because a server keeps them per
// connection.
func TestSubscriptionsBySet(t *testing.T) {
	b := &script{name: "s"}
	item := `resource {"uri":"x:a","name":"a"}`
	b.offerBoth(t, everything, []string{item, tool("confirm")}, []string{item})
	r := newRig(t, mounted(b))
	full, plain := r.openAs(mcp.V20251125, `{"elicitation":{}}`), r.openAs(mcp.V20251125, `{}`)
	streams := map[string]*recorder{}
	for _, session := range []string{full, plain} {
		r.legacy(session, "1", "resources/subscribe", `{"uri":"s+x:a"}`)
		w, cancel := r.begin(httpRequest("GET", "/mcp", "", "Mcp-Session-Id", session))
		t.Cleanup(cancel)
		streams[session] = w
	}
	var at []bool
	for _, call := range b.seen(mcp.MethodSubscribe) {
		at = append(at, call.WithoutCapabilities)
	}
	if diff := cmp.Diff([]bool{false, true}, at); diff != "" {
		t.Fatalf("subscriptions at the server (-want +got):\n%s", diff)
	}
	testwait.Until(t, patience, "the streams are attached", func() bool {
		for _, s := range r.sessions.list() {
			s.mu.Lock()
			attached := s.out != nil
			s.mu.Unlock()
			if !attached {
				return false
			}
		}
		return true
	})
	told := func(session string) bool {
		return strings.Contains(streams[session].text(), mcp.NotifyResourceUpdated)
	}
	update := mcp.Event{Server: "s", Principal: person("alice").Key(), Method: mcp.NotifyResourceUpdated, Params: []byte(`{"uri":"x:a"}`), WithoutCapabilities: true}
	r.Happened(update)
	testwait.Until(t, patience, "the session without capabilities is told", func() bool { return told(plain) })
	if told(full) {
		t.Error("the other set is told")
	}
	update.WithoutCapabilities = false
	r.Happened(update)
	testwait.Until(t, patience, "the other session is told", func() bool { return told(full) })
	r.legacy(plain, "2", "resources/unsubscribe", `{"uri":"s+x:a"}`)
	if calls := b.seen(mcp.MethodUnsubscribe); len(calls) != 1 || !calls[0].WithoutCapabilities {
		t.Errorf("unsubscribed with %+v", calls)
	}
}

// The gate decides on both sets alike.
func TestTheGateHoldsForBothSets(t *testing.T) {
	r := newRig(t, mounted(newVarying(t, "s")), func(_ *Options, c *Config) {
		c.Chain = gate.NewChain(rule(func(_ context.Context, q *gate.Request) (gate.Decision, error) {
			if q.Exposed == "s__a" || q.Exposed == "s__fallback" && q.Action == gate.Call {
				return gate.Decision{Effect: gate.Deny, Reason: "it is held"}, nil
			}
			return gate.Decision{Effect: gate.Allow}, nil
		}))
	})
	session := r.openAs(mcp.V20251125, `{}`)
	if got, _ := listed(t, mcp.Tool, r.legacy(session, "1", "tools/list", "")); !slices.Equal(got, []string{"s__fallback"}) {
		t.Errorf("the list is %q", got)
	}
	if got := r.legacy(session, "1", "tools/call", `{"name":"s__fallback"}`).text(); !strings.Contains(got, "it is held") {
		t.Errorf("the call is answered %s", got)
	}
}

// What both sets have is listed to everyone with the definition of the full one, and
// offered to the registry once.
func TestSetsShareDefinitions(t *testing.T) {
	full := newScript(t, "s", mcp.Legacy, tool("both"), tool("asks"))
	plain := newScript(t, "p", mcp.Legacy, `tool {"name":"both","description":"another","inputSchema":{"type":"object"}}`, tool("alone"))
	listing := *full.listing
	listing.WithoutCapabilities = plain.listing
	shared, same := sharedDefinitions(&listing, listing.WithoutCapabilities)
	if same || string(shared.Items[mcp.Tool][0].Raw) != string(full.listing.Items[mcp.Tool][0].Raw) || shared.Items[mcp.Tool][1].Key != "alone" {
		t.Errorf("%v, %s", same, shared.Items[mcp.Tool][0].Raw)
	}
	if !strings.Contains(string(plain.listing.Items[mcp.Tool][0].Raw), "another") {
		t.Error("the server's own listing was changed")
	}
	full.listing = &listing
	r := newRig(t, mounted(full))
	var names []string
	for _, o := range r.snapshot.Load().catalog.byServer["s"].offer.Items {
		names = append(names, o.Original)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"alone", "asks", "both"}) {
		t.Errorf("offered %v", names)
	}
	listing.WithoutCapabilities = newScript(t, "p", mcp.Legacy, `tool {"name":"asks","inputSchema":{}}`, tool("both")).listing
	if _, same := sharedDefinitions(&listing, listing.WithoutCapabilities); !same {
		t.Error("sets with the same names are two")
	}
}
