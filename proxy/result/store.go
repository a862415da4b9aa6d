package result

import (
	linked "container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/mcp"
)

// URIPrefix is the prefix of the URI of a kept result.
const URIPrefix = "toolgate://results/"

// Store keeps results that were too large, each readable only by the principal who
// called. They are in no list, and do not exist for anyone else. They are kept in
// memory for a limited time. When there is no room, the oldest result of the principal
// with the most bytes goes first. It is safe for concurrent use. The zero value keeps
// nothing.
type Store struct {
	most, mostOfOne int // bytes
	time            time.Duration
	prefix          string            // of ids
	secret          [sha256.Size]byte // of this gateway; makes ids unguessable

	mu    sync.Mutex
	bytes int
	all   map[string]*linked.Element   // of *Kept, by id
	of    map[string]*principalResults // by principal
}

// principalResults are the results of one principal, oldest in front.
type principalResults struct {
	bytes int
	list  linked.List
}

// Kept is a kept result.
type Kept struct {
	Holder           string     // see [Store.Keep]
	Server, Original string     // of the tool, by its name at the server
	Approved         [][]string // whose answers approved the call, for each demand
	Contents         []byte     // of the response to resources/read; immutable
	Expires          time.Time  // when it is dropped

	id, principal string
	mime          string // of the whole; empty where it has several parts
	size          int    // bytes of the content
}

// StoreLimits are the settings of the section limits that bound a [Store].
type StoreLimits struct {
	// Total bytes of large results that are stored as resources. Default: 64MiB.
	KeptResults units.Size `config:"kept_results" default:"64MiB" min:"1KiB" max:"16GiB"`
	// Bytes of large results that are stored for one caller. Default: 16MiB.
	KeptResultsPerPrincipal units.Size `config:"kept_results_per_principal" default:"16MiB" min:"1KiB" max:"16GiB"`
	// How long a large result is stored. Default: 15m.
	KeptResultsTime time.Duration `config:"kept_results_time" default:"15m" min:"1s" max:"24h"`
}

// NewStore returns an empty store. The prefix of its ids names the gateway, where that is
// one of several.
func NewStore(l StoreLimits, prefix string) *Store {
	k := &Store{
		most: int(l.KeptResults), mostOfOne: int(l.KeptResultsPerPrincipal), time: l.KeptResultsTime, prefix: prefix,
		all: make(map[string]*linked.Element), of: make(map[string]*principalResults),
	}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// Keep stores a result of a tool for a principal and returns it; nil when it is too
// large. holder identifies the session at the server: the same result of the same tool
// for the same holder is stored once. approved are whose answers approved the call.
func (k *Store) Keep(principal, holder string, tool Tool, approved [][]string, result []byte) *Kept {
	h := hmac.New(sha256.New, k.secret[:])
	for _, part := range [...]string{holder, tool.Server, tool.Original} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Write(result)
	id := k.prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:20]))
	made := &Kept{id: id, principal: principal, Holder: holder, Server: tool.Server, Original: tool.Original, Approved: approved}
	if made.render(result); len(made.Contents) > min(k.most, k.mostOfOne) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.all[id]; old != nil {
		k.remove(old)
	}
	of := k.of[principal]
	for of != nil && of.bytes+len(made.Contents) > k.mostOfOne {
		k.remove(of.list.Front())
	}
	for k.bytes+len(made.Contents) > k.most {
		k.remove(k.largest().list.Front())
	}
	if of = k.of[principal]; of == nil {
		of = &principalResults{}
		k.of[principal] = of
	}
	made.Expires = time.Now().Add(k.time)
	k.all[id] = of.list.PushBack(made)
	of.bytes += len(made.Contents)
	k.bytes += len(made.Contents)
	copied := *made
	return &copied
}

// largest returns the results of the principal with the most bytes; mu is held, and the
// store is not empty.
func (k *Store) largest() (most *principalResults) {
	for _, of := range k.of {
		if most == nil || of.bytes > most.bytes {
			most = of
		}
	}
	return most
}

// remove takes one out; mu is held.
func (k *Store) remove(e *linked.Element) {
	kept := e.Value.(*Kept)
	of := k.of[kept.principal]
	of.list.Remove(e)
	delete(k.all, kept.id)
	k.bytes -= len(kept.Contents)
	if of.bytes -= len(kept.Contents); of.list.Len() == 0 {
		delete(k.of, kept.principal)
	}
}

// Find returns the result with a URI for a principal, nil when there is none.
func (k *Store) Find(principal, uri string, now time.Time) *Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.all[strings.TrimPrefix(uri, URIPrefix)]
	if e == nil {
		return nil
	}
	kept := *e.Value.(*Kept)
	if kept.principal != principal || !now.Before(kept.Expires) {
		return nil
	}
	return &kept
}

// Len returns the number of kept results and their bytes.
func (k *Store) Len() (results, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all), k.bytes
}

// Sweep drops expired results.
func (k *Store) Sweep(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.all {
		if !now.Before(e.Value.(*Kept).Expires) {
			k.remove(e)
		}
	}
}

// URI returns the URI under which the principal can read the result.
func (r *Kept) URI() string { return URIPrefix + r.id }

// link is the content block that links to the result (2025-06-18 server/tools, Resource
// Links).
func (r *Kept) link(tool string) []byte {
	out := append([]byte(`{"type":"resource_link","uri":`), mcp.Quote(r.URI())...)
	out = mcp.AppendQuote(append(out, `,"name":`...), tool+" result")
	out = mcp.AppendQuote(append(out, `,"description":`...), "The whole result of this call, until "+r.Expires.UTC().Format(time.RFC3339)+".")
	if r.mime != "" {
		out = mcp.AppendQuote(append(out, `,"mimeType":`...), r.mime)
	}
	out = strconv.AppendInt(append(out, `,"size":`...), int64(r.size), 10)
	return append(out, '}')
}

// render builds the contents of the resource: one part for each block and one for the
// structured content. Texts keep their bytes.
func (r *Kept) render(result []byte) {
	var parts [][]byte
	add := func(mime, member string, value []byte, size int) {
		uri := r.URI()
		if len(parts) > 0 {
			uri += "/" + strconv.Itoa(len(parts))
		}
		part := mcp.AppendQuote([]byte(`{"uri":`), uri)
		part = mcp.AppendQuote(append(part, `,"mimeType":`...), mime)
		part = append(append(append(part, `,"`+member+`":`...), value...), '}')
		parts, r.mime, r.size = append(parts, part), mime, r.size+size
	}
	if value := mcp.Lookup(result, "structuredContent"); value != nil {
		add("application/json", "text", mcp.Quote(string(value)), len(value))
	}
	content := mcp.Lookup(result, "content")
	for e := range mcp.Elements(content) {
		block := e.Of(content)
		mime, _ := mcp.LookupString(block, "mimeType")
		switch kind := string(mcp.BlockType(block)); {
		case kind == "text" && !textIn(block).Absent():
			text := mcp.Lookup(block, "text")
			add("text/plain", "text", text, len(text)-2)
		case (kind == "image" || kind == "audio") && isString(mcp.Lookup(block, "data")):
			data := mcp.Lookup(block, "data")
			add(mime, "blob", data, (len(data)-2)/4*3)
		default: // anything else as it is
			add("application/json", "text", mcp.Quote(string(block)), len(block))
		}
	}
	if len(parts) != 1 {
		r.mime = ""
	}
	r.Contents = []byte("[")
	for i, part := range parts {
		if i > 0 {
			r.Contents = append(r.Contents, ',')
		}
		r.Contents = append(r.Contents, part...)
	}
	r.Contents = append(r.Contents, ']')
}
