package proxy

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// redaction takes secrets out of what a server says.
type redaction struct {
	g      *Gateway
	rules  *ResultRules
	server string
	entry  *audit.Entry // that counts; nil where no call is closed with it
}

// redaction is that of a route.
func (g *Gateway) redaction(r *Route, entry *audit.Entry) redaction {
	return redaction{g, r.results(), r.Server, entry}
}

// redaction is that of what the server says where no tool is known.
func (s *served) redaction(g *Gateway) redaction {
	return redaction{g, &s.mount.Results, s.backend.Name(), nil}
}

func (d redaction) count(n int) {
	if n == 0 {
		return
	}
	if d.entry != nil {
		d.entry.Redacted += int64(n)
	}
	d.g.opts.Metrics.redacted(d.server, n)
}

// walk makes the edits that a visit of something finds. The error says why it
// was not looked through to its end.
func (d redaction) walk(raw []byte, visit func(*redactWalk)) ([]byte, error) {
	if most := cmp.Or(d.rules.MaxRedact, defaultMaxRedact); len(raw) > most {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are looked through for secrets (limits.redact)", len(raw), most)
	}
	w := redactWalk{redactor: d.rules.Redact, raw: raw, until: time.Now().Add(cmp.Or(d.rules.RedactTime, defaultRedactTime))}
	if visit(&w); w.err != nil {
		return nil, fmt.Errorf("it was not looked through for secrets in time (limits.redact_time): %w", w.err)
	}
	if d.count(w.n); w.n == 0 {
		return raw, nil
	}
	return mcp.Splice(raw, w.edits...), nil
}

// result returns the result of a method without secrets. Every string is looked
// at, but for those by which the protocol tells the parts of a result apart, and
// the data of images and sounds.
func (d redaction) result(method string, result []byte) ([]byte, error) {
	if d.rules.Redact == nil {
		return result, nil
	}
	clean, err := d.walk(result, func(w *redactWalk) { w.result(method) })
	if err != nil {
		return nil, refusal.ResultUnsearched(err)
	}
	return clean, nil
}

// fault is result for an error of the server.
func (d redaction) fault(fault *mcp.Error) *mcp.Error {
	if d.rules.Redact == nil {
		return fault
	}
	raw := fault.Append(nil)
	clean, err := d.walk(raw, func(w *redactWalk) {
		w.members(w.all(), func(_ string, at mcp.Span) { w.value(at) })
	})
	switch {
	case err != nil:
		return mcp.Errorf(fault.Code, "The server answered with an error that is not passed on: %v", err)
	case bytes.Equal(clean, raw):
		return fault
	}
	return mcp.ParseError(clean)
}

// members returns an object without secrets in members of some names. What is
// too large to be looked through loses them.
func (d redaction) members(object []byte, names ...string) []byte {
	if d.rules.Redact == nil {
		return object
	}
	clean, err := d.walk(object, func(w *redactWalk) {
		w.members(w.all(), func(name string, at mcp.Span) {
			if slices.Contains(names, name) {
				w.value(at)
			}
		})
	})
	if err == nil {
		return clean
	}
	for _, name := range names {
		if !mcp.LookupSpan(object, name).Absent() {
			object = mcp.SetMember(object, name, mcp.Quote("[not passed on: "+err.Error()+"]"))
		}
	}
	return object
}

// state is the state of a task without secrets in what it says; not of its
// result and questions.
func (d redaction) state(state []byte) []byte { return d.members(state, "statusMessage", "error") }

// question returns the params of a question without secrets in what a person or
// a model is shown.
func (d redaction) question(method string, params []byte) []byte {
	switch method {
	case mcp.MethodElicit:
		return d.members(params, "message")
	case mcp.MethodSampling:
		return d.members(params, "messages", "systemPrompt")
	}
	return params
}

