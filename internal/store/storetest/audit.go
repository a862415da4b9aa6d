package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

func anchors(t *testing.T, s *store.Store) {
	a := s.Anchors()
	at := time.Now().UTC().Round(0)
	first := store.Anchor{Replica: "r", Run: "1", Chain: "c", Seq: 7, MAC: "m7", At: at}
	second := store.Anchor{Replica: "r", Run: "2", Chain: "c", Seq: 9, MAC: "m9", At: at.Add(time.Second)}
	earlier := first
	earlier.Seq, earlier.MAC = 5, "m5"
	other := first
	other.Replica = "other"
	for _, one := range []store.Anchor{first, earlier, second, other} {
		must(t, a.Put(t.Context(), one))
	}
	got, err := a.List(t.Context(), "r")
	must(t, err)
	if diff := cmp.Diff([]store.Anchor{first, second}, got); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
}
