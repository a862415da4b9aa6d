package gate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// A long text in front hides no member behind it, and what is missing is counted.
func TestExcerptShowsEveryMember(t *testing.T) {
	t.Parallel()
	note := "Monthly licence fee, 10 EUR." + strings.Repeat(" ", 16400)
	for _, most := range []int{1024, 2000, 16 << 10} {
		got := gate.Excerpted([]byte(`{"note":"`+note+`","amount":999999,"to":{"iban":"XX00"}}`), most)
		for _, part := range []string{`"amount":999999`, `"iban":"XX00"`, "Monthly licence fee", "bytes left out"} {
			if !strings.Contains(got.Text, part) {
				t.Errorf("in %d bytes %q lacks %q", most, got.Text, part)
			}
		}
		if left := strings.Count(got.Text, " "); got.Missing < len(note)-1100 || got.Missing > len(note) || left > 1100 {
			t.Errorf("in %d bytes %d are said to be missing, and %d blanks are there", most, got.Missing, left)
		}
	}
	for _, whole := range []string{``, `{}`, `{"a":1}`, `"x"`} {
		if got := gate.Excerpted([]byte(whole), 1024); got.Text != whole || got.Missing != 0 {
			t.Errorf("%s: %+v", whole, got)
		}
	}
	// Blanks between the members are not missed.
	if got := gate.Excerpted([]byte(`{`+strings.Repeat(" ", 5000)+`"a":1}`), 1024); got.Text != `{"a":1}` || got.Missing != 0 {
		t.Errorf("%+v", got)
	}
	many := gate.Excerpted([]byte(`{"first":1,"list":[`+strings.Repeat("[1],", 9999)+`[2]],"last":2}`), 2000)
	for _, part := range []string{`"first":1`, `"last":2`, "elements…[", "[2]]"} {
		if !strings.Contains(many.Text, part) {
			t.Errorf("%q lacks %q", many.Text, part)
		}
	}
}

// Whatever a value is like, its excerpt is JSON, has room, and says when it is not
// whole.
func TestExcerptsFit(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		value := randomValue(random, 0, 1+i%40)
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got := gate.Excerpted(raw, 1024)
		if len(got.Text) > 1024 || !json.Valid([]byte(got.Text)) {
			t.Fatalf("%d bytes, of %.200s: %q", len(got.Text), raw, got.Text)
		}
		if got.Missing == 0 {
			var same any
			if err := json.Unmarshal([]byte(got.Text), &same); err != nil {
				t.Fatal(err)
			}
			if again, err := json.Marshal(same); err != nil || string(again) != string(raw) {
				t.Fatalf("%q is said to be all of %s", got.Text, raw)
			}
		} else if got.Missing > len(raw) {
			t.Fatalf("%d bytes are missing of %d", got.Missing, len(raw))
		}
	}
	deep := strings.Repeat(`{"a":[`, 50) + `"` + strings.Repeat("é", 5000) + `"` + strings.Repeat("]}", 50)
	if got := gate.Excerpted([]byte(deep), 1024); len(got.Text) > 1024 || got.Missing == 0 || !json.Valid([]byte(got.Text)) {
		t.Errorf("deep: %+v", got)
	}
}

// nested is a list of numbers in as many boxes of one form as its depth.
func nested(depth int, open, end string) []byte {
	return []byte(strings.Repeat(open, depth) + strings.Repeat("1,", 1<<19) + "1" + strings.Repeat(end, depth))
}

// What an excerpt takes grows with the size of a value and not with its depth: who is
// about to be asked waits for it.
func TestExcerptsOfDeepValues(t *testing.T) { // not parallel: it compares times
	took := func(value []byte) time.Duration {
		least := time.Hour
		for range 3 {
			began := time.Now()
			gate.Excerpted(value, 16<<10)
			least = min(least, time.Since(began))
		}
		return least
	}
	flat := took(nested(1, "[", "]"))
	for open, end := range map[string]string{"[": "]", "[0,": "]", `{"a":[`: "]}"} {
		if deep := took(nested(60, open, end)); deep > 4*flat {
			t.Errorf("60 times %s it takes %v, and %v without", open, deep, flat)
		}
	}
}

// BenchmarkExcerpt reports what an excerpt of 1 MiB costs.
func BenchmarkExcerpt(b *testing.B) {
	for _, depth := range []int{1, 10, 60} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			value := nested(depth, "[", "]")
			b.ReportAllocs()
			for b.Loop() {
				gate.Excerpted(value, 16<<10)
			}
		})
	}
}

func randomValue(random *rand.Rand, depth, size int) any {
	switch n := random.IntN(6); {
	case n == 0 || depth > 6:
		return strings.Repeat(string(rune('a'+random.IntN(26)))+"é\n\"", random.IntN(20*size))
	case n == 1:
		return float64(random.IntN(1000))
	case n < 4:
		out := map[string]any{}
		for i := range random.IntN(size) {
			out[fmt.Sprintf("k%d%s", i, strings.Repeat("x", random.IntN(size*5)))] = randomValue(random, depth+1, size/2+1)
		}
		return out
	default:
		out := []any{}
		for range random.IntN(size) {
			out = append(out, randomValue(random, depth+1, size/2+1))
		}
		return out
	}
}
