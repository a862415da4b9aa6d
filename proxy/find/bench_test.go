package find_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/proxy/find"
)

// large returns a catalog of 10,000 tools: those of LiveMCPBench many times, with other
// names for the servers and some words that only they have.
func large(b *testing.B) ([]find.Item, map[string]string) {
	real := readSet(b, "livemcpbench").items
	items, servers := make([]find.Item, 10_000), map[string]string{}
	for i := range items {
		it := real[i%len(real)]
		n := i / len(real)
		it.Server = fmt.Sprintf("%s-%d", it.Server, n)
		it.Description += fmt.Sprintf(" Made by company%d for purpose%d.", n, i)
		it.Hash = fmt.Sprint(i)
		servers[it.Server] = fmt.Sprintf("Tools of company%d. ", n) + it.Description
		items[i] = it
	}
	return items, servers
}

// queries are such as models and people ask.
var queries = []string{
	"list open pull requests",
	"send a message to the team channel",
	"Create an issue in the repository with a title and labels",
	"what is the weather forecast for tomorrow in a city",
	"Can you please help me find a cheap flight and a hotel for my vacation next week?",
	"read the spreadsheet, compute the average of each column and then draw a bar chart of it",
	"Close the stale pull requests, tell the team on slack, update the ticket and schedule a meeting with the customer about the invoice",
	"resise imagee", "k8s pods logs", "search",
}

func BenchmarkSearch(b *testing.B) {
	items, servers := large(b)
	x := find.Build(items, servers, nil)
	for _, c := range []struct {
		name    string
		visible func(int) bool
	}{{"all", everything}, {"half", func(i int) bool { return i%2 == 0 }}} {
		b.Run(c.name, func(b *testing.B) {
			v := x.View(c.visible)
			b.ReportAllocs()
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				v.Search(find.Query{Text: queries[i%len(queries)], Limit: 8})
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		})
	}
	b.Run("longest", func(b *testing.B) {
		v := x.View(everything)
		b.ReportAllocs()
		text := strings.Repeat(strings.Join(queries, ". ")+". ", 200)
		for b.Loop() {
			v.Search(find.Query{Text: text})
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	items, servers := large(b)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			find.Build(items, servers, nil)
		}
	})
	b.Run("one server", func(b *testing.B) {
		x := find.Build(items, servers, nil)
		changed := slices.Clone(items)
		n := 0
		for b.Loop() {
			for i := range 50 {
				changed[i].Description = fmt.Sprint("Changed ", n, " times.")
				changed[i].Hash = fmt.Sprint(n, i)
			}
			n++
			x = find.Build(changed, servers, x)
		}
	})
	b.Run("view", func(b *testing.B) {
		x := find.Build(items, servers, nil)
		b.ReportAllocs()
		for b.Loop() {
			x.View(func(i int) bool { return i%3 != 0 })
		}
	})
	b.Run("memory", func(b *testing.B) {
		size := 0
		for _, it := range items {
			size += len(it.Name) + len(it.Title) + len(it.Description) + len(it.Schema)
		}
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			x := find.Build(items, servers, nil)
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(x)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(size), "index/catalog")
		}
	})
}
