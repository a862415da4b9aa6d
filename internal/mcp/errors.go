package mcp

import (
	"fmt"
	"strconv"
)

// Error codes of JSON-RPC 2.0 and of the MCP revisions.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	// CodeResourceNotFound is used up to 2025-11-25; later revisions use
	// CodeInvalidParams.
	CodeResourceNotFound = -32002
	// CodeURLElicitation is used only by 2025-11-25.
	CodeURLElicitation = -32042

	CodeHeaderMismatch     = -32020 // 2026-07-28, streamable HTTP
	CodeMissingCapability  = -32021 // 2026-07-28
	CodeUnsupportedVersion = -32022 // 2026-07-28
)

// ReservedCode reports whether a code is in the range that 2026-07-28 reserves for
// errors of one hop. They are never passed on: a client would take them for errors of
// its own request.
func ReservedCode(code int) bool { return code <= CodeHeaderMismatch && code > CodeHeaderMismatch-10 }

// Error is a JSON-RPC error object.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON; nil when there is none
	// Raw is the whole error object as an upstream server sent it. When set, it is sent
	// unchanged.
	Raw []byte
	// Origin is where the error arose. It is not sent.
	Origin Origin
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf returns an Error with a formatted message. It is the client's fault, or with
// CodeInternal the gateway's.
func Errorf(code int, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...), Origin: OriginClient}
	if code == CodeInternal {
		e.Origin = OriginGateway
	}
	return e
}

// Append appends the error object.
func (e *Error) Append(dst []byte) []byte {
	if e.Raw != nil {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// ParseError parses a validated error object of a peer and keeps its bytes. A code that
// is not an integer counts as CodeInternal. The origin is the server; callers that
// parse a client's error must set it.
func ParseError(raw []byte) *Error {
	e := &Error{Code: CodeInternal, Raw: raw, Data: Lookup(raw, "data"), Origin: OriginServer}
	if n, err := strconv.Atoi(string(Lookup(raw, "code"))); err == nil {
		e.Code = n
	}
	e.Message, _ = LookupString(raw, "message")
	return e
}
