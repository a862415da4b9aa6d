package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// counter is a rig whose gate demands approvals, with a real approval service.
type counter struct {
	*rig
	approvals *approval.Service
	b         *script

	mu      sync.Mutex
	demands []gate.Demand // of calls
	denied  bool          // calls are
	decided int           // number of decisions on calls
}

func (c *counter) demand(demands ...gate.Demand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.demands = demands
}

func (c *counter) deny() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = true
}

// newCounter serves the tool s__t of an era, which needs somebody's approval.
func newCounter(t *testing.T, era mcp.Era, change func(*approval.Options)) *counter {
	t.Helper()
	o := approval.Options{Settings: approval.Settings{By: []string{gate.ByRequester}, Wait: time.Millisecond}}
	if change != nil {
		change(&o)
	}
	c := &counter{b: newScript(t, "s", era, tool("t"), `prompt {"name":"p"}`, `resource {"uri":"file:///r","name":"r"}`)}
	c.approvals = approval.New(storetest.Running(t).Approvals(), nil)
	c.approvals.Set(o)
	c.demand(gate.Demand{Reason: "it deletes"})
	c.rig = newRig(t, mounted(c.b), func(o *Options, config *Config) {
		o.CapabilityIDs = func(_ context.Context, keys []CapabilityKey) ([]string, error) {
			ids := make([]string, len(keys))
			for i, k := range keys {
				ids[i] = "cap_" + k.Kind + k.Original
			}
			return ids, nil
		}
		config.Approver = c.approvals
		config.Chain = gate.NewChain(rule(func(_ context.Context, r *gate.Request) (gate.Decision, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if r.Action == gate.View {
				return gate.Decision{Effect: gate.Allow}, nil
			}
			if c.decided++; c.denied {
				return gate.Decision{Effect: gate.Deny, Reason: "taken away"}, nil
			}
			return gate.Decision{Effect: gate.Allow, Demands: slices.Clone(c.demands)}, nil
		}))
	})
	return c
}

func (c *counter) call(members string) *recorder {
	c.t.Helper()
	return c.modern("1", "tools/call", `"name":"s__t"`+members)
}

// pending is the one open question.
func (c *counter) pending() approval.Item {
	c.t.Helper()
	items, err := c.approvals.List(c.t.Context(), string(gate.ApprovalPending), 10)
	if err != nil || len(items) != 1 {
		c.t.Fatalf("%d questions, %v", len(items), err)
	}
	return items[0]
}

func (c *counter) calls() int { return len(c.b.seen("")) }

func requireKind(t *testing.T, w *recorder, kind string) {
	t.Helper()
	got, _ := mcp.LookupString([]byte(w.text()), "result", "_meta", refusal.Key, "kind")
	if data, ok := mcp.LookupString([]byte(w.text()), "error", "data", "kind"); ok {
		got = data
	}
	if got != kind {
		t.Errorf("kind %q, want %q: %s", got, kind, w.text())
	}
}

