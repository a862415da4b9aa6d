package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// vectors checks that vectors come back byte for byte, each in its space, and that bad
// ones are refused.
func vectors(t *testing.T, s *store.Store) {
	v, ctx := store.NewVectors(s), t.Context()
	many := map[string][]byte{}
	var keys []string
	for i := range 150 { // more than one statement has
		key := fmt.Sprintf("key-%03d", i)
		many[key], keys = bytes.Repeat([]byte{byte(i), 0, 0xff}, 1+i), append(keys, key)
	}
	must(t, v.Save(ctx, "model", many))
	must(t, v.Save(ctx, "other", map[string][]byte{"key-001": []byte("other")}))
	must(t, v.Save(ctx, "model", map[string][]byte{"key-002": []byte("again")}))
	must(t, v.Save(ctx, "model", nil))
	many["key-002"] = []byte("again")
	got, err := v.Load(ctx, "model", append(keys, "none", "' OR 1=1 --"))
	must(t, err)
	if diff := cmp.Diff(many, got); diff != "" {
		t.Errorf("vectors (-want +got):\n%s", diff)
	}
	got, err = v.Load(ctx, "other", keys)
	if diff := cmp.Diff(map[string][]byte{"key-001": []byte("other")}, got); diff != "" || err != nil {
		t.Errorf("of the other model: %v (-want +got):\n%s", err, diff)
	}
	if got, err := v.Load(ctx, "model", nil); err != nil || len(got) != 0 {
		t.Errorf("no keys: %v, %v", got, err)
	}
	if err := v.Save(ctx, "model", map[string][]byte{"k": make([]byte, store.MaxVector+1)}); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a large vector: %v", err)
	}
	for _, bad := range []string{"\xff", "\x00", strings.Repeat("k", 1000)} {
		if err := v.Save(ctx, "model", map[string][]byte{bad: nil}); err == nil {
			t.Errorf("the key %.10q is saved", bad)
		}
		if _, err := v.Load(ctx, bad, keys); err == nil {
			t.Errorf("the space %.10q is read", bad)
		}
	}
}
