package mcp

import (
	"mime"
	"strconv"
	"strings"
)

// Media types of answers (2025-11-25 basic/transports, Sending Messages to the
// Server).
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream"
)

// AcceptsBoth tells whether a client takes both kinds of answers.
func AcceptsBoth(values []string) bool {
	if len(values) == 1 && values[0] == TypeJSON+", "+TypeEvents { // as most clients write it
		return true
	}
	return accepts(values, TypeJSON) && accepts(values, TypeEvents)
}

// AcceptsEvents tells whether a client takes a stream.
func AcceptsEvents(values []string) bool { return accepts(values, TypeEvents) }

// accepts tells whether the Accept headers of a request take a media type: the range
// that names it most closely decides, and takes it unless its weight is 0 (RFC 9110
// section 12.5.1). No header takes everything; what is no media range says nothing.
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
			takes := err != nil || weight > 0 // which is 1 where it is not given
			if close > closest {
				closest, taken = close, takes
			} else {
				taken = taken || takes
			}
		}
	}
	return taken
}

// PlainContent tells whether the Content-Encoding headers of a request name none.
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
