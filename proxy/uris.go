package proxy

import (
	"bytes"

	"github.com/toolgate/toolgate/internal/mcp"
)

// exposeURIs returns a result or params with every URI of the server exposed
// under its namespace. Where none can appear the same bytes come back.
func exposeURIs(namespace, method string, object []byte) []byte {
	if namespace == "" || !bytes.Contains(object, []byte(`uri"`)) && (method != mcp.MethodToolsCall || !mayNameApp(object)) {
		return object
	}
	var w uriWalk
	w.namespace, w.raw = namespace, object
	switch method {
	case mcp.MethodRead:
		w.each(w.member(w.all(), "contents"), func(at mcp.Span) { w.uri(w.member(at, "uri")) })
	case mcp.MethodToolsCall:
		w.each(w.member(w.all(), "content"), w.block)
		w.app(w.member(w.all(), "_meta"))
	case mcp.MethodPromptsGet, mcp.MethodSampling:
		w.messages(w.all())
	case mcp.NotifyResourceUpdated:
		w.uri(w.member(w.all(), "uri"))
	}
	if len(w.edits) == 0 {
		return object
	}
	return mcp.Splice(object, w.edits...)
}

// mayNameApp tells whether an object may name the resource of an app.
func mayNameApp(object []byte) bool {
	return bytes.Contains(object, []byte(`esourceUri"`)) || bytes.Contains(object, []byte(`openai/outputTemplate"`))
}

// app is the resource of an MCP App in the _meta of a tool or a result, in the
// spellings of the extension and of the one that was before it.
func (w *uriWalk) app(meta mcp.Span) {
	w.uri(w.member(w.member(meta, "ui"), "resourceUri"))
	w.uri(w.member(meta, "ui/resourceUri"))
	w.uri(w.member(meta, "openai/outputTemplate"))
}

// exposeQuestions returns a result that asks for input with every URI of the
// server in its questions exposed under the namespace, and with the server
// named where a user is asked something.
func exposeQuestions(namespace string, result []byte) []byte {
	if namespace == "" {
		return result
	}
	w := uriWalk{namespace: namespace, raw: result}
	requests := w.member(w.all(), "inputRequests")
	for m := range mcp.Members(requests.Of(result)) {
		at := mcp.Span{Start: requests.Start + m.Value.Start, End: requests.Start + m.Value.End}
		switch method, _ := mcp.LookupString(at.Of(result), "method"); method {
		case mcp.MethodSampling:
			w.messages(w.member(at, "params"))
		case mcp.MethodElicit:
			w.asker(w.member(w.member(at, "params"), "message"))
		}
	}
	if len(w.edits) == 0 {
		return result
	}
	return mcp.Splice(result, w.edits...)
}

// uriWalk collects the edits of one object.
type uriWalk struct {
	namespace string
	raw       []byte
	edits     []mcp.Edit
}

func (w *uriWalk) all() mcp.Span { return mcp.Span{Start: 0, End: len(w.raw)} }

// member returns the place of a member of the object at a place.
func (w *uriWalk) member(at mcp.Span, key string) mcp.Span {
	if at.Absent() {
		return mcp.Span{}
	}
	s := mcp.LookupSpan(at.Of(w.raw), key)
	if s.Absent() {
		return s
	}
	return mcp.Span{Start: at.Start + s.Start, End: at.Start + s.End}
}

func (w *uriWalk) each(at mcp.Span, visit func(mcp.Span)) {
	if at.Absent() {
		return
	}
	for e := range mcp.Elements(at.Of(w.raw)) {
		visit(mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End})
	}
}

// messages are those of a prompt or of a sampling request.
func (w *uriWalk) messages(of mcp.Span) {
	w.each(w.member(of, "messages"), func(at mcp.Span) {
		content := w.member(at, "content")
		if mcp.IsArray(content.Of(w.raw)) {
			w.each(content, w.block)
		} else {
			w.block(content)
		}
	})
}

// block is one content block: a resource link has a URI, an embedded resource
// one inside.
func (w *uriWalk) block(at mcp.Span) {
	kind := w.member(at, "type")
	switch string(kind.Of(w.raw)) {
	case `"resource_link"`:
		w.uri(w.member(at, "uri"))
	case `"resource"`:
		w.uri(w.member(w.member(at, "resource"), "uri"))
	case `"tool_result"`:
		w.each(w.member(at, "content"), w.block)
	}
}

// asker puts the namespace in front of a message to a user (2026-07-28
// client/elicitation: it must be clear which server asks).
func (w *uriWalk) asker(at mcp.Span) {
	if text := at.Of(w.raw); len(text) > 0 && text[0] == '"' {
		begin := mcp.Span{Start: at.Start + 1, End: at.Start + 1}
		w.edits = append(w.edits, mcp.Edit{Span: begin, New: []byte("[" + w.namespace + "] ")})
	}
}

func (w *uriWalk) uri(at mcp.Span) {
	if at.Absent() {
		return
	}
	if edit, ok := uriEdit(w.namespace, w.raw, at); ok {
		w.edits = append(w.edits, edit)
	}
}
