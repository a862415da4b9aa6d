package credential_test

import (
	"net/http"
	"sync"
	"testing"
)

// TestLeavingUnderLoad has somebody leave while calls of two processes renew their
// token: whoever comes after that is not signed in, and nothing of theirs is kept.
func TestLeavingUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.a.Rotate = true
	other, _ := w.another()
	for range 5 {
		w.login(t, "alice")
		w.login(t, "bob")
		other.ForgetAll()
		var all sync.WaitGroup
		begun := make(chan struct{}, 40)
		for i := range 40 {
			source := w.source
			if i%2 == 1 {
				source = other
			}
			all.Go(func() {
				begun <- struct{}{}
				header, err := source.Headers(t.Context(), "alice")
				if err != nil {
					return // who has left
				}
				_, _ = source.Refused(t.Context(), "alice", header.Clone(), http.StatusUnauthorized, http.Header{})
				_, _ = source.Headers(t.Context(), "alice")
			})
		}
		for range 20 {
			<-begun
		}
		if _, err := w.desk.Leave(t.Context(), w.source, "alice"); err != nil {
			t.Error(err)
		}
		all.Wait()
		other.ForgetAll() // as the store tells
		w.source.ForgetAll()
		if _, err := w.source.Headers(t.Context(), "alice"); err == nil {
			t.Error("alice is signed in after leaving")
		}
		if _, err := other.Headers(t.Context(), "alice"); err == nil {
			t.Error("alice is signed in at the other process after leaving")
		}
		if _, kept, _ := w.vault.Find(t.Context(), "web", "alice"); kept {
			t.Error("something of alice is kept")
		}
		if _, err := w.source.Headers(t.Context(), "bob"); err != nil {
			t.Errorf("with alice's login bob's has ended: %v", err)
		}
	}
}