// A modern client is asked by an input request. Once it has agreed, the call is charged
// and made, once.
func TestRequesterIsAskedInRounds(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		c := newCounter(t, era, nil)
		w := c.call(`,"arguments":{"path":"/x"}`)
		message, _ := mcp.LookupString([]byte(w.text()), "result", "inputRequests", "approval", "params", "message")
		if want := `May s__t be called at the server s? Asked because it deletes. Arguments: {"path":"/x"}`; message != want {
			t.Fatalf("asked %q, want %q: %s", message, want, w.text())
		}
		if len(c.ledger.all()) != 0 || strings.Contains(strings.Join(c.steps(), " "), "charge") {
			t.Errorf("before the answer: %v", c.steps())
		}
		state := stateOf(t, w)
		yes := `,"arguments":{"path":"/x"},"inputResponses":{"approval":{"action":"accept","content":{}}},"requestState":"` + state + `"`
		if w := c.call(strings.Replace(yes, `"/x"`, `"/y"`, 1)); !strings.Contains(w.text(), "Invalid requestState") {
			t.Errorf("an answer for other arguments: %s", w.text())
		}
		if w := c.modern("1", "tools/call", `"name":"s__t"`+yes, "Authorization", "Bearer bob"); !strings.Contains(w.text(), "Invalid requestState") {
			t.Errorf("an answer of another: %s", w.text())
		}
		if n := c.calls(); n != 0 {
			t.Fatalf("%d calls before the answer", n)
		}
		if w := c.call(yes); !strings.Contains(w.text(), `"resultType":"complete"`) {
			t.Fatalf("after yes: %s", w.text())
		}
		if w := c.call(yes); !strings.Contains(w.text(), "Invalid requestState") {
			t.Errorf("the same answer again: %s", w.text())
		}
		if n := c.calls(); n != 1 {
			t.Fatalf("%d calls for one answer", n)
		}
		if got := string(c.b.seen("")[0].Params); strings.Contains(got, "inputResponses") || strings.Contains(got, "requestState") {
			t.Errorf("the server saw %s", got)
		}
		done := c.ledger.all()
		if last := done[len(done)-2]; last.Outcome != audit.OutcomeOK || last.Rounds != 1 {
			t.Errorf("audit %+v", last)
		}
	}
}

func TestRequesterSaysNo(t *testing.T) {
	c := newCounter(t, mcp.Legacy, nil)
	state := stateOf(t, c.call(""))
	no := c.call(`,"inputResponses":{"approval":{"action":"decline"}},"requestState":"` + state + `"`)
	requireKind(t, no, "approval_denied")
	if code := mcp.Lookup([]byte(no.text()), "result", "_meta", refusal.Key, "code"); string(code) != "1004" {
		t.Errorf("code %s", code)
	}
	requireKind(t, c.call(""), "approval_denied")
	// Only a yes counts as one; after anything else the question stays open.
	const other = `,"arguments":{"n":1}`
	for _, answer := range []string{`{"approval":{"action":"cancel"}}`, `{"approval":{"action":"Accept"}}`, `{"approval":{}}`, `{"other":{"action":"accept"}}`, `{}`} {
		state := stateOf(t, c.call(other))
		if w := c.call(other + `,"inputResponses":` + answer + `,"requestState":"` + state + `"`); stateOf(t, w) == state {
			t.Errorf("%s: %s", answer, w.text())
		}
	}
	if c.calls() != 0 {
		t.Error("a call was made")
	}
}

// A legacy client is asked by a request on the stream of its call.
func TestRequesterIsAskedOnTheStream(t *testing.T) {
	for answer, made := range map[string]int{
		`"result":{"action":"accept","content":{}}`: 1, `"result":{"action":"decline"}`: 0, `"result":{"action":"cancel"}`: 0, `"error":{"code":-1,"message":"no"}`: 0,
	} {
		c := newCounter(t, mcp.Legacy, nil)
		c.run()
		w := c.stdio(person("alice"))
		w.send(initBody, request("1", "tools/call", `{"name":"s__t","arguments":{"n":1}}`))
		testwait.Until(t, patience, "the person is asked", func() bool { return strings.Contains(w.out.String(), `"method":"elicitation/create"`) })
		if got := w.out.String(); !strings.Contains(got, `"id":"toolgate-1"`) || !strings.Contains(got, `"requestedSchema":{"type":"object","properties":{}}`) {
			t.Errorf("asked %s", got)
		}
		w.send(`{"jsonrpc":"2.0","id":"toolgate-1",` + answer + `}`)
		testwait.Until(t, patience, "the call is answered", func() bool { return strings.Contains(w.out.String(), `"id":1,`) })
		if n := c.calls(); n != made {
			t.Errorf("%s: %d calls: %s", answer, n, w.out.String())
		}
	}
}

