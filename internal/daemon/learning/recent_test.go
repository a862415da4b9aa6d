package learning

import (
	"fmt"
	"testing"
	"time"
)

// TestRecentIsBounded keeps the latest searches of the latest principals, as long as a
// call can follow.
func TestRecentIsBounded(t *testing.T) {
	r, now := recent{}, time.Now()
	for i := range 3 * maxPrincipals {
		for j := range 2 * maxSearches {
			r.add(fmt.Sprint(i), search{query: fmt.Sprint(j), shown: []string{"t"}, at: now.Add(time.Duration(i) * time.Millisecond)})
		}
	}
	if last := r[fmt.Sprint(3*maxPrincipals-1)]; len(r) != maxPrincipals || len(last) != maxSearches || last[maxSearches-1].query != fmt.Sprint(2*maxSearches-1) {
		t.Errorf("%d principals are kept, the last with %d searches", len(r), len(last))
	}
	r.expire(now.Add(maxAge + time.Duration(3*maxPrincipals-2)*time.Millisecond))
	if len(r) != 2 {
		t.Errorf("%d principals are left", len(r))
	}
}
