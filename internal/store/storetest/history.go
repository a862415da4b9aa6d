package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// registryHistory checks that accepted definitions are kept once, the latest ones, with
// who accepted them, and go with their record.
func registryHistory(t *testing.T, s *store.Store) {
	r, ctx := s.Registry(), t.Context()
	accepted := func(id, hash string) store.RegistryRecord {
		one := record(id)
		one.Definition, one.DefinitionHash, one.AcceptedHash = []byte(`{"hash":"`+hash+`"}`), hash, hash
		one.Change = store.Change{Actor: "op", Reason: "for " + hash}
		return one
	}
	history := func(id string) string {
		t.Helper()
		list, err := r.History(ctx, id)
		must(t, err)
		var out []string
		for i := range list {
			d := &list[i]
			if string(d.Definition) != `{"hash":"`+d.Hash+`"}` || d.Reason != "for "+d.Hash || d.Actor != "op" || d.AcceptedAt.IsZero() {
				t.Errorf("%+v", d)
			}
			out = append(out, d.Hash)
		}
		return strings.Join(out, " ")
	}
	held := record("cap_h")
	held.AcceptedHash, held.DefinitionHash, held.Definition = "", "", nil
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", "one"), held, accepted("cap_b", "x")}))
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", "two")}))
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", "two"), accepted("cap_b", "x")}))
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", "one")}))
	got := []string{history("cap_a"), history("cap_b"), history("cap_h"), history("none"), history("\xff")}
	if diff := cmp.Diff([]string{"two one", "x", "", "", ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 25 {
		must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", fmt.Sprintf("n%02d", i))}))
	}
	if got := history("cap_a"); !strings.HasPrefix(got, "n24 n23 ") || !strings.HasSuffix(got, " n05") || strings.Count(got, " ") != 19 {
		t.Errorf("the latest: %s", got)
	}
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_a", "n05")}))
	must(t, r.Upsert(ctx, []store.RegistryRecord{accepted("cap_b", "y")}))
	if got := history("cap_a"); !strings.Contains(got, "n05") {
		t.Errorf("what is in force is gone: %s", got)
	}
	if n, err := r.Delete(ctx, "cap_a"); n != 1 || err != nil {
		t.Errorf("delete: %d, %v", n, err)
	}
	if got := history("cap_a") + history("cap_b"); got != "y x" {
		t.Errorf("after a removal: %s", got)
	}
}
