package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

func newService(t *testing.T, s *store.Store, change func(*approval.Options)) *approval.Service {
	t.Helper()
	o := approval.Options{Settings: approval.Settings{By: []string{"security"}, Wait: time.Hour, Valid: time.Hour}}
	if change != nil {
		change(&o)
	}
	d := approval.New(s.Approvals(), nil)
	d.Set(o)
	return d
}

var (
	alice = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "keys", Tenant: "acme", Subject: "alice"}, Groups: []string{"security"}})
	bob   = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "idp", Tenant: "acme", Subject: "bob"}, Groups: []string{"security"}})
	carol = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "idp", Tenant: "other", Subject: "carol"}, Groups: []string{"security"}})
	dave  = gate.NewIdentity(gate.Identity{Principal: gate.Principal{Issuer: "idp", Tenant: "acme", Subject: "dave"}, Groups: []string{"sales", gate.ByOperator, gate.ByRequester}})
)

// question is a call of alice.
func question(hash string, by ...string) *gate.Question {
	return &gate.Question{
		Identity: alice, CapabilityID: "cap_1", Server: "fs", Name: "fs__delete", Args: []byte(`{"path":"/x"}`), ArgsHash: hash,
		Demands: []gate.Demand{{Reason: "it is destructive", By: by}},
	}
}

