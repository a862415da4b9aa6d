package proxy

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

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
	k := ring(t, testKey)
	random := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 31, 32, 1000, 70_000} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		sealed, err := k.seal(labelCursor, "alice", text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(sealed, "k1.") || strings.Trim(sealed[3:], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%d bytes are sealed as %.40q", n, sealed)
		}
		if got, err := k.open(labelCursor, "alice", sealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes come back as %d, %v", n, len(got), err)
		}
		if again, _ := ring(t, testKey).seal(labelCursor, "alice", text); again != sealed {
			t.Error("the same input gives other bytes")
		}
		if n > 8 && strings.Contains(sealed, string(text[:8])) {
			t.Error("the text is in the seal")
		}
	}
}

func TestSealRefuses(t *testing.T) {
	k := ring(t, testKey, otherKey)
	sealed, err := k.seal(labelCursor, "alice", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, context, sealed string
		label                 label
	}{
		{"another label", "alice", sealed, labelRound},
		{"another context", "bob", sealed, labelCursor},
		{"no context", "", sealed, labelCursor},
		{"another key of the ring", "alice", "k2" + sealed[2:], labelCursor},
		{"unknown key", "alice", "k3" + sealed[2:], labelCursor},
		{"no key", "alice", sealed[2:], labelCursor},
		{"no dot", "alice", strings.ReplaceAll(sealed, ".", ""), labelCursor},
		{"nothing", "alice", "", labelCursor},
		{"short", "alice", "k1.AAAA", labelCursor},
		{"padded", "alice", sealed + "=", labelCursor},
		{"with a line break", "alice", sealed[:10] + "\n" + sealed[10:], labelCursor},
		{"no base64", "alice", "k1.!!!", labelCursor},
	}
	for _, tt := range tests {
		if got, err := k.open(tt.label, tt.context, tt.sealed); err == nil {
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
			if got, err := k.open(labelCursor, "alice", string(changed)); err == nil {
				t.Fatalf("with character %d changed it opens as %q", i, got)
			}
		}
	}
	// Label and context are not simply joined.
	if a, _ := k.seal(labelCursor, "a\x00b", []byte("c")); a == "" {
		t.Error("no seal")
	} else if _, err := k.open(labelCursor, "a", a); err == nil {
		t.Error("part of a context opens")
	}
}

func TestKeyRotation(t *testing.T) {
	before, during, after := ring(t, testKey), ring(t, otherKey, testKey), ring(t, otherKey)
	old, _ := before.seal(labelRound, "c", []byte("old"))
	if got, err := during.open(labelRound, "c", old); err != nil || string(got) != "old" {
		t.Errorf("the old key does not open any more: %q, %v", got, err)
	}
	fresh, _ := during.seal(labelRound, "c", []byte("new"))
	if !strings.HasPrefix(fresh, "k2.") {
		t.Errorf("sealed with an old key: %s", fresh)
	}
	if _, err := after.open(labelRound, "c", old); err == nil {
		t.Error("a key that was taken away still opens")
	}
	if _, err := before.open(labelRound, "c", fresh); err == nil {
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
	if s, err := zero.seal(labelCursor, "c", []byte("x")); err == nil {
		t.Errorf("the zero Keyring seals: %s", s)
	}
	sealed, _ := ring(t, testKey).seal(labelCursor, "c", []byte("x"))
	if _, err := zero.open(labelCursor, "c", sealed); err == nil {
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
