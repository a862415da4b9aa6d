package http1

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/toolgate/toolgate/internal/httpfield"
)

// head is the head of a request.
type head struct {
	method, target, host string
	header               http.Header // without Host, as net/http has it; it lies in memory
	memory               *requestMemory
	length               int64 // of the body
	told                 bool  // the length is
	closes               bool  // the client closes the connection afterwards
}

// headEnd returns the length of the head that b begins with, with the empty line; 0 if b does
// not hold all of it. ok is false if a line ends in another way than with CR and LF. It need not
// look at the bytes before from again, which are whole lines.
func headEnd(b []byte, from int) (end, next int, ok bool) {
	for at := from; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return 0, at, true
		}
		if n == 0 || b[at+n-1] != '\r' {
			return 0, at, false
		}
		if n == 1 {
			return at + 2, at, true
		}
		at += n + 1
	}
}

// parse reads the head of a request, b, to its empty line. ok is false for every form that is
// not plain.
func parse(b []byte) (h head, ok bool) {
	h.memory = requests.Get().(*requestMemory)
	text := string(b) // all values are parts of it
	line, text, _ := strings.Cut(text, "\r\n")
	if !h.requestLine(line) {
		return head{}, false
	}
	h.header, ok = h.memory.fields.Parse(text, func(name, value string) (keep, plain bool) {
		return name != "Host", h.field(name, value)
	})
	return h, ok && h.host != "" && (h.length == 0 || h.method == http.MethodPost)
}

// requestLine reads the first line.
func (h *head) requestLine(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	switch method {
	case http.MethodPost, http.MethodGet, http.MethodDelete:
	default:
		return false
	}
	h.method, h.target = method, target
	return version == "HTTP/1.1" && target != "" && target[0] == '/'
}

// field takes what a field says about the request and the connection. It is false for what is
// not plain, also where one of them is told twice.
func (h *head) field(name, value string) bool {
	switch name {
	case "Host":
		if h.host != "" || value == "" || !httpguts.ValidHostHeader(value) {
			return false
		}
		h.host = value
	case "Content-Length":
		length, ok := httpfield.Length(value)
		if h.told || !ok {
			return false
		}
		h.length, h.told = length, true
	case "Connection":
		if h.closes || !strings.EqualFold(value, "close") && !strings.EqualFold(value, "keep-alive") {
			return false
		}
		h.closes = strings.EqualFold(value, "close")
	case "Transfer-Encoding", "Expect", "Upgrade", "Trailer", "Pragma":
		return false
	}
	return true
}