// A caller who cannot be asked, or may not answer, waits for others.
func TestOthersAreAsked(t *testing.T) {
	c := newCounter(t, mcp.Legacy, func(o *approval.Options) { o.By = []string{gate.ByOperator} })
	w := c.call("")
	requireKind(t, w, "approval_pending")
	item := c.pending()
	if got, _ := mcp.LookupString([]byte(w.text()), "result", "_meta", refusal.Key, "approval"); got != item.ID || !strings.Contains(w.text(), "an operator") {
		t.Errorf("%s, want %s", w.text(), item.ID)
	}
	requireKind(t, c.call(""), "approval_pending")
	if _, err := c.approvals.Decide(t.Context(), c.pending().ID, true, approval.Answerer{Name: "root", Operator: true}, "fine"); err != nil {
		t.Fatal(err)
	}
	// The grant is for the same call only.
	requireKind(t, c.call(`,"arguments":{"other":1}`), "approval_pending")
	if w := c.modern("1", "tools/call", `"name":"s__t"`, "Authorization", "Bearer bob"); c.calls() != 0 {
		t.Fatalf("bob uses the grant of alice: %s", w.text())
	}
	if w := c.call(""); !strings.Contains(w.text(), `"resultType":"complete"`) || c.calls() != 1 {
		t.Fatalf("after the grant: %s", w.text())
	}
	requireKind(t, c.call(""), "approval_pending")
	if c.calls() != 1 {
		t.Error("a grant was used twice")
	}
}

// A denied call is refused with the reason when it is repeated, and nobody is asked.
func TestDenialIsRemembered(t *testing.T) {
	c := newCounter(t, mcp.Legacy, func(o *approval.Options) { o.By = []string{gate.ByOperator} })
	requireKind(t, c.call(""), "approval_pending")
	root := approval.Answerer{Name: "root", Operator: true}
	denied := c.pending()
	if _, err := c.approvals.Decide(t.Context(), denied.ID, false, root, "not on Fridays"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := c.call("")
		if requireKind(t, w, "approval_denied"); !strings.Contains(w.text(), "not on Fridays. It is not asked about again before ") {
			t.Errorf("%s", w.text())
		}
	}
	requireKind(t, c.call(`,"arguments":{"other":1}`), "approval_pending")
	if w := c.modern("1", "tools/call", `"name":"s__t"`, "Authorization", "Bearer bob"); strings.Contains(w.text(), "Fridays") {
		t.Errorf("bob is told of the denial of another: %s", w.text())
	}
	if _, err := c.approvals.Retract(t.Context(), denied.ID, root); err != nil {
		t.Fatal(err)
	}
	requireKind(t, c.call(""), "approval_pending")
	if c.calls() != 0 {
		t.Errorf("%d calls", c.calls())
	}
}

// A requester who was not shown all arguments must confirm that to approve.
func TestRequesterApprovesOfWhatIsNotShown(t *testing.T) {
	c := newCounter(t, mcp.Legacy, nil)
	args := `,"arguments":{"note":"` + strings.Repeat("blah ", 1000) + `","amount":999999}`
	answer := func(w *recorder, content string) *recorder {
		return c.call(args + `,"inputResponses":{"approval":{"action":"accept","content":` + content + `}},"requestState":"` + stateOf(t, w) + `"`)
	}
	w := c.call(args)
	text := []byte(w.text())
	message, _ := mcp.LookupString(text, "result", "inputRequests", "approval", "params", "message")
	if n := strings.Count(message, "bytes of the arguments are not shown"); n != 2 || !strings.Contains(message, `"amount":999999`) {
		t.Errorf("asked %q", message)
	}
	required := mcp.Lookup(text, "result", "inputRequests", "approval", "params", "requestedSchema", "required")
	if string(required) != `["approve_unseen"]` {
		t.Errorf("the form requires %s", required)
	}
	w = answer(w, `{}`)
	if c.calls() != 0 || !strings.Contains(w.text(), `"inputRequests"`) {
		t.Fatalf("%d calls: %s", c.calls(), w.text())
	}
	if w = answer(w, `{"approve_unseen":true}`); c.calls() != 1 || !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("%d calls: %s", c.calls(), w.text())
	}
}

