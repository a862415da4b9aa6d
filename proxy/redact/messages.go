package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Filter removes secrets from single values and texts. A [Redactor] is one. It is safe
// for concurrent use.
type Filter interface {
	// Value returns a validated JSON value without the secrets in its strings and keys,
	// and their number. Without secrets the same bytes are returned. The error means
	// that the search was not over in time.
	Value(value []byte, until time.Time) (clean []byte, n int, err error)
	// Text is Value for a text.
	Text(text string, until time.Time) (clean string, n int, err error)
}

// Messages removes secrets from messages of MCP servers: results, errors, notifications
// and questions. Each method returns its input unchanged where it finds nothing, and
// the number of removed secrets. What could not be searched is never returned. The zero
// value removes nothing. It is safe for concurrent use while its fields are not
// changed.
type Messages struct {
	// Filter finds the secrets; nil finds none.
	Filter Filter
	// SearchLimits bound the search. Zero values stand for the defaults.
	SearchLimits
}

// walk applies the edits that visit finds. The error tells why the search was not
// completed.
func (m *Messages) walk(raw []byte, visit func(*messageWalk)) ([]byte, int, error) {
	if most := int(cmp.Or(m.RedactBytes, searchDefaults().RedactBytes)); len(raw) > most {
		return nil, 0, fmt.Errorf("it has %d bytes, and at most %d are searched for secrets (limits.redact)", len(raw), most)
	}
	w := messageWalk{filter: m.Filter, raw: raw, until: time.Now().Add(cmp.Or(m.RedactTime, searchDefaults().RedactTime))}
	if visit(&w); w.err != nil {
		return nil, 0, fmt.Errorf("the search for secrets was not over in time (limits.redact_time): %w", w.err)
	}
	if w.n == 0 {
		return raw, 0, nil
	}
	return mcp.Splice(raw, w.edits...), w.n, nil
}

// Result removes secrets from the result of a method. It searches every string, except
// for those by which the protocol distinguishes the parts of a result, and the data of
// images and audio. The error tells why the search was not completed.
func (m *Messages) Result(method string, result []byte) (clean []byte, n int, err error) {
	if m.Filter == nil {
		return result, 0, nil
	}
	return m.walk(result, func(w *messageWalk) { w.result(method) })
}

// Fault is [Messages.Result] for a JSON-RPC error of the server. An error that could
// not be searched is replaced by one that says so, with the same code.
func (m *Messages) Fault(fault *mcp.Error) (clean *mcp.Error, n int) {
	if m.Filter == nil {
		return fault, 0
	}
	raw := fault.Append(nil)
	edited, n, err := m.walk(raw, func(w *messageWalk) {
		w.members(w.all(), func(_ string, at mcp.Span) { w.value(at) })
	})
	switch {
	case err != nil:
		return mcp.Errorf(fault.Code, "The server answered with an error that is not passed on: %v", err), 0
	case bytes.Equal(edited, raw):
		return fault, n
	}
	return mcp.ParseError(edited), n
}

// Members removes secrets from the named members of an object. If they could not be
// searched, a note replaces them.
func (m *Messages) Members(object []byte, names ...string) (clean []byte, n int) {
	if m.Filter == nil {
		return object, 0
	}
	clean, n, err := m.walk(object, func(w *messageWalk) {
		w.members(w.all(), func(name string, at mcp.Span) {
			if slices.Contains(names, name) {
				w.value(at)
			}
		})
	})
	if err == nil {
		return clean, n
	}
	for _, name := range names {
		if !mcp.LookupSpan(object, name).Absent() {
			object = mcp.SetMember(object, name, mcp.Quote("[not passed on: "+err.Error()+"]"))
		}
	}
	return object, 0
}

// Task removes secrets from the status message and other texts of a task. It leaves the
// result and the questions of the task as they are.
func (m *Messages) Task(state []byte) (clean []byte, n int) {
	return m.Members(state, "statusMessage", "error")
}

// Question removes secrets from those params of a question that a person or a model is
// shown.
func (m *Messages) Question(method string, params []byte) (clean []byte, n int) {
	switch method {
	case mcp.MethodElicit:
		return m.Members(params, "message")
	case mcp.MethodSampling:
		return m.Members(params, "messages", "systemPrompt")
	}
	return params, 0
}

// Questions is [Messages.Question] for all questions of an input request.
func (m *Messages) Questions(result []byte) (clean []byte, n int) {
	if m.Filter == nil {
		return result, 0
	}
	requests := mcp.LookupSpan(result, "inputRequests")
	var edits []mcp.Edit
	for request := range mcp.Members(requests.Of(result)) {
		at := mcp.Span{Start: requests.Start + request.Value.Start, End: requests.Start + request.Value.End}
		method, _ := mcp.LookupString(at.Of(result), "method")
		if params := mcp.LookupSpan(at.Of(result), "params"); !params.Absent() {
			where := mcp.Span{Start: at.Start + params.Start, End: at.Start + params.End}
			question, found := m.Question(method, where.Of(result))
			edits, n = append(edits, mcp.Edit{Span: where, New: question}), n+found
		}
	}
	return mcp.Splice(result, edits...), n
}

// messageWalk collects the edits of one message.
type messageWalk struct {
	filter Filter
	raw    []byte
	until  time.Time
	edits  []mcp.Edit
	n      int
	err    error // the first error
}

func (w *messageWalk) all() mcp.Span { return mcp.Span{End: len(w.raw)} }

func (w *messageWalk) value(at mcp.Span) {
	if w.err != nil {
		return
	}
	clean, n, err := w.filter.Value(at.Of(w.raw), w.until)
	if w.err = err; n > 0 {
		w.edits, w.n = append(w.edits, mcp.Edit{Span: at, New: clean}), w.n+n
	}
}

// members visits the members of the object at a position by name.
func (w *messageWalk) members(at mcp.Span, visit func(name string, value mcp.Span)) {
	object := at.Of(w.raw)
	for m := range mcp.Members(object) {
		name, _ := mcp.Unquote(m.Key(object))
		visit(name, mcp.Span{Start: at.Start + m.Value.Start, End: at.Start + m.Value.End})
	}
}

// each visits the elements of the array at a position. Any other value is visited
// itself.
func (w *messageWalk) each(at mcp.Span, visit func(mcp.Span)) {
	array := at.Of(w.raw)
	if !mcp.IsArray(array) {
		visit(at)
		return
	}
	for e := range mcp.Elements(array) {
		visit(mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End})
	}
}

func (w *messageWalk) result(method string) {
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

func (w *messageWalk) message(at mcp.Span) {
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

// block visits one content block, or the contents of one resource.
func (w *messageWalk) block(at mcp.Span) {
	if !mcp.IsObject(at.Of(w.raw)) {
		w.value(at)
		return
	}
	kind := string(mcp.BlockType(at.Of(w.raw)))
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

// binary visits Base64 data. It searches encoded text as text, and a string that is no
// Base64 as it is.
func (w *messageWalk) binary(at mcp.Span) {
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
	clean, n, err := w.filter.Text(string(data), w.until)
	if w.err = err; n > 0 {
		told := mcp.Quote(base64.StdEncoding.EncodeToString([]byte(clean)))
		w.edits, w.n = append(w.edits, mcp.Edit{Span: at, New: told}), w.n+n
	}
}
