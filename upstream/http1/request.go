package http1

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

// isHost tells whether a host can be sent as it is.
func isHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7F || c == '%' || c == '@' || c == '/' {
			return false
		}
	}
	return host != ""
}

// isTarget tells whether the path and the query of an address can be sent as they are.
func isTarget(to *url.URL) bool {
	for i := range len(to.RawQuery) {
		if c := to.RawQuery[i]; c <= ' ' || c == 0x7F {
			return false
		}
	}
	return to.Opaque == ""
}

// areFields tells whether the header of a request can be sent as it is.
func areFields(h http.Header) bool {
	for name, values := range h {
		switch name {
		case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization",
			"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
			return false // they are about the connection
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}

// appendRequest appends a request for which plain holds, with its body. identity asks for a
// body that is not compressed, unless the request says what it takes.
func appendRequest(b []byte, r *http.Request, identity bool) ([]byte, error) {
	b = append(append(append(b, "POST "...), r.URL.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Host...)
	if _, set := r.Header["User-Agent"]; !set {
		b = append(b, "\r\nUser-Agent: Go-http-client/1.1"...)
	}
	if _, set := r.Header["Accept-Encoding"]; identity && !set {
		b = append(b, "\r\nAccept-Encoding: identity"...)
	}
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, r.ContentLength, 10)
	for name, values := range r.Header {
		for _, value := range values {
			if name == "User-Agent" && value == "" {
				continue // that is how net/http is told to send none
			}
			b = append(append(append(append(b, "\r\n"...), name...), ": "...), value...)
		}
	}
	b = append(b, "\r\n\r\n"...)
	head := len(b)
	b = slices.Grow(b, int(r.ContentLength))[:head+int(r.ContentLength)]
	if _, err := io.ReadFull(r.Body, b[head:]); err != nil {
		return b, fmt.Errorf("read what is to be sent: %w", err)
	}
	return b, nil
}
