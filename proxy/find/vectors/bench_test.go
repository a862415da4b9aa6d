package vectors_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/vectors"
)

// like returns a vector whose cosine with another one is about c. As in real models all
// vectors have something in common.
func like(r *rand.Rand, of []float32, c float64) []float32 {
	out := make([]float32, len(of))
	var norm float64
	for _, x := range of {
		norm += float64(x) * float64(x)
	}
	scale := math.Sqrt(norm / float64(len(of)) * (1/(c*c) - 1))
	for i := range out {
		out[i] = of[i] + float32(r.NormFloat64()*scale)
	}
	return out
}

// catalog returns items with a made-up vector each: of 200 subjects, which have 0.4 in
// common, and each item 0.7 with its subject.
func catalog(n, dimensions int) (x *find.Index, numbers [][]float32) {
	r := rand.New(rand.NewPCG(1, 2))
	common := make([]float32, dimensions)
	for i := range common {
		common[i] = float32(r.NormFloat64())
	}
	subjects := make([][]float32, 200)
	for i := range subjects {
		subjects[i] = like(r, common, math.Sqrt(0.4))
	}
	items := make([]find.Item, n)
	for i := range items {
		numbers = append(numbers, like(r, subjects[i%len(subjects)], 0.85))
		items[i] = find.Item{
			Kind: mcp.Tool, Name: fmt.Sprintf("server-%d__tool_%d", i%50, i), Server: fmt.Sprintf("server-%d", i%50), Hash: fmt.Sprint(i),
			Description: fmt.Sprintf("Does thing %d of %d.", i, i%len(subjects)),
		}
	}
	return find.Build(items, nil, nil), numbers
}

// off returns an adviser whose endpoint is never asked.
func off(tb testing.TB) *vectors.Vectors {
	v := vectors.New(nil, slog.New(slog.DiscardHandler))
	v.Use(&vectors.Settings{URL: "http://127.0.0.1:1/v1", Model: "m"})
	tb.Cleanup(func() { v.Use(&vectors.Settings{}) })
	return v
}

// BenchmarkAdvise is what vectors add to a search of 10,000 tools with 1,536 dimensions,
// whose query is known, and the memory that they take.
func BenchmarkAdvise(b *testing.B) {
	x, numbers := catalog(10_000, 1536)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := off(b)
	v.Put(x, func(i int) []float32 { return numbers[i] })
	runtime.GC()
	runtime.ReadMemStats(&after)
	v.PutQuery("t", "thing 17", like(rand.New(rand.NewPCG(3, 4)), numbers[17], 0.8))
	for _, c := range []struct {
		name    string
		visible func(int) bool
	}{{"all", func(int) bool { return true }}, {"half", func(i int) bool { return i%2 == 0 }}} {
		view := x.View(c.visible)
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/vectors=%v", c.name, with), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var boost func(int) float64
					if with {
						boost = v.Advise(context.Background(), by("t"), "thing 17", view)
					}
					view.Search(find.Query{Text: "thing 17", Boost: boost})
				}
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
			})
		}
	}
}

// BenchmarkCosine is one exact comparison, of which a search makes about 800.
func BenchmarkCosine(b *testing.B) {
	_, numbers := catalog(2, 1536)
	one, err := vectors.Quantize(numbers[0])
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		one.Cosine(one)
	}
}

// TestClosest compares what the signs and the codes find with the exact cosines: the ten
// closest of 10,000 items, for 20 queries.
func TestClosest(t *testing.T) {
	x, numbers := catalog(10_000, 1536)
	v := off(t)
	v.Put(x, func(i int) []float32 { return numbers[i] })
	view := x.View(func(int) bool { return true })
	r := rand.New(rand.NewPCG(5, 6))
	found, all := 0, 0
	for n := range 20 {
		query := like(r, numbers[r.IntN(len(numbers))], 0.5)
		text := fmt.Sprint("query ", n)
		v.PutQuery("t", text, query)
		boost := v.Advise(t.Context(), by("t"), text, view)
		order := make([]int, len(numbers))
		exact := make([]float64, len(numbers))
		for i := range order {
			order[i], exact[i] = i, cosine(query, numbers[i])
		}
		by := func(score func(int) float64) []int {
			list := slices.Clone(order)
			slices.SortStableFunc(list, func(a, b int) int {
				switch x, y := score(a), score(b); {
				case x > y:
					return -1
				case x < y:
					return 1
				}
				return 0
			})
			return list[:10]
		}
		got := by(boost)
		for _, want := range by(func(i int) float64 { return exact[i] }) {
			all++
			if slices.Contains(got, want) {
				found++
			}
		}
	}
	recall := float64(found) / float64(all)
	t.Logf("recall at 10: %.3f", recall)
	if recall < 0.97 {
		t.Errorf("recall at 10 is %.3f, want 0.97", recall)
	}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}
