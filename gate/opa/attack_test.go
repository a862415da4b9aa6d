package opa_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// Primes of xxHash64, by which the engine finds keys of objects.
const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
)

// inverse returns the number by which multiplication with an odd one is undone.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// alike returns n keys of 64 printable characters that have one hash. Of the four
// lanes of the hash each reads two words, and for any first word there is a second
// one that leads to the same state: pairs that are printable are looked for in each
// lane, and then combined.
func alike(n int) []string {
	pairs := 1
	for pairs*pairs*pairs*pairs < n {
		pairs++
	}
	random := rand.New(rand.NewPCG(1, 2))
	back := inverse(prime2)
	var lanes [4][][2]uint64
	starts := [4]uint64{}
	starts[0], starts[1], starts[3] = prime1, prime2, 0
	starts[0] += prime2
	starts[3] -= prime1
	for lane, start := range starts {
		after := func(word uint64) uint64 { return bits.RotateLeft64(start+word*prime2, 31) * prime1 }
		target := after(word(random)) + word(random)*prime2
		for len(lanes[lane]) < pairs {
			first := word(random)
			if second := (target - after(first)) * back; printable(second) {
				lanes[lane] = append(lanes[lane], [2]uint64{first, second})
			}
		}
	}
	keys := make([]string, n)
	for i := range keys {
		var key [64]byte
		for lane, left := 0, i; lane < 4; lane, left = lane+1, left/pairs {
			pair := lanes[lane][left%pairs]
			binary.LittleEndian.PutUint64(key[8*lane:], pair[0])
			binary.LittleEndian.PutUint64(key[32+8*lane:], pair[1])
		}
		keys[i] = string(key[:])
	}
	return keys
}

// word returns eight printable characters.
func word(random *rand.Rand) uint64 {
	for {
		var b [8]byte
		for i := range b {
			b[i] = byte(' ' + random.IntN('~'-' '+1))
		}
		if w := binary.LittleEndian.Uint64(b[:]); printable(w) {
			return w
		}
	}
}

func printable(word uint64) bool {
	for ; word != 0; word >>= 8 {
		if c := byte(word); c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// flood is an argument that is an object with n keys of one hash.
func flood(n int) string {
	var b strings.Builder
	b.WriteString(`{"text": {`)
	for i, key := range alike(n) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s":1`, key)
	}
	return b.String() + "}}"
}

// many is an argument that is a list of one value n times.
func many(value string, n int) string {
	return `{"text": [` + strings.Repeat(value+",", n-1) + value + `]}`
}

// attacks are arguments that are cheap to send and expensive to make values of.
func attacks() map[string]string {
	return map[string]string{
		"80000 keys of one hash":  flood(80_000),
		"240000 keys of one hash": flood(240_000),
		"3700 keys of one hash":   flood(3_700),
		"empty objects":           many("{}", 5_300_000),
		"numbers":                 many("1", 8_000_000),
	}
}

// readers are policies that read the arguments, and how much of them they may be
// shown: they are shown them whole or not at all, shortened, or however long they are.
func readers(t testing.TB) map[string]*opa.Phase {
	t.Helper()
	const reading = "default decision := true\ndecision := false if input.args.text == 7\n"
	const aware = reading + "decision := false if count(input.args_replaced) > 5\n"
	return map[string]*opa.Phase{
		"whole":     newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(reading))}}),
		"shortened": newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(aware))}}),
		"all":       newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(reading))}, InputLimits: opa.InputLimits{PolicyInput: 16 << 20}}),
		"unread":    newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy("default decision := true\ndecision := false if input.server == \"x\"\n"))}}),
	}
}

func TestKeysOfOneHash(t *testing.T) {
	t.Parallel()
	keys := alike(3_700)
	seen := map[string]bool{}
	for _, key := range keys {
		seen[key] = true
		if ast.String(key).Hash() != ast.String(keys[0]).Hash() {
			t.Fatal("the engine's hash of keys is another now; make keys that collide by that one")
		}
	}
	if len(seen) != len(keys) {
		t.Errorf("%d of %d keys differ", len(seen), len(keys))
	}
}

// What is made of arguments is bounded by what a policy may be shown of them, and
// not by what somebody sends.
func TestExpensiveArgumentsAreRefused(t *testing.T) { // not parallel: it counts what is allocated
	policies := readers(t)
	for attack, args := range attacks() {
		for how, p := range policies {
			r := call("x", args)
			d := decide(t, p, r) // compiles what is compiled once
			if allowed := d.Effect == gate.Allow; allowed != (how == "unread") || !allowed && (d.Err != nil || !strings.HasPrefix(d.Reason, "its arguments ")) {
				t.Errorf("%s, %s: %v %q, error %v", attack, how, d.Effect, d.Reason, d.Err)
			}
			// 100,000 values of some hundred bytes are the most that is made; nearly
			// nothing is where they are too large to be shown.
			most := uint64(64 << 20)
			if how == "whole" && len(args) > 256<<10 || how == "unread" {
				most = 64 << 10
			}
			if got := allocated(func() { decide(t, p, r) }); got > most {
				t.Errorf("%s, %s: %d KiB are allocated, want at most %d", attack, how, got>>10, most>>10)
			}
		}
	}
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Nobody waits for the arguments of who has gone.
func TestArgumentsOfWhoHasGone(t *testing.T) {
	t.Parallel()
	p := readers(t)["all"]
	if d, err := p.Check(&leaving{Context: t.Context(), after: 3}, call("x", many("1", 90_000))); err == nil || d.Effect == gate.Allow {
		t.Errorf("decision %+v, error %v", d, err)
	}
}

// leaving is a context that ends when it has been looked at some times.
type leaving struct {
	context.Context
	after int
}

// Err implements [context.Context].
func (c *leaving) Err() error {
	if c.after--; c.after < 0 {
		return context.Canceled
	}
	return nil
}

// BenchmarkAttacks reports what each attack costs. A decision is made by one
// goroutine, so that its time is the processor's but for the collection of garbage.
func BenchmarkAttacks(b *testing.B) {
	policies := readers(b)
	for attack, args := range attacks() {
		for how, p := range policies {
			b.Run(strings.ReplaceAll(attack, " ", "_")+"/"+how, func(b *testing.B) {
				r := call("x", args)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Check(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/op")
			})
		}
	}
}