// questions is question for all of an input request.
func (d redaction) questions(result []byte) []byte {
	if d.rules.Redact == nil {
		return result
	}
	requests := mcp.LookupSpan(result, "inputRequests")
	var edits []mcp.Edit
	for m := range mcp.Members(requests.Of(result)) {
		at := mcp.Span{Start: requests.Start + m.Value.Start, End: requests.Start + m.Value.End}
		method, _ := mcp.LookupString(at.Of(result), "method")
		if params := mcp.LookupSpan(at.Of(result), "params"); !params.Absent() {
			where := mcp.Span{Start: at.Start + params.Start, End: at.Start + params.End}
			edits = append(edits, mcp.Edit{Span: where, New: d.question(method, where.Of(result))})
		}
	}
	return mcp.Splice(result, edits...)
}

// redactWalk collects the edits of one result.
type redactWalk struct {
	redactor Redactor
	raw      []byte
	until    time.Time
	edits    []mcp.Edit
	n        int
	err      error // the first
}

func (w *redactWalk) all() mcp.Span { return mcp.Span{End: len(w.raw)} }

func (w *redactWalk) value(at mcp.Span) {
	if w.err != nil {
		return
	}
	clean, n, err := w.redactor.Value(at.Of(w.raw), w.until)
	if w.err = err; n > 0 {
		w.edits, w.n = append(w.edits, mcp.Edit{Span: at, New: clean}), w.n+n
	}
}

// members visits the members of the object at a place by their names.
func (w *redactWalk) members(at mcp.Span, visit func(name string, value mcp.Span)) {
	object := at.Of(w.raw)
	for m := range mcp.Members(object) {
		name, _ := mcp.Unquote(m.Key(object))
		visit(name, mcp.Span{Start: at.Start + m.Value.Start, End: at.Start + m.Value.End})
	}
}

// each visits the elements of the array at a place; what is no array is one.
func (w *redactWalk) each(at mcp.Span, visit func(mcp.Span)) {
	array := at.Of(w.raw)
	if !mcp.IsArray(array) {
		visit(at)
		return
	}
	for e := range mcp.Elements(array) {
		visit(mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End})
	}
}

func (w *redactWalk) result(method string) {
	w.members(w.all(), func(name string, at mcp.Span) {
		switch {
		case name == "resultType", name == "cacheScope":
		case name == "content" && method == mcp.MethodToolsCall, name == "contents" && method == mcp.MethodRead:
			w.each(at, w.block)
		case name == "messages" && method == mcp.MethodPromptsGet:
			w.each(at, w.message)
		default:
			w.value(at)
		}
	})
}

func (w *redactWalk) message(at mcp.Span) {
	if !mcp.IsObject(at.Of(w.raw)) {
		w.value(at)
		return
	}
	w.members(at, func(name string, at mcp.Span) {
		switch name {
		case "role":
		case "content":
			w.each(at, w.block)
		default:
			w.value(at)
		}
	})
}

// block is one content block, or the contents of one resource.
func (w *redactWalk) block(at mcp.Span) {
	if !mcp.IsObject(at.Of(w.raw)) {
		w.value(at)
		return
	}
	kind := string(blockType(at.Of(w.raw)))
	w.members(at, func(name string, at mcp.Span) {
		switch {
		case name == "type", name == "mimeType":
		case name == "data" && (kind == "image" || kind == "audio"), name == "blob":
			w.binary(at)
		case name == "resource" && kind == "resource":
			w.block(at)
		default:
			w.value(at)
		}
	})
}

// binary is data in Base64. What is a text in fact is looked through as one, and
// what is not Base64 as what it is.
func (w *redactWalk) binary(at mcp.Span) {
	text, err := mcp.Unquote(at.Of(w.raw))
	if err != nil {
		w.value(at)
		return
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		w.value(at)
		return
	}
	if w.err != nil || !utf8.Valid(data) {
		return
	}
	clean, n, err := w.redactor.Text(string(data), w.until)
	if w.err = err; n > 0 {
		told := mcp.Quote(base64.StdEncoding.EncodeToString([]byte(clean)))
		w.edits, w.n = append(w.edits, mcp.Edit{Span: at, New: told}), w.n+n
	}
}
