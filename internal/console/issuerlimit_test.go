package console

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Strangers have the gateway ask issuers so often from one address, and so often in all.
func TestIssuerLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		var a issuerLimit
		for range 2 { // the second time after a minute
			count := func(from string) (n int) {
				for range 2 * maxAsking {
					if a.allow(from) {
						n++
					}
				}
				return n
			}
			if n := count("a"); n != maxOwnAsking {
				t.Errorf("%d requests for one address", n)
			}
			all := maxOwnAsking
			for i := range 3 * maxAsking {
				all += count(fmt.Sprint("b", i))
			}
			if all != maxAsking || len(a.own) > maxAsking {
				t.Errorf("%d requests for all addresses, %d of them kept", all, len(a.own))
			}
			time.Sleep(askingTime)
		}
		for range 3 * maxAsking { // many people of one address sign in
			if !a.allow("a") {
				t.Fatal("who has signed in counts")
			}
			a.release("a")
		}
		a.release("a")
		a.release("b")
		if a.all != 0 || a.own["a"] != 0 {
			t.Errorf("%d and %d are counted", a.all, a.own["a"])
		}
	})
}
