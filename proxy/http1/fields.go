package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// appendStatus appends a status line.
func appendStatus(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	b = append(b, ' ')
	if text := http.StatusText(status); text != "" {
		b = append(b, text...)
	} else {
		b = strconv.AppendInt(append(b, "status code "...), int64(status), 10)
	}
	return append(b, "\r\n"...)
}

// oneLine replaces what would end the line of a field.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// appendFields appends the fields that a handler has set, but for those that are about the
// connection, in the order of their names. Names that are none are left out.
func appendFields(b []byte, h http.Header) []byte {
	var few [16]string
	names := few[:0]
	for name := range h {
		switch name {
		case "Content-Length", "Transfer-Encoding", "Connection", "Trailer":
			continue
		}
		if httpguts.ValidHeaderFieldName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			if strings.ContainsAny(value, "\r\n") {
				value = oneLine.Replace(value)
			}
			b = append(append(append(append(b, name...), ": "...), strings.Trim(value, " \t")...), "\r\n"...)
		}
	}
	return b
}
