//go:build !windows

package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/inside"
	"github.com/toolgate/toolgate/internal/lineclient"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
)

// planned plans a call in an hour and returns its id.
func planned(t *testing.T, c *lineclient.Client, tool, args string) string {
	t.Helper()
	got := text(t, c, "schedule__at", fmt.Sprintf(`{"tool":%q,"arguments":%s,"in":"1h"}`, tool, args))
	id, ok := mcp.LookupString([]byte(got), "id")
	if !ok {
		t.Fatalf("plan %s: %s", tool, got)
	}
	return id
}

// due lets the time of all planned calls come, as if they had been planned for it.
func (r *running) due(t *testing.T) {
	t.Helper()
	err := r.Store.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		tx.Bump(store.TopicSchedules)
		list, err := plannedCalls(ctx, tx)
		for i := range list {
			one := &list[i]
			if opened, wrong := r.Keys().Open(inside.PlannedCall, inside.SealedWith(one), string(one.Arguments)); wrong == nil {
				one.DueAt = time.Now()
				sealed, wrong := r.Keys().Seal(inside.PlannedCall, inside.SealedWith(one), opened)
				if wrong != nil {
					return wrong
				}
				one.Arguments = []byte(sealed)
			}
			if err == nil {
				_, err = tx.Exec(ctx, `UPDATE schedules SET due_at = ?, arguments = ? WHERE id = ?`, min(one.DueAt.UnixNano(), time.Now().UnixNano()), one.Arguments, one.ID)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plannedCalls returns the calls that are planned, of everybody.
func plannedCalls(ctx context.Context, tx *store.Tx) (list []store.Schedule, err error) {
	rows, err := tx.Query(ctx, `SELECT id, principal, credential, capsule, tool, due_at, arguments FROM schedules WHERE state = 'planned'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one store.Schedule
		var at int64
		if err := rows.Scan(&one.ID, &one.Principal, &one.Credential, &one.Capsule, &one.Tool, &at, &one.Arguments); err != nil {
			return nil, err
		}
		one.DueAt = time.Unix(0, at)
		list = append(list, one)
	}
	return list, rows.Err()
}

// became waits for the end of a call of a principal and returns what is kept of it.
func (r *running) became(t *testing.T, who, id string) (one store.Schedule) {
	t.Helper()
	if !testwait.Within(patience, func() bool {
		list, err := store.NewSchedules(r.Store).List(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		for _, one = range list {
			if one.ID == id && !one.EndedAt.IsZero() {
				return true
			}
		}
		return false
	}) {
		t.Fatalf("%s has not ended: %+v", id, one)
	}
	return one
}

// asked waits for a question to a person and returns its id.
func (r *running) asked(t *testing.T) (id string) {
	t.Helper()
	testwait.Until(t, patience, "the question", func() bool {
		list, err := r.Approvals(t.Context(), store.ApprovalPending)
		if err != nil || len(list) == 0 {
			return false
		}
		id = list[0].ID
		return true
	})
	return id
}

// keyed is a configuration in which the owners of keys may call everything, and so on.
func keyed(change func(section map[string]any), keys ...string) map[string]any {
	section := withKeys(keys...)
	section["native"] = map[string]any{"util": map[string]any{}, "schedule": map[string]any{}}
	section["approvals"] = map[string]any{"wait": "1s"}
	if change != nil {
		change(section)
	}
	return section
}

// A planned call is one of its owner: audited, decided and answered like every other. It
// is seen by nobody else.
func TestPlannedCallIsMade(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := fake("one")
	server["env"] = map[string]any{"API_TOKEN": "correct-horse-battery-staple"}
	h.write(t, servers{"a": server}, keyed(nil, "alice", "bob"))
	r := h.newRunning(t)
	r.settle(t)
	alice, bob := r.Client(t, "alice"), r.Client(t, "bob")
	id := planned(t, alice, "util__echo", `{"text":"with correct-horse-battery-staple"}`)
	for tool, args := range map[string]string{"schedule__list": `{"id":"` + id + `"}`, "schedule__cancel": `{"id":"` + id + `"}`} {
		if got := text(t, bob, tool, args); !strings.Contains(got, "You have") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	for tool, want := range map[string]string{"util__nothing": "There is no tool", "schedule__list": "does not schedule others", "schedule__at": "does not schedule others"} {
		if got := text(t, alice, "schedule__at", `{"tool":"`+tool+`","in":"1h"}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	cancelled := planned(t, alice, "util__echo", `{"text":"never"}`)
	text(t, alice, "schedule__cancel", `{"id":"`+cancelled+`"}`)
	wrong := planned(t, alice, "util__echo", `{"words":1}`)
	r.due(t)
	owner, err := r.Identities.Identity(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.became(t, owner.Key(), id); got.State != store.ScheduleMade || !strings.HasPrefix(string(got.Result), "with [redacted") || got.CallID == "" {
		t.Errorf("made: %+v, %s", got, got.Result)
	}
	if got := r.became(t, owner.Key(), wrong); got.State != store.ScheduleRefused || !strings.Contains(string(got.Result), "input schema") {
		t.Errorf("wrong arguments: %+v, %s", got, got.Result)
	}
	if got := r.became(t, owner.Key(), cancelled); got.State != store.ScheduleCancelled {
		t.Errorf("cancelled: %+v", got)
	}
	if got := text(t, alice, "schedule__list", `{}`); !strings.Contains(got, `"state":"made"`) || !strings.Contains(got, "[redacted") {
		t.Errorf("listed: %s", got)
	}
	if got := text(t, bob, "schedule__list", `{}`); got != `{"calls":[]}` {
		t.Errorf("listed to another: %s", got)
	}
}

// The arguments of a planned call are those of the schema that its caller was shown,
// whatever the default is.
func TestPlannedCallIsWrittenForTheSchemaOfItsEndpoint(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := fake(`schema={"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`)
	h.write(t, servers{"a": server}, keyed(nil, "alice"))
	r := h.newRunning(t)
	r.settle(t)
	owner, err := r.Identities.Identity(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, arguments, state, result string }{
		{"/mcp/strict", `{}`, store.ScheduleMade, `{"a":null}`},
		{"/mcp/strict", `{"a":"x"}`, store.ScheduleMade, `{"a":"x"}`},
		{"/mcp/verbatim", `{"a":null}`, store.ScheduleMade, `{"a":null}`},
		{"/mcp", `{}`, store.ScheduleRefused, "input schema"},
	} {
		got := r.modern(t, "alice", tt.path, mcp.MethodToolsCall, "schedule__at", `"name":"schedule__at","arguments":{"tool":"a__echo","arguments":`+tt.arguments+`,"in":"1h"},`)
		_, id, _ := strings.Cut(got.body, `sch_`)
		if len(id) < 26 {
			t.Fatalf("%s %s: %s", tt.path, tt.arguments, got.body)
		}
		r.due(t)
		if one := r.became(t, owner.Key(), "sch_"+id[:26]); one.State != tt.state || !strings.Contains(string(one.Result), tt.result) {
			t.Errorf("%s %s: %+v, %s", tt.path, tt.arguments, one, one.Result)
		}
	}
}

// A call is made with the rights that its owner has when it is due.
func TestPlannedCallHasTheRightsOfItsTime(t *testing.T) {
	t.Parallel()
	native := func(section map[string]any, groups ...string) {
		on := map[string]any{}
		for _, g := range groups {
			on[g] = map[string]any{}
		}
		section["native"] = on
	}
	for name, tc := range map[string]struct {
		keys        []string // that are there when it is due
		change      func(section map[string]any)
		state, text string
	}{
		"as before": {keys: []string{"alice", "bob"}, state: store.ScheduleMade, text: "hello"},
		"no key":    {keys: []string{"bob"}, state: store.ScheduleRefused, text: "not accepted any more"},
		"no tool":   {keys: []string{"alice"}, change: func(s map[string]any) { native(s, "schedule") }, state: store.ScheduleRefused, text: "Unknown tool"},
		"a capsule": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["auth"].(map[string]any)["keys"].([]any)[0].(map[string]any)["groups"] = []string{"new"} // which it had not when it planned
			s["capsules"] = map[string]any{"c": map[string]any{"groups": []string{"new"}, "visible": []string{"util__*"}, "callable": []string{"util__timestamp"}}}
			delete(s, "gate")
		}, state: store.ScheduleRefused, text: "not allowed"},
		"a mode": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["governance"] = map[string]any{"tools": map[string]any{"util__echo": map[string]any{"forbidden_in_modes": []string{"NORMAL"}}}}
		}, state: store.ScheduleRefused, text: "NORMAL"},
		"an approval": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["governance"] = map[string]any{"tools": map[string]any{"util__echo": map[string]any{"requires_approval": true}}}
		}, state: store.ScheduleRefused, text: "waits for the approval of an operator"},
		"a budget": {keys: []string{"alice"}, change: func(s map[string]any) {
			s["budgets"] = []any{map[string]any{"name": "none", "unit": "calls", "limit": 0, "window": "day", "per": "subject"}}
		}, state: store.ScheduleRefused, text: "budget"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, servers{}, keyed(nil, "alice", "bob"))
			r := h.newRunning(t)
			r.settle(t)
			owner, err := r.Identities.Identity(t.Context(), "alice")
			if err != nil {
				t.Fatal(err)
			}
			id := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"hello"}`)
			h.write(t, servers{}, keyed(tc.change, tc.keys...))
			if _, err := r.Reload(); err != nil {
				t.Fatal(err)
			}
			r.due(t)
			if got := r.became(t, owner.Key(), id); got.State != tc.state || !strings.Contains(string(got.Result), tc.text) {
				t.Errorf("%s: %s, want %s: %s", got.State, got.Result, tc.state, tc.text)
			}
		})
	}
}

// A call that needs an approval asks for it when it is due, and is made when it is given.
func TestPlannedCallIsApproved(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, keyed(func(s map[string]any) {
		s["governance"] = map[string]any{"tools": map[string]any{"util__echo": map[string]any{"requires_approval": true}}}
		s["approvals"] = map[string]any{"wait": "1m"}
	}, "alice"))
	r := h.newRunning(t)
	r.settle(t)
	owner, err := r.Identities.Identity(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	id := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"hello"}`)
	if list, err := r.Approvals(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("asked before its time: %v, %v", list, err)
	}
	r.due(t)
	if _, err := r.Answer(t.Context(), r.asked(t), admin.Answer{Do: admin.Approve}); err != nil {
		t.Fatal(err)
	}
	if got := r.became(t, owner.Key(), id); got.State != store.ScheduleMade || string(got.Result) != "hello" {
		t.Errorf("%+v, %s", got, got.Result)
	}
}

