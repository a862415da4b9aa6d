package arena

import (
	"bytes"
	"testing"
)

func TestTake(t *testing.T) {
	var a Arena
	for _, n := range []int{0, 1, Least - 1, Least, 80<<10 - headroom, 80<<10 - headroom + 1, 1 << 20, 5<<20 - headroom, 5 << 20, 6 << 20} {
		if got := a.Take(n); len(got) != n {
			t.Errorf("Take(%d) returned %d bytes", n, len(got))
		}
		if got := (*Arena)(nil).Take(n); len(got) != n || cap(got) > n {
			t.Errorf("a nil arena: Take(%d) returned %d bytes with room for %d", n, len(got), cap(got))
		}
	}
	a.Free()
	a.Free()
	(*Arena)(nil).Free()
}

// What is taken at the same time never overlaps.
func TestTakeApart(t *testing.T) {
	var a, b Arena
	defer b.Free()
	for round := range 20 {
		var taken [][]byte
		for i := range 8 {
			from := &a
			if i%2 == 0 {
				from = &b
			}
			p := from.Take(Least << (i % 4))
			for j := range p {
				p[j] = byte(i)
			}
			taken = append(taken, p)
		}
		for i, p := range taken {
			if bytes.Count(p, []byte{byte(i)}) != len(p) {
				t.Fatalf("round %d: %d was overwritten", round, i)
			}
		}
		a.Free()
	}
}

func TestExtend(t *testing.T) {
	var a Arena
	defer a.Free()
	first, second, small := a.Take(Least), a.Take(2*Least), a.Take(100)
	for i, tt := range []struct {
		part          []byte
		before, after int
		want          bool
	}{
		{first, 1, 1, true},
		{first[10:20], headroom + 10, 0, true},
		{first[10:20], headroom + 11, 0, false},
		{second, headroom, 80<<10 - headroom - 2*Least, true},
		{second, 0, 80<<10 - headroom - 2*Least + 1, false},
		{second[5:10:10], 1, 1, false}, // its place is not known
		{small, 1, 0, false},
		{first[:0], 1, 1, false},
		{nil, 0, 0, false},
		{make([]byte, Least), 1, 1, false},
	} {
		copy(tt.part, "{}")
		got := a.Extend(tt.part, tt.before, tt.after)
		if (got != nil) != tt.want {
			t.Errorf("%d: Extend returned %d bytes", i, len(got))
		}
		if got != nil && (len(got) != tt.before+len(tt.part)+tt.after || &got[tt.before] != &tt.part[0]) {
			t.Errorf("%d: Extend returned another place", i)
		}
	}
	if (*Arena)(nil).Extend(first, 0, 0) != nil {
		t.Error("a nil arena extends")
	}
}

// What is dropped is lent again, and the rest stays.
func TestDrop(t *testing.T) {
	var a Arena
	defer a.Free()
	parts := make([][]byte, 5)
	for i := range parts {
		parts[i] = a.Take(Least)
		parts[i][0] = byte(i)
	}
	for _, i := range []int{0, 3} {
		a.Drop(parts[i][10:20])
		if a.Extend(parts[i], 0, 0) != nil {
			t.Errorf("%d is still there", i)
		}
	}
	a.Drop(parts[0])
	a.Drop(nil)
	a.Drop(make([]byte, Least))
	(*Arena)(nil).Drop(parts[1])
	for _, i := range []int{1, 2, 4} {
		if a.Extend(parts[i], 0, 0) == nil || parts[i][0] != byte(i) {
			t.Errorf("%d is gone", i)
		}
	}
	if again := a.Take(Least); a.Extend(again, 0, 0) == nil {
		t.Error("what is taken after a drop is not of the arena")
	}
}

func BenchmarkTake(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var a Arena
		a.Take(1 << 20)
		a.Free()
	}
}
