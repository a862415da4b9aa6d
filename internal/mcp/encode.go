package mcp

// AppendRequest appends a request; params may be nil.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return appendCall(dst, method, params)
}

// AppendRequestWithMeta appends a request whose params are those that [RewriteMeta] returns for
// params and add.
func AppendRequestWithMeta(dst []byte, id ID, method string, params, add []byte) []byte {
	if len(add) == 0 {
		return AppendRequest(dst, id, method, RewriteMeta(params, add))
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = AppendQuote(append(dst, `,"method":`...), method)
	return append(appendWithMeta(append(dst, `,"params":`...), params, add), '}')
}

// AppendNotification appends a notification; params may be nil.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `,"method":`...)
	dst = AppendQuote(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends the response to a request.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendFault appends an error response. An absent id becomes null, as JSON-RPC 2.0
// requires for a message whose id could not be read.
func AppendFault(dst []byte, id ID, fault *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id.Absent() {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, id...)
	}
	dst = append(dst, `,"error":`...)
	dst = fault.Append(dst)
	return append(dst, '}')
}

// Compact reports whether a message fits on one line as it is: it has no line feed and
// no carriage return. Inside strings both are always escaped, so outside they are white
// space.
func Compact(raw []byte) bool {
	for _, c := range raw {
		if c == '\n' || c == '\r' {
			return false
		}
	}
	return true
}

// AppendLine appends a validated message without line breaks between its tokens, as one
// line of a newline-delimited stream.
func AppendLine(dst, raw []byte) []byte {
	if Compact(raw) {
		return append(dst, raw...)
	}
	for _, c := range raw {
		if c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}
