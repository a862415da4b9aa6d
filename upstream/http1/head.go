package http1

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/httpfield"
)

// head is the head of an answer.
type head struct {
	status  int
	reason  string
	header  http.Header
	length  int64 // of the body; -1 if it is not told
	chunked bool
	closes  bool // the server closes the connection afterwards
}

// headEnd returns the length of the head that b begins with, with the empty line, as
// net/http finds it; 0 if b does not hold all of it. It need not look at the bytes before
// from again.
func headEnd(b []byte, from int) int {
	for at := max(0, from-3); ; {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			return 0
		}
		at += end + 1
		switch rest := b[at:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return at + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return at + 2
		}
	}
}

// parseHead reads the head of an answer, b, to its empty line. ok is false for every form
// that is not the plain one of RFC 9112, and for interim answers. The header lies in the memory.
func parseHead(b []byte, memory *httpfield.Memory) (h head, ok bool) {
	text := string(b) // all values are parts of it
	line, text, _ := strings.Cut(text, "\r\n")
	if !h.statusLine(line) {
		return head{}, false
	}
	h.length = -1
	h.header, ok = memory.Parse(text, func(name, value string) (keep, plain bool) { return true, h.field(name, value) })
	return h, ok && h.framed()
}

// statusLine reads the first line.
func (h *head) statusLine(line string) bool {
	const version = "HTTP/1.1 "
	if len(line) < len(version)+3 || line[:len(version)] != version {
		return false
	}
	code, reason := line[len(version):][:3], line[len(version)+3:]
	for i := range len(code) {
		if code[i] < '0' || code[i] > '9' {
			return false
		}
		h.status = 10*h.status + int(code[i]-'0')
	}
	if reason != "" && reason[0] != ' ' || !httpguts.ValidHeaderFieldValue(reason) {
		return false
	}
	h.reason = code + reason
	return h.status >= 200 && h.status != http.StatusNotModified
}

// framed tells whether the head says, in one way, where the body ends.
func (h *head) framed() bool {
	if h.status == http.StatusNoContent {
		none := h.length <= 0 && !h.chunked
		h.length = 0
		return none
	}
	return (h.length >= 0) != h.chunked
}

// field takes what a field says about the body and the connection. It is false for what is
// not plain, also where one of them is told twice.
func (h *head) field(name, value string) bool {
	switch name {
	case "Content-Length":
		length, ok := httpfield.Length(value)
		if h.length >= 0 || !ok {
			return false
		}
		h.length = length
	case "Transfer-Encoding":
		if h.chunked || !strings.EqualFold(value, "chunked") {
			return false
		}
		h.chunked = true
	case "Connection":
		h.closes = h.closes || strings.EqualFold(value, "close")
		return h.closes || strings.EqualFold(value, "keep-alive")
	case "Trailer", "Upgrade":
		return false
	}
	return true
}
