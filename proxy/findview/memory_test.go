package findview_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/findview"
)

// definition is a tool as a server lists it.
type definition struct {
	server, name string
	raw          []byte
}

func (d *definition) item() find.Item {
	sum := sha256.Sum256(d.raw)
	it := find.Item{Kind: mcp.Tool, Server: d.server, Name: d.name, Hash: d.name + "\x00" + string(sum[:]), Schema: mcp.Lookup(d.raw, "inputSchema")}
	it.Description, _ = mcp.LookupString(d.raw, "description")
	return it
}

// definitions are 10,000 tools: those of LiveMCPBench many times, with other names for the
// servers and some words that only they have.
func definitions(t testing.TB) (list []*definition, size int) {
	real, err := retrieval.ReadCatalog(filepath.Join("..", "..", "internal", "retrieval", "testdata", "livemcpbench", "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		of := real[i%len(real)]
		n := i / len(real)
		d := &definition{server: fmt.Sprintf("%s-%d", of.Server, n), name: of.Name}
		description := of.Description + fmt.Sprintf(" Made by company%d for purpose%d.", n, i)
		if d.raw, err = json.Marshal(map[string]any{"name": of.Name, "description": description, "inputSchema": json.RawMessage(of.InputSchema)}); err != nil {
			t.Fatal(err)
		}
		d.name = d.server + "__" + d.name
		list = append(list, d)
		size += len(d.name) + len(description) + len(of.InputSchema)
	}
	return list, size
}

// TestMemory bounds the memory of an index beside that of the definitions, which the
// gateway holds anyway.
func TestMemory(t *testing.T) {
	list, size := definitions(t)
	x := findview.NewIndex[*definition]()
	catalog := &findview.Catalog[*definition]{Items: func(yield func(*definition, func() find.Item) bool) {
		for _, d := range list {
			if !yield(d, d.item) {
				return
			}
		}
	}}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	x.Set(catalog)
	x.Next(slog.New(slog.DiscardHandler))
	got := (heap() - before) / float64(size)
	t.Logf("the index takes %.2f times the bytes of the catalog", got)
	if got > 1.5 {
		t.Errorf("the index takes %.2f times the bytes of the catalog", got)
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(list)
}
