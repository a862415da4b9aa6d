package proxy

import (
	linked "container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// keptURI is how the URI of a kept result begins.
const keptURI = "toolgate://results/"

// keptResults are results that were too large to be passed on whole, each for
// the principal who called. They are in no list, and for everyone else there is
// nothing. They are kept in memory for a time and go, the oldest of a principal
// first, when others need their room.
type keptResults struct {
	most, mostOfOne int // bytes
	time            time.Duration
	secret          [sha256.Size]byte // of this gateway; makes ids that cannot be guessed

	mu    sync.Mutex
	bytes int
	all   map[string]*linked.Element // of *keptResult, by id
	of    map[string]*keptOfOne      // by principal
}

// keptOfOne are the results of one principal, the oldest in front.
type keptOfOne struct {
	bytes int
	list  linked.List
}

// keptResult is one of them. It is not changed but for its time.
type keptResult struct {
	id, principal    string
	holder           string // see [served.holder]
	server, original string // of the tool, by its name at the server
	contents         []byte // of the answer to resources/read
	mime             string // of all of it; empty where it has several parts
	size             int    // bytes of what is in it
	expires          time.Time
}

func newKeptResults(l *Limits) *keptResults {
	k := &keptResults{
		most: l.KeptResults, mostOfOne: l.KeptResultsPerPrincipal, time: l.KeptResultsTime,
		all: make(map[string]*linked.Element), of: make(map[string]*keptOfOne),
	}
	_, _ = rand.Read(k.secret[:]) // never fails
	return k
}

// keep keeps a result of a tool for a principal, and of it for the holder (see
// [served.holder]); nil when it is too large. The
// same result of the same tool is kept once.
func (k *keptResults) keep(principal, holder string, r *Route, result []byte) *keptResult {
	h := hmac.New(sha256.New, k.secret[:])
	for _, part := range [...]string{holder, r.Server, r.Original} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Write(result)
	id := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:20]))
	made := &keptResult{id: id, principal: principal, holder: holder, server: r.Server, original: r.Original}
	if made.render(result); len(made.contents) > min(k.most, k.mostOfOne) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.all[id]; old != nil {
		k.remove(old)
	}
	of := k.of[principal]
	for of != nil && of.bytes+len(made.contents) > k.mostOfOne {
		k.remove(of.list.Front())
	}
	for k.bytes+len(made.contents) > k.most {
		k.remove(k.largest().list.Front())
	}
	if of = k.of[principal]; of == nil {
		of = &keptOfOne{}
		k.of[principal] = of
	}
	made.expires = time.Now().Add(k.time)
	k.all[id] = of.list.PushBack(made)
	of.bytes += len(made.contents)
	k.bytes += len(made.contents)
	copied := *made
	return &copied
}

// largest returns what the principal has who has most; mu is held and there is
// one.
func (k *keptResults) largest() (most *keptOfOne) {
	for _, of := range k.of {
		if most == nil || of.bytes > most.bytes {
			most = of
		}
	}
	return most
}

// remove takes one out; mu is held.
func (k *keptResults) remove(e *linked.Element) {
	kept := e.Value.(*keptResult)
	of := k.of[kept.principal]
	of.list.Remove(e)
	delete(k.all, kept.id)
	k.bytes -= len(kept.contents)
	if of.bytes -= len(kept.contents); of.list.Len() == 0 {
		delete(k.of, kept.principal)
	}
}

// find returns the result of a URI for a principal, nil when there is none.
func (k *keptResults) find(principal, uri string, now time.Time) *keptResult {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.all[strings.TrimPrefix(uri, keptURI)]
	if e == nil {
		return nil
	}
	kept := *e.Value.(*keptResult)
	if kept.principal != principal || !now.Before(kept.expires) {
		return nil
	}
	return &kept
}

// sweep drops what has expired.
func (k *keptResults) sweep(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.all {
		if !now.Before(e.Value.(*keptResult).expires) {
			k.remove(e)
		}
	}
}

func (r *keptResult) uri() string { return keptURI + r.id }

// link is the block that leads to the result (2025-06-18 server/tools, Resource
// Links).
func (r *keptResult) link(tool string) []byte {
	out := append([]byte(`{"type":"resource_link","uri":`), mcp.Quote(r.uri())...)
	out = mcp.AppendQuote(append(out, `,"name":`...), tool+" result")
	out = mcp.AppendQuote(append(out, `,"description":`...), "The whole result of this call, until "+r.expires.UTC().Format(time.RFC3339)+".")
	if r.mime != "" {
		out = mcp.AppendQuote(append(out, `,"mimeType":`...), r.mime)
	}
	out = strconv.AppendInt(append(out, `,"size":`...), int64(r.size), 10)
	return append(out, '}')
}

// render makes the contents of a resource of a tool's result: one part for each
// block and one for the structured content. The texts keep their bytes.
func (r *keptResult) render(result []byte) {
	var parts [][]byte
	add := func(mime, member string, value []byte, size int) {
		uri := r.uri()
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
		default: // what cannot be a part of a resource, as it is
			add("application/json", "text", mcp.Quote(string(block)), len(block))
		}
	}
	if len(parts) != 1 {
		r.mime = ""
	}
	r.contents = []byte("[")
	for i, part := range parts {
		if i > 0 {
			r.contents = append(r.contents, ',')
		}
		r.contents = append(r.contents, part...)
	}
	r.contents = append(r.contents, ']')
}

// read answers resources/read: of a kept result itself, of everything else by
// asking who has it.
func (g *Gateway) read(ctx context.Context, x *Exchange) reply {
	if uri, ok := x.Message.ParamString("uri"); ok && strings.HasPrefix(uri, keptURI) {
		return g.readKept(ctx, x, uri)
	}
	return calls(mcp.Resource, "uri")(g, ctx, x)
}

// readKept answers with a kept result. It passes what a call of its tool passes,
// less what was paid for when that was made.
func (g *Gateway) readKept(ctx context.Context, x *Exchange, uri string) (answer reply) {
	g.first.wait(ctx, "", x.Scope, true)
	snap, rec := g.snapshot.Load(), g.newRecord(x, mcp.Resource, uri)
	defer func() { rec.close(&answer, recover()) }()
	refuse := func(err error) reply { return g.refuse(x, rec.refused(err)) }

	if err := g.opts.Auditor.Healthy(); err != nil {
		return refuse(refusal.AuditDown(err))
	}
	missing := func() error { return unknown(x, mcp.Resource, uri) }
	kept := g.keptResults.find(x.Identity.Key(), uri, time.Now())
	if kept == nil {
		return refuse(missing())
	}
	route := snap.Catalog(x).tool(kept.server, kept.original, x.Scope)
	if route == nil || route.to.holder(x.Identity) != kept.holder {
		return refuse(missing())
	}
	rec.routed(route)
	if _, err := g.permitOr(ctx, x, route, route.argumentsOf(x), rec, known(missing)); err != nil {
		return refuse(err)
	}
	if _, err := snap.examineTool(ctx, x, route); err != nil {
		return refuse(err)
	}
	result := append(append([]byte(`{"contents":`), kept.contents...), '}')
	if x.Era == mcp.Modern {
		left := strconv.AppendInt(nil, max(time.Until(kept.expires).Milliseconds(), 0), 10)
		return reply{result: g.modernResult(mcp.SetMember(result, "ttlMs", left), false, true)}
	}
	return reply{result: result}
}