// A caller who loses its key or its rights while its call waits for an approval does not have
// the call made.
func TestPlannedCallWaitsAndItsOwnerChanges(t *testing.T) {
	t.Parallel()
	asks := func(s map[string]any) {
		s["governance"] = map[string]any{"tools": map[string]any{"util__echo": map[string]any{"requires_approval": true}}}
		s["approvals"] = map[string]any{"wait": "1m"}
	}
	for name, tc := range map[string]struct {
		keys   []string // afterwards
		change func(s map[string]any)
		text   string
	}{
		"no key": {keys: []string{"bob"}, text: "no longer accepted"},
		"other groups": {keys: []string{"alice", "bob"}, text: "not allowed", change: func(s map[string]any) {
			s["auth"].(map[string]any)["keys"].([]any)[0].(map[string]any)["groups"] = []string{"new"}
			s["capsules"] = map[string]any{"c": map[string]any{"groups": []string{"new"}, "visible": []string{"util__*"}, "callable": []string{"util__timestamp"}}}
			delete(s, "gate")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write(t, servers{}, keyed(asks, "alice", "bob"))
			r := h.newRunning(t)
			r.settle(t)
			owner, err := r.Identities.Identity(t.Context(), "alice")
			if err != nil {
				t.Fatal(err)
			}
			id := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"hello"}`)
			r.due(t)
			question := r.asked(t)
			h.write(t, servers{}, keyed(func(s map[string]any) {
				asks(s)
				if tc.change != nil {
					tc.change(s)
				}
			}, tc.keys...))
			if _, err := r.Reload(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Answer(t.Context(), question, admin.Answer{Do: admin.Approve}); err != nil {
				t.Fatal(err)
			}
			if got := r.became(t, owner.Key(), id); got.State != store.ScheduleRefused || !strings.Contains(string(got.Result), tc.text) {
				t.Errorf("%s: %s, want %s", got.State, got.Result, tc.text)
			}
		})
	}
}

// Nobody reads planned arguments in the store, or makes them those of another call, another
// time or a second call; and they are gone when the call has ended.
func TestPlannedArgumentsAreSealed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, keyed(nil, "alice", "bob"))
	r := h.newRunning(t)
	r.settle(t)
	alice, err := r.Identities.Identity(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := r.Identities.Identity(t.Context(), "bob")
	if err != nil {
		t.Fatal(err)
	}
	made := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"nobody reads this"}`)
	moved := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"of alice"}`)
	other := planned(t, r.Client(t, "alice"), "util__timestamp", `{}`)
	plain := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"x"}`)
	early := planned(t, r.Client(t, "alice"), "util__echo", `{"text":"in an hour"}`)
	list, err := store.NewSchedules(r.Store).List(t.Context(), alice.Key())
	if err != nil || len(list) != 5 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i := range list {
		if len(list[i].Arguments) == 0 || strings.Contains(string(list[i].Arguments), "text") {
			t.Errorf("stored: %s", list[i].Arguments)
		}
	}
	copied := store.NewScheduleID()
	if err := r.Store.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE schedules SET principal = ?, credential = ? WHERE id = ?`, bob.Key(), bob.Credential, moved)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE schedules SET tool = 'util__echo' WHERE id = ?`, other)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE schedules SET arguments = ? WHERE id = ?`, []byte(`{"text":"x"}`), plain)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE schedules SET due_at = ? WHERE id = ?`, time.Now().UnixNano(), early)
		}
		if err == nil {
			const columns = `principal, credential, capsule, tool, arguments, state, due_at, created_at, holder, lease, ended_at, call_id, result`
			_, err = tx.Exec(ctx, `INSERT INTO schedules (id, `+columns+`) SELECT ?, `+columns+` FROM schedules WHERE id = ?`, copied, made)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.due(t)
	if got := r.became(t, alice.Key(), made); got.State != store.ScheduleMade || string(got.Result) != "nobody reads this" || len(got.Arguments) != 0 {
		t.Errorf("%+v, %s", got, got.Result)
	}
	for id, who := range map[string]string{moved: bob.Key(), other: alice.Key(), plain: alice.Key(), early: alice.Key(), copied: alice.Key()} {
		if got := r.became(t, who, id); got.State != store.ScheduleRefused || !strings.Contains(string(got.Result), "toolgate.keys") || len(got.Arguments) != 0 {
			t.Errorf("%+v, %s", got, got.Result)
		}
	}
}

// Without authentication everyone is one principal.
func TestPlannedCallOfEveryone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, withNative(map[string]any{"util": map[string]any{}, "schedule": map[string]any{}}, nil))
	r := h.newRunning(t)
	r.settle(t)
	client := r.client(t)
	got := text(t, client, "schedule__at", `{"tool":"util__echo","arguments":{"text":"hello"},"in":"1s"}`)
	id, _ := mcp.LookupString([]byte(got), "id")
	testwait.Until(t, patience, "the call", func() bool {
		return strings.Contains(text(t, client, "schedule__list", `{"id":"`+id+`"}`), `"result":"hello"`)
	})
}
