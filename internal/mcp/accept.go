package mcp

import (
	"mime"
	"strconv"
	"strings"
)

// Media types of responses (2025-11-25 basic/transports, Sending Messages to the
// Server).
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream"
)

// AcceptsBoth reports whether a client accepts both media types.
func AcceptsBoth(values []string) bool {
	if len(values) == 1 && values[0] == TypeJSON+", "+TypeEvents { // the usual spelling
		return true
	}
	return accepts(values, TypeJSON) && accepts(values, TypeEvents)
}

// AcceptsEvents reports whether a client accepts a stream.
func AcceptsEvents(values []string) bool { return accepts(values, TypeEvents) }

// accepts reports whether the Accept headers of a request allow a media type. The most
// specific matching range decides, and allows it unless its weight is 0 (RFC 9110
// section 12.5.1). Without a header everything is allowed; invalid ranges are ignored.
func accepts(values []string, kind string) bool {
	if len(values) == 0 {
		return true
	}
	family, _, _ := strings.Cut(kind, "/")
	closest, taken := 0, false
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			name, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			close := 0
			switch name {
			case kind:
				close = 3
			case family + "/*":
				close = 2
			case "*/*":
				close = 1
			}
			if close == 0 || close < closest {
				continue
			}
			weight, err := strconv.ParseFloat(params["q"], 64)
			takes := err != nil || weight > 0 // the weight is 1 if absent
			if close > closest {
				closest, taken = close, takes
			} else {
				taken = taken || takes
			}
		}
	}
	return taken
}

// PlainContent reports whether the Content-Encoding headers of a request name no
// encoding.
func PlainContent(values []string) bool {
	for _, value := range values {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}
