package mcp

import (
	"bytes"
	"errors"
)

// MessageKind is the kind of a message.
type MessageKind uint8

// The kinds of JSON-RPC messages. The zero kind is invalid.
const (
	KindInvalid MessageKind = iota
	KindRequest
	KindNotification
	KindResponse
)

// Message is one JSON-RPC message: its raw bytes, and the positions of what the gateway
// reads. [Parse] makes a Message; it is immutable and shares the parsed bytes.
type Message struct {
	Raw    []byte
	Kind   MessageKind
	ID     ID
	Method string

	params, result, fault Span
	members               []member // of params or result, and of their _meta
	uris                  bool     // there is a key under which a URI may stand
}

// Clone returns the message with bytes of its own.
func (m *Message) Clone() Message {
	own := *m
	own.Raw = bytes.Clone(m.Raw)
	return own
}

// Params returns the params object of a request or notification, nil when it
// has none.
func (m *Message) Params() []byte { return m.params.Of(m.Raw) }

// Result returns the result of a response, nil when it is an error.
func (m *Message) Result() []byte { return m.result.Of(m.Raw) }

// LentResult is Result with all the capacity of the memory behind it, so that the arena that
// has lent it knows it again.
func (m *Message) LentResult() []byte {
	if m.result.Absent() {
		return nil
	}
	return m.Raw[m.result.Start:m.result.End]
}

// Fault returns the error object of a response, nil when it is a result.
func (m *Message) Fault() []byte { return m.fault.Of(m.Raw) }

// Param returns the raw value of a member of params, nil when there is none.
func (m *Message) Param(name string) []byte {
	return m.find(levelParams, name)
}

// ParamString returns the text of a member of params; ok is false when it is absent or
// not a string.
func (m *Message) ParamString(name string) (text string, ok bool) {
	text, err := Unquote(m.Param(name))
	return text, err == nil
}

// Meta returns the raw value of a member of params._meta, nil when there is
// none.
func (m *Message) Meta(name string) []byte {
	return m.find(levelParamsMeta, name)
}

// ResultMember returns the raw value of a member of result, nil when there is
// none.
func (m *Message) ResultMember(name string) []byte {
	return m.find(levelResult, name)
}

// find returns the value of a member of a level. Protocol keys were recorded by the
// scan, all others are searched.
func (m *Message) find(lvl level, name string) []byte {
	for i := range m.members {
		if e := &m.members[i]; e.level == lvl && e.name == name {
			return e.value.Of(m.Raw)
		}
	}
	if protocolKeys[lvl].has(name) {
		return nil
	}
	switch lvl {
	case levelParams:
		return Lookup(m.Params(), name)
	case levelParamsMeta:
		return Lookup(m.find(levelParams, "_meta"), name)
	default:
		return Lookup(m.Result(), name)
	}
}

// Parse validates one message strictly and finds its parts. Bytes that are not strict
// JSON give an Error with CodeParse, JSON that is no message of the protocol one with
// CodeInvalidRequest. The Message that comes with an error is of KindInvalid. It has
// the id and method if they could be read, so that the error response can name the id.
// A duplicate or invalid id is left out.
func Parse(raw []byte, limits Limits) (Message, error) {
	s := newScanner(raw, limits)
	defer s.release()
	m := Message{Raw: raw}
	if err := s.document(levelEnvelope); err != nil {
		return m, Errorf(CodeParse, "Parse error: %v", err)
	}
	m.uris = s.uris
	err := m.envelope(s)
	if s.over != nil {
		err = invalid(s.over)
	}
	if s.soft != nil {
		err = Errorf(CodeParse, "Parse error: %v", s.soft)
		if Validate([]byte(m.ID), limits) != nil {
			m.ID = ""
		}
	}
	if err != nil {
		m.Kind = KindInvalid
	}
	return m, err
}

// Envelope errors, as sentences of the error response.
var (
	errBatch      = errors.New("a batch is not accepted here")
	errNotObject  = errors.New("the message is not an object")
	errVersion    = errors.New(`"jsonrpc" must be "2.0"`)
	errID         = errors.New(`"id" must be a string or an integer`)
	errMethod     = errors.New(`"method" must be a string`)
	errParams     = errors.New(`"params" must be an object`)
	errNoKind     = errors.New(`neither "method" nor "result" nor "error"`)
	errTwoKinds   = errors.New(`more than one of "method", "result" and "error"`)
	errResult     = errors.New(`"result" must be an object`)
	errFault      = errors.New(`"error" must be an object with an integer "code" and a "message"`)
	errCase       = errors.New("a protocol key in another spelling")
	errResponseID = errors.New(`a result needs an "id"`)
)

