package schema

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Arguments that lie in the memory of freed ones are their own, and those that are not freed stay
// as they are.
func TestFreedArgumentsAreSeparate(t *testing.T) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 300 {
				who := fmt.Sprintf("%d of %d", i, worker)
				raw, want := fmt.Sprintf(`{"who":%q,%q:[{"a":{"b":null}}]}`, who, who), map[string]any{
					"who": who, who: []any{map[string]any{"a": map[string]any{"b": nil}}},
				}
				switch i % 5 {
				case 1: // not an object
					raw, want = fmt.Sprintf(`[{"who":%q}]`, who), nil
				case 2: // unreadable from some member on
					raw, want = fmt.Sprintf(`{"who":%q,"n":1e999999999}`, who), nil
				}
				a := ReadArguments([]byte(raw))
				got, err := a.Object()
				if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
					t.Errorf("%s, %v (-want +got):\n%s", raw, err, diff)
				}
				if i%5 == 3 {
					defer func() {
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s, which nobody has freed (-want +got):\n%s", raw, diff)
						}
					}()
					continue
				}
				a.Free()
			}
		})
	}
	all.Wait()
}

// Freed arguments are empty, and much room is not kept.
func TestFreedArgumentsAreEmpty(t *testing.T) {
	a := ReadArguments([]byte(`{"a":"\ud800"}`))
	if !a.empty() || a.value != nil || a.loose != nil || a.size != 0 || a.values != 0 || a.problem != nil || len(a.room) != 0 {
		t.Errorf("%+v", a)
	}
	room := make(map[string]any)
	for i := range maxRoom + 1 {
		room[fmt.Sprint(i)] = i
	}
	a = &Arguments{room: room}
	if a.empty() || len(a.room) != maxRoom+1 {
		t.Error("much room is used again")
	}
}
