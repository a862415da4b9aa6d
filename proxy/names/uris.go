package names

import (
	"bytes"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// ExposeURIs returns a result or params with every URI of the server exposed under its
// namespace. Where none can appear the same bytes are returned.
func ExposeURIs(namespace, method string, object []byte) []byte {
	if namespace == "" {
		return object
	}
	var w walk
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
	return w.edited()
}

// app exposes the resource of an MCP App in the _meta of a tool or a result, in the
// spellings of the extension and of its predecessor.
func (w *walk) app(meta mcp.Span) {
	w.uri(w.member(w.member(meta, "ui"), "resourceUri"))
	w.uri(w.member(meta, "ui/resourceUri"))
	w.uri(w.member(meta, "openai/outputTemplate"))
}

// ExposeApp returns a tool with the URI of the MCP App in its _meta exposed under the
// namespace. A tool without one is returned unchanged.
func ExposeApp(namespace string, tool []byte) []byte {
	if namespace == "" {
		return tool
	}
	w := walk{namespace: namespace, raw: tool}
	w.app(w.member(w.all(), "_meta"))
	return w.edited()
}

// ExposeAsker returns the params of an elicitation with the server named before its
// message. Without a namespace they are returned unchanged.
func ExposeAsker(namespace string, params []byte) []byte {
	if namespace == "" {
		return params
	}
	w := walk{namespace: namespace, raw: params}
	w.asker(w.member(w.all(), "message"))
	return w.edited()
}

// ExposeMissing replaces the URI in the error of resources/read about a missing
// resource by the one that the client asked for. It modifies the error.
func ExposeMissing(exposed, original string, fault *mcp.Error) {
	uri, named := mcp.LookupString(fault.Data, "uri")
	if !named || exposed == original || uri != original || fault.Code != mcp.CodeResourceNotFound && fault.Code != mcp.CodeInvalidParams {
		return
	}
	fault.Data = mcp.SetMember(fault.Data, "uri", mcp.Quote(exposed))
	if fault.Raw != nil {
		fault.Raw = mcp.SetMember(fault.Raw, "data", fault.Data)
	}
}

// ExposeQuestions returns an input request with every URI in its questions exposed
// under the namespace, and with the server named where a user is asked.
func ExposeQuestions(namespace string, result []byte) []byte {
	if namespace == "" {
		return result
	}
	w := walk{namespace: namespace, raw: result}
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
	return w.edited()
}

// walk collects the edits of one object.
type walk struct {
	namespace string
	raw       []byte
	edits     []mcp.Edit
}

// edited returns the object with the edits applied, or the same bytes without edits.
func (w *walk) edited() []byte {
	if len(w.edits) == 0 {
		return w.raw
	}
	return mcp.Splice(w.raw, w.edits...)
}

func (w *walk) all() mcp.Span { return mcp.Span{Start: 0, End: len(w.raw)} }

// member returns the position of a member of the object at a position.
func (w *walk) member(at mcp.Span, key string) mcp.Span {
	if at.Absent() {
		return mcp.Span{}
	}
	s := mcp.LookupSpan(at.Of(w.raw), key)
	if s.Absent() {
		return s
	}
	return mcp.Span{Start: at.Start + s.Start, End: at.Start + s.End}
}

func (w *walk) each(at mcp.Span, visit func(mcp.Span)) {
	if at.Absent() {
		return
	}
	for e := range mcp.Elements(at.Of(w.raw)) {
		visit(mcp.Span{Start: at.Start + e.Start, End: at.Start + e.End})
	}
}

// messages visits the messages of a prompt or of a sampling request.
func (w *walk) messages(of mcp.Span) {
	w.each(w.member(of, "messages"), func(at mcp.Span) {
		content := w.member(at, "content")
		if mcp.IsArray(content.Of(w.raw)) {
			w.each(content, w.block)
		} else {
			w.block(content)
		}
	})
}

// block visits one content block. A resource link has a URI, an embedded resource one
// inside.
func (w *walk) block(at mcp.Span) {
	if at.Absent() {
		return
	}
	switch string(mcp.BlockType(at.Of(w.raw))) {
	case "resource_link":
		w.uri(w.member(at, "uri"))
	case "resource":
		w.uri(w.member(w.member(at, "resource"), "uri"))
	case "tool_result":
		w.each(w.member(at, "content"), w.block)
	}
}

// asker puts the namespace before a message to a user (2026-07-28 client/elicitation:
// it must be clear which server asks).
func (w *walk) asker(at mcp.Span) {
	if text := at.Of(w.raw); len(text) > 0 && text[0] == '"' {
		begin := mcp.Span{Start: at.Start + 1, End: at.Start + 1}
		w.edits = append(w.edits, mcp.Edit{Span: begin, New: []byte("[" + w.namespace + "] ")})
	}
}

func (w *walk) uri(at mcp.Span) {
	if at.Absent() {
		return
	}
	if edit, ok := uriEdit(w.namespace, w.raw, at); ok {
		w.edits = append(w.edits, edit)
	}
}

// uriEdit returns the edit that exposes the URI in a string token of a message.
func uriEdit(namespace string, raw []byte, at mcp.Span) (mcp.Edit, bool) {
	token := at.Of(raw)
	uri, err := mcp.Unquote(token)
	if err != nil {
		return mcp.Edit{}, false
	}
	if bytes.HasPrefix(token, []byte(`"`+uiScheme)) {
		place := at.Start + 1 + len(uiScheme)
		return mcp.Edit{Span: mcp.Span{Start: place, End: place}, New: []byte(namespace + "+")}, true
	}
	if strings.HasPrefix(uri, uiScheme) { // written with escapes
		return mcp.Edit{Span: at, New: mcp.Quote(URI(namespace, uri))}, true
	}
	place := at.Start + 1
	return mcp.Edit{Span: mcp.Span{Start: place, End: place}, New: []byte(namespace + "+")}, true
}
