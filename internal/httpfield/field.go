// Package httpfield reads the fields of a head of HTTP/1.1 (RFC 9112) in their plain form, by
// the rules of net/http for names and values.
package httpfield

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Parse reads fields, up to an empty line that ends the text. Each is given to take, which says
// whether it is kept in the header, and whether it is plain. ok is false for every form that is
// not plain. Values are parts of the text.
func Parse(text string, take func(name, value string) (keep, plain bool)) (h http.Header, ok bool) {
	return new(Memory).Parse(text, take)
}

// Memory is what a header lies in. Its zero value is ready for use. It belongs to who uses the
// header.
type Memory struct {
	header http.Header
	values []string
}

// maxKept is how many lines a header may have whose memory is kept for others.
const maxKept = 32

// Clear prepares the memory for another header. The one before must not be used any more, or any
// slice of its values. The values themselves stay.
func (m *Memory) Clear() {
	if len(m.values) > maxKept {
		*m = Memory{}
		return
	}
	clear(m.header)
	clear(m.values)
}

// Parse is the function Parse for a header in this memory, which is new or cleared.
func (m *Memory) Parse(text string, take func(name, value string) (keep, plain bool)) (h http.Header, ok bool) {
	count := strings.Count(text, "\r\n")
	if m.header == nil {
		m.header = make(http.Header, min(count, 16))
	}
	if count > len(m.values) {
		m.values = make([]string, count)
	}
	h = m.header
	values := m.values
	for {
		var line string
		line, text, ok = strings.Cut(text, "\r\n")
		switch {
		case !ok, line == "" && text != "":
			return nil, false
		case line == "":
			return h, true
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, false
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), textproto.TrimString(value)
		keep, plain := take(name, value)
		if !plain {
			return nil, false
		}
		if !keep {
			continue
		}
		if before := h[name]; before != nil {
			h[name] = append(before, value)
			continue
		}
		values[0] = value
		h[name], values = values[:1:1], values[1:]
	}
}

// Length reads a Content-Length of at most 18 digits.
func Length(value string) (n int64, ok bool) {
	if value == "" || len(value) > 18 {
		return 0, false
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(value[i]-'0')
	}
	return n, true
}