// A call that waited is decided on again before it is made.
func TestRevokedWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *counter){
		"revoked":          (*counter).deny,
		"another approval": func(c *counter) { c.demand(gate.Demand{By: []string{"board"}}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounter(t, mcp.Legacy, func(o *approval.Options) { o.By, o.Wait = []string{gate.ByOperator}, time.Minute })
			w, _ := c.begin(modernRequest(modernBody("1", "tools/call", `"name":"s__t"`, "")))
			testwait.Until(t, patience, "the question is there", func() bool {
				items, err := c.approvals.List(t.Context(), "pending", 1)
				return err == nil && len(items) == 1
			})
			time.AfterFunc(maxDecisionAge, func() {
				change(c)
				if _, err := c.approvals.Decide(context.Background(), c.pending().ID, true, approval.Answerer{Name: "root", Operator: true}, ""); err != nil {
					t.Error(err)
				}
			})
			<-w.done
			if c.calls() != 0 || !strings.Contains(w.text(), `"isError":true`) {
				t.Errorf("%d calls: %s", c.calls(), w.text())
			}
		})
	}
}

// A call that began without an approval cannot continue when it needs one now. An
// approved call is not asked about again in later rounds.
func TestRoundsAndApprovals(t *testing.T) {
	begin := func(t *testing.T, approved bool) (*counter, string) {
		c := newCounter(t, mcp.Modern, nil)
		c.b.reply = asking(t, 1).reply
		if !approved {
			c.demand()
			return c, stateOf(t, c.call(""))
		}
		state := stateOf(t, c.call(""))
		return c, stateOf(t, c.call(`,"inputResponses":{"approval":{"action":"accept"}},"requestState":"`+state+`"`))
	}
	next := func(c *counter, state string) *recorder {
		return c.call(`,"inputResponses":{"q":{"action":"accept"}},"requestState":"` + state + `"`)
	}
	c, state := begin(t, true)
	if w := next(c, state); !strings.Contains(w.text(), `"resultType":"complete"`) {
		t.Errorf("an approved call in its second round: %s", w.text())
	}
	c, state = begin(t, false)
	c.demand(gate.Demand{Reason: "since a moment"})
	requireKind(t, next(c, state), "approval_needed")
	if c.calls() != 1 {
		t.Errorf("%d calls", c.calls())
	}
}

// A call that needs an approval and cannot get one is refused.
func TestNobodyToAsk(t *testing.T) {
	c := newCounter(t, mcp.Legacy, nil)
	config := *c.config.Load()
	config.Approver = nil
	c.Apply(config)
	requireKind(t, c.call(""), "approval_needed")
	requireKind(t, c.modern("1", "completion/complete", `"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"a","value":""}`), "approval_needed")
	requireKind(t, c.modern("1", "prompts/get", `"name":"s__p"`), "approval_needed")
	session := c.open()
	if w := c.legacy(session, "2", "resources/subscribe", `{"uri":"s+file:///r"}`); !strings.Contains(w.text(), "approval") {
		t.Errorf("a subscription: %s", w.text())
	}
	if c.calls() != 0 {
		t.Errorf("%d calls", c.calls())
	}
}

// Prompts and resources are approved like tools.
func TestOtherKindsAreApproved(t *testing.T) {
	c := newCounter(t, mcp.Legacy, nil)
	for _, call := range [][2]string{{"prompts/get", `"name":"s__p"`}, {"resources/read", `"uri":"s+file:///r"`}, {"resources/read", `"uri":"s+file:///not/listed"`}} {
		before := c.calls()
		state := stateOf(t, c.modern("1", call[0], call[1]))
		w := c.modern("1", call[0], call[1]+`,"inputResponses":{"approval":{"action":"accept"}},"requestState":"`+state+`"`)
		if c.calls() != before+1 || strings.Contains(w.text(), `"error"`) {
			t.Errorf("%s: %s", call, w.text())
		}
	}
}
