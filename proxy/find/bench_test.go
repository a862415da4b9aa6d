package find_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// large returns a catalog of 10,000 tools of 200 servers, with their instructions, and
// its size in bytes. Its words are those of the thesaurus, which are rare or common as
// the words of a language are (Zipf).
var large = sync.OnceValues(func() ([]find.Item, map[string]string) {
	text, err := os.ReadFile("thesaurus.txt")
	if err != nil {
		panic(err)
	}
	words := regexp.MustCompile(`[a-z]{3,}`).FindAllString(string(text), -1)
	slices.Sort(words)
	words = slices.Compact(words)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	zipf := rand.NewZipf(r, 1.2, 20, uint64(len(words)-1))
	say := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = words[zipf.Uint64()]
		}
		return strings.Join(out, " ")
	}
	var items []find.Item
	servers := map[string]string{}
	for s := range 200 {
		server := fmt.Sprintf("%s%d", say(1), s)
		servers[server] = say(60)
		for i := range 50 {
			var schema strings.Builder
			schema.WriteString(`{"type":"object","properties":{`)
			for p := range 5 {
				if p > 0 {
					schema.WriteByte(',')
				}
				fmt.Fprintf(&schema, `"%s_%d":{"type":"string","description":"%s"}`, say(1), p, say(9))
			}
			schema.WriteString(`}}`)
			name := strings.ReplaceAll(say(3), " ", "_")
			items = append(items, find.Item{
				Kind: mcp.Tool, Server: server, Name: name, Description: say(10) + ". " + say(30),
				Schema: []byte(schema.String()), ReadOnly: i%2 == 0, Hash: fmt.Sprint(server, i, name),
			})
		}
	}
	return items, servers
})

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
	items, servers := large()
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
	items, servers := large()
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