// envelope reads the members that the scanner recorded.
func (m *Message) envelope(s *scanner) error {
	switch {
	case IsArray(m.Raw):
		return invalid(errBatch)
	case !IsObject(m.Raw):
		return invalid(errNotObject)
	}
	var fault error
	keep := func(err error) {
		if fault == nil {
			fault = err
		}
	}
	if s.variant {
		keep(errCase)
	}
	var version, id, method Span
	ids, inner := 0, 0
	for i := range s.members {
		e := &s.members[i]
		if e.level != levelEnvelope {
			inner++
			continue
		}
		switch e.name {
		case "jsonrpc":
			version = e.value
		case "id":
			id = e.value
			ids++
		case "method":
			method = e.value
		case "params":
			m.params = e.value
		case "result":
			m.result = e.value
		case "error":
			m.fault = e.value
		}
	}
	if inner > 0 {
		m.members = make([]member, 0, inner)
		for _, e := range s.members {
			if e.level != levelEnvelope {
				m.members = append(m.members, e)
			}
		}
	}
	if ids == 1 {
		var ok bool
		m.ID, ok = ParseID(id.Of(m.Raw))
		// An error response may be to a message whose id could not be read.
		if !ok && (m.fault.Absent() || string(id.Of(m.Raw)) != "null") {
			keep(errID)
		}
	}
	if string(version.Of(m.Raw)) != `"2.0"` {
		keep(errVersion)
	}
	keep(m.kind(method, ids > 0))
	if fault != nil {
		return invalid(fault)
	}
	return nil
}

// kind decides the kind of the message from its members.
func (m *Message) kind(method Span, hasID bool) error {
	kinds := 0
	for _, present := range []bool{!method.Absent(), !m.result.Absent(), !m.fault.Absent()} {
		if present {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return errNoKind
	case kinds > 1:
		return errTwoKinds
	case !method.Absent():
		name, err := methodName(method.Of(m.Raw))
		if err != nil {
			return errMethod
		}
		if !m.params.Absent() && !IsObject(m.Params()) {
			return errParams
		}
		m.Method, m.Kind = name, KindNotification
		if hasID {
			m.Kind = KindRequest
		}
	case !m.result.Absent():
		if m.ID.Absent() {
			return errResponseID
		}
		if !IsObject(m.Result()) {
			return errResult
		}
		m.Kind = KindResponse
	default:
		fault := m.Fault()
		if _, ok := ParseID(Lookup(fault, "code")); !ok || Lookup(fault, "code")[0] == '"' {
			return errFault
		}
		if _, ok := LookupString(fault, "message"); !ok {
			return errFault
		}
		m.Kind = KindResponse
	}
	return nil
}

func invalid(err error) error {
	return Errorf(CodeInvalidRequest, "Invalid Request: %v", err)
}

// methodName returns the text of a method token; known methods share one string.
func methodName(raw []byte) (string, error) {
	if len(raw) >= 2 && raw[0] == '"' {
		if name, ok := methodNames[string(raw[1:len(raw)-1])]; ok {
			return name, nil
		}
	}
	return Unquote(raw)
}

// SplitBatch returns the messages of a JSON-RPC batch (only 2025-03-26 has them) as raw
// bytes. ok is false when raw is not an array. An array that is not strict JSON, is
// empty or has more than most elements gives an Error.
func SplitBatch(raw []byte, limits Limits, most int) (messages [][]byte, ok bool, err error) {
	if !IsArray(raw) {
		return nil, false, nil
	}
	if err := Validate(raw, limits); err != nil {
		if e, ok := errors.AsType[*SyntaxError](err); ok && e.TooMany {
			return nil, true, invalid(err)
		}
		return nil, true, Errorf(CodeParse, "Parse error: %v", err)
	}
	for e := range Elements(raw) {
		if len(messages) == most {
			return nil, true, Errorf(CodeInvalidRequest, "Invalid Request: a batch of more than %d messages", most)
		}
		messages = append(messages, e.Of(raw))
	}
	if len(messages) == 0 {
		return nil, true, Errorf(CodeInvalidRequest, "Invalid Request: an empty batch")
	}
	return messages, true, nil
}
