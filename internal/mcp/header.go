package mcp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

var errHeaderValue = errors.New("a header value with characters outside visible ASCII")

// EncodeHeaderValue returns a text as the value of Mcp-Name or Mcp-Param-* (2026-07-28
// streamable HTTP, Value Encoding): unchanged if it is plain ASCII, else in Base64.
func EncodeHeaderValue(text string) string {
	if plainHeaderValue(text) && !(strings.HasPrefix(text, sentinelStart) && strings.HasSuffix(text, sentinelEnd)) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// DecodeHeaderValue is the inverse of [EncodeHeaderValue].
func DecodeHeaderValue(value string) (string, error) {
	body, ok := strings.CutPrefix(value, sentinelStart)
	if ok {
		body, ok = strings.CutSuffix(body, sentinelEnd)
	}
	if !ok {
		if !plainHeaderValue(value) {
			return "", errHeaderValue
		}
		return value, nil
	}
	// The decoder would skip line breaks.
	if strings.ContainsAny(body, "\r\n") {
		return "", errHeaderValue
	}
	text, err := base64.StdEncoding.Strict().DecodeString(body)
	if err != nil {
		return "", fmt.Errorf("a header value with bad base64: %w", err)
	}
	return string(text), nil
}

// plainHeaderValue reports whether a text can be a header value unchanged: visible
// ASCII, space and tab, without white space at its ends.
func plainHeaderValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c != '\t' && (c < 0x20 || c > 0x7E) {
			return false
		}
	}
	return strings.Trim(text, " \t") == text
}

// CheckNamed compares a mirrored header with its source in the body. A repeated header
// never matches. Base64 is decoded only for [HeaderName] (2026-07-28 streamable HTTP,
// Server Validation); other headers are compared literally, so that what routers read
// is what is checked.
func CheckNamed(headers http.Header, name, want string) *Error {
	values := headers[http.CanonicalHeaderKey(name)]
	if len(values) == 0 {
		return Errorf(CodeHeaderMismatch, "Header mismatch: %s is missing", name)
	}
	got := values[0]
	if strings.EqualFold(name, HeaderName) {
		var err error
		if got, err = DecodeHeaderValue(got); err != nil {
			return Errorf(CodeHeaderMismatch, "Header mismatch: %s: %v", name, err)
		}
	}
	if len(values) > 1 || got != want {
		return Errorf(CodeHeaderMismatch, "Header mismatch: %s does not match the body", name)
	}
	return nil
}
