package console

import "testing"

// One person reads some calls at a time, whatever others do, and nothing is kept of who reads none.
func TestReadings(t *testing.T) {
	t.Parallel()
	var r readings
	var ends []func()
	for _, who := range []string{"a", "b"} {
		for range maxReadings {
			end, ok := r.begin(who)
			if !ok {
				t.Fatalf("%s may not read", who)
			}
			ends = append(ends, end)
		}
		if _, ok := r.begin(who); ok {
			t.Errorf("%s reads more than %d", who, maxReadings)
		}
	}
	ends[0]()
	end, ok := r.begin("a")
	if !ok {
		t.Fatal("a has read one, and may not read another")
	}
	for _, end := range append(ends[1:], end) {
		end()
	}
	if len(r.of) != 0 {
		t.Errorf("%v is kept", r.of)
	}
}
