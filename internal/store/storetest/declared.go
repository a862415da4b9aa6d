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

// declaredTools checks that tools are stored by name, that a change is made completely
// or not at all, and that it is reported.
func declaredTools(t *testing.T, s *store.Store) {
	d, by := s.Declared(), store.Change{Actor: "op", Reason: "why"}
	record := func(name, body string) store.DeclaredRecord {
		return store.DeclaredRecord{Name: name, Body: []byte(body), Change: by}
	}
	names := func() (out []string, generation int64) {
		t.Helper()
		list, generation, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			out = append(out, list[i].Name+"="+string(list[i].Body))
		}
		return out, generation
	}
	if got, _ := names(); got != nil {
		t.Errorf("in a new store: %q", got)
	}
	if err := d.Put(t.Context(), []store.DeclaredRecord{record("tools__b", "1\x00\xff"), record("tools__a", "1"), record("tools__B", "1")}); err != nil {
		t.Fatal(err)
	}
	_, before := names()
	if err := d.Put(t.Context(), []store.DeclaredRecord{record("tools__a", "2")}); err != nil {
		t.Fatal(err)
	}
	got, after := names()
	if diff := cmp.Diff([]string{"tools__B=1", "tools__a=2", "tools__b=1\x00\xff"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if after != before+1 {
		t.Errorf("generation %d after %d", after, before)
	}
	list, _, _ := d.List(t.Context())
	want := record("tools__a", "2")
	if diff := cmp.Diff(want, list[1], cmpopts.IgnoreFields(store.DeclaredRecord{}, "ChangedAt")); diff != "" || list[1].ChangedAt.IsZero() {
		t.Errorf("(-want +got):\n%s%v", diff, list[1].ChangedAt)
	}
	for name, bad := range map[string]store.DeclaredRecord{
		"no name":    record("", "x"),
		"no text":    record("a\xff", "x"),
		"no actor":   {Name: "x", Body: []byte("x")},
		"a huge one": record("x", strings.Repeat("x", 300<<10)),
	} {
		if err := d.Put(t.Context(), []store.DeclaredRecord{record("good", "x"), bad}); err == nil {
			t.Errorf("%s is kept", name)
		}
	}
	many := make([]store.DeclaredRecord, 0, 1000)
	for i := range 1000 {
		many = append(many, record(fmt.Sprint("many", i), "x"))
	}
	if err := d.Put(t.Context(), many); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("a thousand more: %v", err)
	}
	if now, generation := names(); len(now) != 3 || generation != after {
		t.Errorf("what was refused is there in part: %d tools, generation %d", len(now), generation)
	}
	for _, want := range []bool{true, false} {
		if ok, err := d.Remove(t.Context(), "tools__a"); ok != want || err != nil {
			t.Errorf("Remove = %v, %v; want %v", ok, err, want)
		}
	}
	if ok, err := d.Remove(t.Context(), "a\x00"); ok || err != nil {
		t.Errorf("Remove of no text = %v, %v", ok, err)
	}
	if now, generation := names(); len(now) != 2 || generation != after+1 {
		t.Errorf("%q, generation %d", now, generation)
	}
}
