package seal

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

var ringKey = Key{ID: "k1", Secret: bytes.Repeat([]byte{7}, 32)}

func ring(t testing.TB, keys ...Key) *Keyring {
	t.Helper()
	k, err := NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var otherKey = Key{ID: "k2", Secret: bytes.Repeat([]byte{9}, 40)}

func TestSeal(t *testing.T) {
	k := ring(t, ringKey)
	random := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 31, 32, 1000, 70_000} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		sealed, err := k.Seal(Cursor, "alice", text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(sealed, "k1.") || strings.Trim(sealed[3:], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%d bytes are sealed as %.40q", n, sealed)
		}
		if got, err := k.Open(Cursor, "alice", sealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes come back as %d, %v", n, len(got), err)
		}
		if again, _ := ring(t, ringKey).Seal(Cursor, "alice", text); again != sealed {
			t.Error("the same input gives other bytes")
		}
		if n > 8 && strings.Contains(sealed, string(text[:8])) {
			t.Error("the text is in the seal")
		}
	}
}

func TestSealRefuses(t *testing.T) {
	k := ring(t, ringKey, otherKey)
	sealed, err := k.Seal(Cursor, "alice", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, context, sealed string
		label                 Label
	}{
		{"another label", "alice", sealed, Round},
		{"another context", "bob", sealed, Cursor},
		{"no context", "", sealed, Cursor},
		{"another key of the ring", "alice", "k2" + sealed[2:], Cursor},
		{"unknown key", "alice", "k3" + sealed[2:], Cursor},
		{"no key", "alice", sealed[2:], Cursor},
		{"no dot", "alice", strings.ReplaceAll(sealed, ".", ""), Cursor},
		{"nothing", "alice", "", Cursor},
		{"short", "alice", "k1.AAAA", Cursor},
		{"padded", "alice", sealed + "=", Cursor},
		{"with a line break", "alice", sealed[:10] + "\n" + sealed[10:], Cursor},
		{"no base64", "alice", "k1.!!!", Cursor},
	}
	for _, tt := range tests {
		if got, err := k.Open(tt.label, tt.context, tt.sealed); err == nil {
			t.Errorf("%s opens as %q", tt.name, got)
		}
	}
	// No other spelling of a seal opens, whichever character is another.
	for i := range sealed {
		for _, c := range []byte("AQgw_") {
			changed := []byte(sealed)
			if changed[i] == c {
				continue
			}
			changed[i] = c
			if got, err := k.Open(Cursor, "alice", string(changed)); err == nil {
				t.Fatalf("with character %d changed it opens as %q", i, got)
			}
		}
	}
	// Label and context are not simply joined.
	if a, _ := k.Seal(Cursor, "a\x00b", []byte("c")); a == "" {
		t.Error("no seal")
	} else if _, err := k.Open(Cursor, "a", a); err == nil {
		t.Error("part of a context opens")
	}
}

// TestSealOften: what seals under a label is derived once, for every label.
func TestSealOften(t *testing.T) {
	k := ring(t, ringKey)
	text := []byte("text")
	allocs := func(l Label) float64 {
		return testing.AllocsPerRun(20, func() {
			if _, err := k.Seal(l, "alice", text); err != nil {
				t.Fatal(err)
			}
		})
	}
	if kept, carried := allocs(Kept+"any"), allocs(Cursor); kept > carried+1 {
		t.Errorf("%v allocations for a value that is kept, and %v for one that is carried", kept, carried)
	}
	one, err := k.Seal(Kept+"any", "alice", text)
	if err != nil {
		t.Fatal(err)
	}
	other := ring(t, ringKey)
	if again, err := other.Seal(Kept+"any", "alice", text); err != nil || again != one {
		t.Errorf("%q and %q, %v", one, again, err)
	}
	if _, err := k.Open(Kept+"other", "alice", one); err == nil {
		t.Error("it opens under another label")
	}
}

func TestKeyRotation(t *testing.T) {
	before, during, after := ring(t, ringKey), ring(t, otherKey, ringKey), ring(t, otherKey)
	old, _ := before.Seal(Round, "c", []byte("old"))
	if got, err := during.Open(Round, "c", old); err != nil || string(got) != "old" {
		t.Errorf("the old key does not open any more: %q, %v", got, err)
	}
	fresh, _ := during.Seal(Round, "c", []byte("new"))
	if !strings.HasPrefix(fresh, "k2.") {
		t.Errorf("sealed with an old key: %s", fresh)
	}
	if _, err := after.Open(Round, "c", old); err == nil {
		t.Error("a key that was taken away still opens")
	}
	if _, err := before.Open(Round, "c", fresh); err == nil {
		t.Error("a key that is not there opens")
	}
	mac := before.MAC("catalog", []byte("data"))
	if !during.Verify("catalog", []byte("data"), mac) || after.Verify("catalog", []byte("data"), mac) {
		t.Error("a MAC is not verified by the keys that there are")
	}
	if during.Verify("other", []byte("data"), mac) || during.Verify("catalog", []byte("datb"), mac) || during.Verify("catalog", []byte("data"), nil) {
		t.Error("a MAC is verified for something else")
	}
}

func TestKeyrings(t *testing.T) {
	var zero Keyring
	if s, err := zero.Seal(Cursor, "c", []byte("x")); err == nil {
		t.Errorf("the zero Keyring seals: %s", s)
	}
	sealed, _ := ring(t, ringKey).Seal(Cursor, "c", []byte("x"))
	if _, err := zero.Open(Cursor, "c", sealed); err == nil {
		t.Error("the zero Keyring opens")
	}
	if zero.MAC("p", nil) != nil || zero.Verify("p", nil, nil) {
		t.Error("the zero Keyring authenticates")
	}
	long := bytes.Repeat([]byte{1}, 32)
	for name, keys := range map[string][]Key{
		"short": {{ID: "a", Secret: long[:31]}}, "nameless": {{Secret: long}}, "dotted": {{ID: "a.b", Secret: long}},
		"long name": {{ID: strings.Repeat("a", 33), Secret: long}}, "twice": {{ID: "a", Secret: long}, {ID: "a", Secret: append(long, 1)}},
	} {
		if _, err := NewKeyring(keys...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