func ask(t *testing.T, d *approval.Service, q *gate.Question) gate.Approval {
	t.Helper()
	a, err := d.Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Whose answer counts, for a call of alice.
func TestWhoMayAnswer(t *testing.T) {
	s := storetest.Running(t)
	d := newService(t, s, nil)
	for name, tc := range map[string]struct {
		by   []string // nil is what is configured: security
		who  approval.Answerer
		want bool
	}{
		"somebody of the group":            {who: approval.Answerer{Name: "bob", Identity: bob}, want: true},
		"alice herself, who is of it":      {who: approval.Answerer{Name: "alice", Identity: alice}},
		"the group of another tenant":      {who: approval.Answerer{Name: "carol", Identity: carol}},
		"another group":                    {who: approval.Answerer{Name: "dave", Identity: dave}},
		"a group called operator":          {by: []string{gate.ByOperator}, who: approval.Answerer{Name: "dave", Identity: dave}},
		"a group called requester":         {by: []string{gate.ByRequester}, who: approval.Answerer{Name: "dave", Identity: dave}},
		"an operator where not named":      {who: approval.Answerer{Name: "root", Operator: true}},
		"an operator":                      {by: []string{gate.ByOperator}, who: approval.Answerer{Name: "root", Operator: true}, want: true},
		"an operator with an identity":     {who: approval.Answerer{Name: "root", Operator: true, Identity: bob}, want: true},
		"an operator for an own call":      {by: []string{gate.ByOperator}, who: approval.Answerer{Name: "root", Operator: true, Identity: alice}},
		"one who is vouched for":           {who: approval.Answerer{Name: "x", Subject: "erin", Tenant: "acme", Groups: []string{"security"}}, want: true},
		"the caller, vouched for":          {who: approval.Answerer{Name: "x", Subject: "alice", Tenant: "acme", Groups: []string{"security"}}},
		"vouched for at another tenant":    {who: approval.Answerer{Name: "x", Subject: "erin", Tenant: "other", Groups: []string{"security"}}},
		"vouched for at no tenant":         {who: approval.Answerer{Name: "x", Subject: "erin", Groups: []string{"security"}}},
		"groups of nobody":                 {who: approval.Answerer{Name: "x", Groups: []string{"security"}}},
		"vouched for beside an identity":   {who: approval.Answerer{Name: "x", Identity: dave, Subject: "erin", Tenant: "acme", Groups: []string{"security"}}},
		"nobody":                           {who: approval.Answerer{}},
		"without a name":                   {who: approval.Answerer{Identity: bob}},
		"nobody may":                       {by: []string{}, who: approval.Answerer{Name: "root", Operator: true, Identity: bob}},
		"vouched for as the word operator": {by: []string{gate.ByOperator}, who: approval.Answerer{Name: "x", Subject: "erin", Tenant: "acme", Groups: []string{gate.ByOperator}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(t, d, question(name, tc.by...))
			if tc.by != nil && len(tc.by) == 0 {
				q := question(name + "!")
				q.Demands[0].By = []string{}
				a = ask(t, d, q)
			}
			item, err := d.Decide(t.Context(), a.ID, true, tc.who, "because")
			if tc.want && (err != nil || item.State != "granted" || item.DecidedBy != tc.who.Name || item.Reason != "because") {
				t.Errorf("%+v, %v; want a grant", item, err)
			}
			if !tc.want && !errors.Is(err, approval.ErrNotYours) {
				t.Errorf("%+v, %v; want ErrNotYours", item, err)
			}
		})
	}
}

// The requester answers where that is said, and for its own call only.
func TestRequesterAnswers(t *testing.T) {
	d := newService(t, storetest.Running(t), func(o *approval.Options) { o.By = []string{gate.ByRequester} })
	q := question("1")
	a := ask(t, d, q)
	other := *q
	other.Identity = bob
	if _, err := d.Answer(t.Context(), &other, a.ID, true); !errors.Is(err, approval.ErrNotYours) {
		t.Errorf("bob answers for alice: %v", err)
	}
	otherArgs := *q
	otherArgs.ArgsHash = "2"
	if _, err := d.Answer(t.Context(), &otherArgs, a.ID, true); !errors.Is(err, approval.ErrNotYours) {
		t.Errorf("an answer for other arguments: %v", err)
	}
	if got, err := d.Answer(t.Context(), q, "apr_none", true); err != nil || got.State != gate.ApprovalExpired {
		t.Errorf("an answer to nothing: %+v, %v", got, err)
	}
	if got, err := d.Answer(t.Context(), q, a.ID, false); err != nil || got.State != gate.ApprovalDenied {
		t.Errorf("%+v, %v", got, err)
	}
	// What was said counts, and not what is said afterwards.
	if got, err := d.Answer(t.Context(), q, a.ID, true); err != nil || got.State != gate.ApprovalDenied {
		t.Errorf("said otherwise later: %+v, %v", got, err)
	}
	group := question("3", "security")
	a = ask(t, d, group)
	if _, err := d.Answer(t.Context(), group, a.ID, true); !errors.Is(err, approval.ErrNotYours) {
		t.Errorf("alice answers for the group: %v", err)
	}
}

// Equal calls share a question, and one of them uses the grant.
func TestGrantIsUsedOnce(t *testing.T) {
	d := newService(t, storetest.Running(t), nil)
	q := question("1")
	first, second := ask(t, d, q), ask(t, d, q)
	if first.ID != second.ID || first.State != gate.ApprovalPending {
		t.Fatalf("%+v, %+v", first, second)
	}
	if ok, err := d.Use(t.Context(), q); ok || err != nil {
		t.Fatalf("used before it was granted: %v, %v", ok, err)
	}
	if _, err := d.Decide(t.Context(), first.ID, true, approval.Answerer{Name: "bob", Identity: bob}, ""); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, d, q); a.State != gate.ApprovalGranted || a.ID != first.ID || a.Decider != "bob" {
		t.Errorf("%+v", a)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	used := 0
	for range 8 {
		wg.Go(func() {
			ok, err := d.Use(t.Context(), q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ok {
				used++
			}
		})
	}
	wg.Wait()
	if used != 1 {
		t.Errorf("used %d times", used)
	}
	if a := ask(t, d, q); a.State != gate.ApprovalPending || a.ID == first.ID {
		t.Errorf("afterwards: %+v", a)
	}
	if _, err := d.Decide(t.Context(), first.ID, false, approval.Answerer{Name: "bob", Identity: bob}, ""); !errors.Is(err, approval.ErrDecided) {
		t.Errorf("decided on what was used: %v", err)
	}
	if _, err := d.Decide(t.Context(), "apr_x", true, approval.Answerer{Name: "bob", Identity: bob}, ""); !errors.Is(err, approval.ErrUnknown) {
		t.Errorf("decided on nothing: %v", err)
	}
}

// A denial is the answer to the same call until it expires, or until somebody who
// may takes it back.
func TestDenialStands(t *testing.T) {
	asked := 0
	d := newService(t, storetest.Running(t), func(o *approval.Options) { o.Asked = func(approval.Item) { asked++ } })
	bobs := approval.Answerer{Name: "bob", Identity: bob}
	q := question("1")
	first := ask(t, d, q)
	if _, err := d.Decide(t.Context(), first.ID, false, bobs, "never"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := ask(t, d, q)
		if got.ID != first.ID || got.State != gate.ApprovalDenied || got.Reason != "never" || time.Until(got.Until) < 59*time.Minute {
			t.Errorf("asked again: %+v", got)
		}
	}
	if found, ok, err := d.Find(t.Context(), q); !ok || err != nil || found.State != gate.ApprovalDenied {
		t.Errorf("Find = %+v, %v, %v", found, ok, err)
	}
	if other := ask(t, d, question("2")); other.State != gate.ApprovalPending {
		t.Errorf("other arguments: %+v", other)
	}
	for _, who := range []approval.Answerer{{Name: "alice", Identity: alice}, {Name: "carol", Identity: carol}, {Name: "dave", Identity: dave}, {}} {
		if _, err := d.Retract(t.Context(), first.ID, who); !errors.Is(err, approval.ErrNotYours) {
			t.Errorf("%+v takes it back: %v", who, err)
		}
	}
	if _, err := d.Retract(t.Context(), "apr_x", bobs); !errors.Is(err, approval.ErrUnknown) {
		t.Error(err)
	}
	if _, err := d.Retract(t.Context(), first.ID, bobs); err != nil {
		t.Error(err)
	}
	if _, err := d.Retract(t.Context(), first.ID, approval.Answerer{Name: "root", Operator: true}); !errors.Is(err, approval.ErrNoDenial) {
		t.Errorf("taken back twice: %v", err)
	}
	if got := ask(t, d, q); got.State != gate.ApprovalPending || got.ID == first.ID || asked != 3 {
		t.Errorf("afterwards, with %d questions: %+v", asked, got)
	}
	// What others are to answer now was not denied by them.
	moved := question("3", "sales", "security")
	if _, err := d.Decide(t.Context(), ask(t, d, moved).ID, false, bobs, ""); err != nil {
		t.Fatal(err)
	}
	moved.Demands[0].By = []string{"board"}
	if got := ask(t, d, moved); !strings.Contains(got.Reason, "make the call again") {
		t.Errorf("other conditions: %+v", got)
	}
	if got := ask(t, d, moved); got.State != gate.ApprovalPending {
		t.Errorf("asked anew: %+v", got)
	}
}

// Whoever approves of arguments that were not all shown says which call is meant.
func TestUnseenArgumentsNeedTheirHash(t *testing.T) {
	d := newService(t, storetest.Running(t), nil)
	q := question("1")
	q.Args = []byte(`{"note":"Monthly licence fee, 10 EUR.` + strings.Repeat(" ", 16400) + `","amount":999999}`)
	a := ask(t, d, q)
	item, err := d.Get(t.Context(), a.ID)
	if err != nil || item.ArgsMissing < 15000 || item.ArgsBytes != len(q.Args) || !strings.Contains(item.Arguments, `"amount":999999`) {
		t.Fatalf("%+v, %v", item, err)
	}
	who := approval.Answerer{Name: "bob", Identity: bob}
	for _, hash := range []string{"", "2"} {
		who.Hash = hash
		if _, err := d.Decide(t.Context(), a.ID, true, who, ""); !errors.Is(err, approval.ErrUnseen) {
			t.Errorf("approved with the hash %q: %v", hash, err)
		}
	}
	who.Hash = "1"
	if got, err := d.Decide(t.Context(), a.ID, true, who, ""); err != nil || got.State != "granted" {
		t.Errorf("%+v, %v", got, err)
	}
	// What was shown in full needs none, and takes none of another call.
	short := ask(t, d, question("2"))
	if _, err := d.Decide(t.Context(), short.ID, true, who, ""); !errors.Is(err, approval.ErrUnseen) {
		t.Errorf("the hash of another call: %v", err)
	}
	who.Hash = ""
	if _, err := d.Decide(t.Context(), short.ID, true, who, ""); err != nil {
		t.Error(err)
	}
	q.ArgsHash = "3"
	if _, err := d.Decide(t.Context(), ask(t, d, q).ID, false, who, ""); err != nil {
		t.Errorf("denied without having seen all: %v", err)
	}
}

// A call is not covered by an answer that was given under other conditions.
func TestConditionsChange(t *testing.T) {
	d := newService(t, storetest.Running(t), nil)
	for name, grant := range map[string]bool{"pending": false, "granted": true} {
		old := question(name, "sales", "security")
		a := ask(t, d, old)
		if grant {
			if _, err := d.Decide(t.Context(), a.ID, true, approval.Answerer{Name: "bob", Identity: bob}, ""); err != nil {
				t.Fatal(err)
			}
		}
		now := question(name, "board")
		if got := ask(t, d, now); got.State != gate.ApprovalDenied || got.ID != a.ID {
			t.Errorf("%s: %+v", name, got)
		}
		if ok, err := d.Use(t.Context(), now); ok || err != nil {
			t.Errorf("%s: used: %v, %v", name, ok, err)
		}
		if got := ask(t, d, now); got.State != gate.ApprovalPending || got.ID == a.ID || got.By[0][0] != "board" {
			t.Errorf("%s: asked anew: %+v", name, got)
		}
		// Another wording alone changes nothing.
		again := question(name, "board")
		again.Demands[0].Reason = "in other words"
		if got := ask(t, d, again); got.State != gate.ApprovalPending {
			t.Errorf("%s: other words: %+v", name, got)
		}
	}
}

// What was asked of some is neither answered nor used where others are to
// answer by then, whether the call says so or the configuration.
func TestOthersAreToAnswerNow(t *testing.T) {
	requester := func(o *approval.Options) { o.By = []string{gate.ByRequester} }
	security := approval.Options{Settings: approval.Settings{By: []string{"security"}}}
	for name, tc := range map[string]struct {
		change func(d *approval.Service, now *gate.Question)
		want   gate.ApprovalState
	}{
		"the call":          {func(_ *approval.Service, now *gate.Question) { now.Demands[0].By = []string{"security"} }, gate.ApprovalDenied},
		"the configuration": {func(d *approval.Service, _ *gate.Question) { d.Set(security) }, gate.ApprovalDenied},
		"one more": {func(_ *approval.Service, now *gate.Question) {
			now.Demands = append(now.Demands, gate.Demand{By: []string{"security"}})
		}, gate.ApprovalDenied},
		"other words": {func(_ *approval.Service, now *gate.Question) { now.Demands[0].Reason = "words" }, gate.ApprovalGranted},
	} {
		for _, when := range []string{"before the answer", "behind it"} {
			t.Run(name+", "+when, func(t *testing.T) {
				d := newService(t, storetest.Running(t), requester)
				now := question("1")
				a := ask(t, d, now)
				if when == "before the answer" {
					tc.change(d, now)
				}
				got, err := d.Answer(t.Context(), now, a.ID, true)
				if when == "behind it" {
					if got.State != gate.ApprovalGranted || err != nil {
						t.Fatalf("%+v, %v", got, err)
					}
					tc.change(d, now)
				} else if got.State != tc.want || err != nil {
					t.Errorf("%+v, %v; want %s", got, err, tc.want)
				}
				if ok, err := d.Use(t.Context(), now); ok != (tc.want == gate.ApprovalGranted) || err != nil {
					t.Errorf("used: %v, %v", ok, err)
				}
				if got := ask(t, d, now); got.State != gate.ApprovalPending || got.ID == a.ID {
					t.Errorf("asked anew: %+v", got)
				}
			})
		}
	}
}

func TestAwait(t *testing.T) {
	s := storetest.Running(t)
	asking := newService(t, s, nil)
	q := question("1")
	a := ask(t, asking, q)
	// Answered at another gateway, whose change the store tells of.
	answering := newService(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	watching := make(chan error, 1)
	go func() {
		watching <- s.Watch(ctx, func(topic string, _ int64) {
			if topic == store.TopicApprovals {
				asking.Changed()
			}
		})
	}()
	got := make(chan gate.Approval, 1)
	go func() {
		defer close(got)
		if one, err := asking.Await(t.Context(), a.ID); err != nil {
			t.Error(err)
		} else {
			got <- one
		}
	}()
	if _, err := answering.Decide(t.Context(), a.ID, true, approval.Answerer{Name: "bob", Identity: bob}, ""); err != nil {
		t.Fatal(err)
	}
	if one := <-got; one.State != gate.ApprovalGranted {
		t.Errorf("%+v", one)
	}
	cancel()
	if err := <-watching; err != nil {
		t.Error(err)
	}

	short := newService(t, s, func(o *approval.Options) { o.Wait = time.Millisecond })
	b := ask(t, short, question("2"))
	if one, err := short.Await(t.Context(), b.ID); err != nil || one.State != gate.ApprovalPending {
		t.Errorf("after the wait: %+v, %v", one, err)
	}
	over := newService(t, s, func(o *approval.Options) { o.Valid = 20 * time.Millisecond })
	c := ask(t, over, question("3"))
	if one, err := over.Await(t.Context(), c.ID); err != nil || one.State != gate.ApprovalExpired {
		t.Errorf("after the deadline: %+v, %v", one, err)
	}
	if ok, err := over.Use(t.Context(), question("3")); ok || err != nil {
		t.Errorf("the deadline does not mean deny: %v, %v", ok, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := asking.Await(ended, ask(t, asking, question("4")).ID); !errors.Is(err, context.Canceled) {
		t.Errorf("the client went away: %v", err)
	}
}

func TestAskedTellsOfTheCall(t *testing.T) {
	var told []approval.Item
	d := newService(t, storetest.Running(t), func(o *approval.Options) { o.Asked = func(i approval.Item) { told = append(told, i) } })
	q := question("1")
	q.Name = strings.Repeat("n", 5000)
	q.Args = []byte(`"` + strings.Repeat("a", 20<<10) + `"`)
	ask(t, d, q)
	ask(t, d, q)
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	got := told[0]
	if len(got.Tool) > 300 || len(got.Arguments) > 16<<10 || got.ArgsBytes != len(q.Args) || got.ArgsMissing < 4<<10 || got.Subject != "alice" || got.Reasons[0] != "it is destructive" {
		t.Errorf("%d %d %d %d %q %v", len(got.Tool), len(got.Arguments), got.ArgsBytes, got.ArgsMissing, got.Subject, got.Reasons)
	}
	items, err := d.List(t.Context(), "pending", 10)
	if err != nil || len(items) != 1 || items[0].ID != got.ID {
		t.Errorf("%v, %v", items, err)
	}
	if _, err := json.Marshal(items); err != nil {
		t.Error(err)
	}
}

func TestTooManyQuestions(t *testing.T) {
	d := newService(t, storetest.Running(t), nil)
	for i := range 64 {
		ask(t, d, question(strings.Repeat("h", i+1)))
	}
	if _, err := d.Ask(t.Context(), question("one more")); !errors.Is(err, gate.ErrTooManyQuestions) {
		t.Errorf("%v", err)
	}
}

func TestZeroServiceRefuses(t *testing.T) {
	for name, d := range map[string]*approval.Service{"zero": {}, "nil": nil} {
		if _, err := d.Ask(t.Context(), question("1")); err == nil {
			t.Errorf("%s: Ask", name)
		}
		if _, err := d.Await(t.Context(), "x"); err == nil {
			t.Errorf("%s: Await", name)
		}
		if _, err := d.Answer(t.Context(), question("1"), "x", true); err == nil {
			t.Errorf("%s: Answer", name)
		}
		if ok, err := d.Use(t.Context(), question("1")); ok || err == nil {
			t.Errorf("%s: Use", name)
		}
		if _, err := d.Decide(t.Context(), "x", true, approval.Answerer{Name: "a", Operator: true}, ""); err == nil {
			t.Errorf("%s: Decide", name)
		}
	}
	if _, err := approval.New(nil, nil).Ask(t.Context(), question("1")); err == nil {
		t.Error("a service without a store")
	}
	d := newService(t, storetest.Running(t), nil)
	if _, err := d.Ask(t.Context(), &gate.Question{Identity: alice}); err == nil {
		t.Error("a question without a demand")
	}
}
