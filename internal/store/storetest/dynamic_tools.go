package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/internal/store"
)

// dynamicTools checks that a tool is its owner's: nobody else replaces or removes it, and
// an owner has no more of them than the limit.
func dynamicTools(t *testing.T, s *store.Store) {
	d, ctx, by := s.Dynamic().Tools(), t.Context(), store.Change{Actor: "ann", Reason: "register_tool"}
	ann, bob := store.Owner{Tenant: "t", Principal: "ann\x00\xff"}, store.Owner{Tenant: "t", Principal: "bob"}
	tool := func(name string, owner store.Owner, body string) *store.DynamicTool {
		return &store.DynamicTool{Name: name, Owner: owner, Persona: "bot " + body, Template: "tools__status", Body: []byte(body), Change: by}
	}
	for _, step := range []struct {
		name string
		put  *store.DynamicTool
		want error
	}{
		{"a new one", tool("d__a", ann, "1\x00"), nil},
		{"its owner's change", tool("d__a", ann, "2"), nil},
		{"somebody else's", tool("d__a", bob, "3"), store.ErrTaken},
		{"the same of another tenant", tool("d__a", store.Owner{Tenant: "u", Principal: ann.Principal}, "3"), store.ErrTaken},
		{"a second", tool("d__b", ann, "4"), nil},
		{"one too many", tool("d__c", ann, "5"), store.ErrTooMany},
		{"a change at the limit", tool("d__b", ann, "6"), nil},
		{"another owner's first", tool("e__a", bob, "7"), nil},
		{"a huge one", tool("e__b", bob, strings.Repeat("x", 65<<10)), store.ErrTooLarge},
	} {
		if err := d.Put(ctx, step.put, 2); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	for name, bad := range map[string]*store.DynamicTool{
		"no name": tool("", ann, "x"), "no text": tool("a\xff", ann, "x"), "no tenant": tool("x", store.Owner{Principal: "p"}, "x"),
		"no template": {Name: "x", Owner: ann, Change: by}, "no actor": {Name: "x", Owner: ann, Template: "t"},
	} {
		if err := d.Put(ctx, bad, 9); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	list, _, err := d.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.DynamicTool{*tool("d__a", ann, "2"), *tool("d__b", ann, "6"), *tool("e__a", bob, "7")}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(store.DynamicTool{}, "CreatedAt", "ChangedAt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list[0].CreatedAt.IsZero() || list[0].ChangedAt.Before(list[0].CreatedAt) {
		t.Errorf("created %v, changed %v", list[0].CreatedAt, list[0].ChangedAt)
	}
	var got []string
	for _, owner := range []store.Owner{bob, {Tenant: "\xff", Principal: ann.Principal}, ann, ann} {
		ok, err := d.RemoveOwn(ctx, "d__a", owner)
		got = append(got, fmt.Sprint(ok, err))
	}
	if diff := cmp.Diff([]string{"false <nil>", "false <nil>", "true <nil>", "false <nil>"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ok, err := d.Remove(ctx, "e__a"); !ok || err != nil {
		t.Errorf("an operator's removal: %v, %v", ok, err)
	}
	if ok, err := d.Remove(ctx, "e\xff"); ok || err != nil {
		t.Errorf("the removal of no text: %v, %v", ok, err)
	}
}
