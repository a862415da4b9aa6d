package result

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestStoreIsBounded: for each caller and in total. The caller with the most bytes
// makes room.
func TestStoreIsBounded(t *testing.T) {
	k := NewStore(StoreLimits{KeptResults: 10_000, KeptResultsPerPrincipal: 6_000, KeptResultsTime: time.Hour}, "")
	tool := Tool{Server: "s", Original: "t"}
	keep := func(who string, n, size int) *Kept {
		return k.Keep(who, who, tool, nil, fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d %s"}]}`, n, strings.Repeat("x", size)))
	}
	there := func(kept *Kept) bool { return k.Find(kept.principal, kept.URI(), time.Now()) != nil }
	if keep("a", 0, 7000) != nil {
		t.Error("kept beyond the limit of one caller")
	}
	a := []*Kept{keep("a", 1, 2500), keep("a", 2, 2500), keep("a", 3, 2500)}
	if there(a[0]) || !there(a[1]) || !there(a[2]) {
		t.Error("the oldest does not give way")
	}
	b := []*Kept{keep("b", 1, 2500), keep("b", 2, 2500)}
	if there(a[1]) || !there(a[2]) || !there(b[0]) || !there(b[1]) {
		t.Error("who has most does not give way")
	}
	if k.Find("a", b[0].URI(), time.Now()) != nil || b[0].id == keep("a", 1, 2000).id {
		t.Error("the result of another is found")
	}
	if k.bytes > k.most {
		t.Errorf("%d bytes", k.bytes)
	}
	held, listed := 0, 0
	for who, of := range k.of {
		held, listed = held+of.bytes, listed+of.list.Len()
		if of.bytes > k.mostOfOne {
			t.Errorf("%d bytes are kept for %s", of.bytes, who)
		}
	}
	if held != k.bytes || listed != len(k.all) {
		t.Errorf("%d bytes in %d results, of which callers have %d in %d", k.bytes, len(k.all), held, listed)
	}
	if other := NewStore(StoreLimits{KeptResults: 10_000, KeptResultsPerPrincipal: 6_000, KeptResultsTime: time.Hour}, ""); other.Keep("b", "b", tool, nil, []byte(`{"content":[]}`)).id == k.Keep("b", "b", tool, nil, []byte(`{"content":[]}`)).id {
		t.Error("an id can be guessed from the result")
	}
}

// TestStoreAtOnce keeps, reads and sweeps concurrently.
func TestStoreAtOnce(t *testing.T) {
	k := NewStore(StoreLimits{KeptResults: 20_000, KeptResultsPerPrincipal: 4_000, KeptResultsTime: time.Hour}, "")
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			name := fmt.Sprint(who)
			for i := range 200 {
				kept := k.Keep(name, name, Tool{Server: "s", Original: "t"}, nil, fmt.Appendf(nil, `{"content":[{"type":"text","text":"%d %s"}]}`, i%50, strings.Repeat("x", 100*(i%9))))
				if found := k.Find(name, kept.URI(), time.Now()); found != nil && found.principal != name {
					t.Error("the result of another is found")
				}
				if i%20 == 0 {
					k.Sweep(time.Now().Add(2 * time.Hour))
				}
			}
		})
	}
	all.Wait()
	k.Sweep(time.Now().Add(2 * time.Hour))
	if k.bytes != 0 || len(k.all) != 0 || len(k.of) != 0 {
		t.Errorf("%d bytes in %d results are left", k.bytes, len(k.all))
	}
}
