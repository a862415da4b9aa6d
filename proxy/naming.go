package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxName is the longest exposed name: the 64 characters that models accept
// less what clients put in front.
const maxName = 45

// hashChars is how many characters of a hash tell names apart that had to be
// changed.
const hashChars = 7

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// exposedName returns the name under which a tool or prompt is listed: the
// namespace and its name where that loses nothing, else a shortened form with
// a hash. It never depends on other servers, and on its own server only
// through twin, which tells that another name differs by case alone.
func exposedName(namespace, server, original string, twin bool) string {
	if namespace == "" {
		return original
	}
	full := namespace + "__" + original
	if !twin && len(full) <= maxName && plainName(original) {
		return full
	}
	cleaned := []byte(full)
	for i, c := range cleaned {
		if !plainNameByte(c) {
			cleaned[i] = '_'
		}
	}
	sum := sha256.New()
	sum.Write([]byte(server))
	sum.Write([]byte{0})
	sum.Write([]byte(original))
	tail := "_" + lowerBase32.EncodeToString(sum.Sum(nil))[:hashChars]
	return string(cleaned[:min(len(cleaned), maxName-len(tail))]) + tail
}

func plainName(s string) bool {
	for i := range len(s) {
		if !plainNameByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func plainNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

const uiScheme = "ui://"

// exposedURI returns the URI under which a resource is listed: the namespace
// in front of its scheme, or for MCP Apps behind `ui://`, which clients
// recognise by its scheme.
func exposedURI(namespace, uri string) string {
	if namespace == "" {
		return uri
	}
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok {
		return uiScheme + namespace + "+" + rest
	}
	return namespace + "+" + uri
}

// originalURI is the inverse of exposedURI; ok is false when the URI is not of
// the namespace.
func originalURI(namespace, uri string) (original string, ok bool) {
	if namespace == "" {
		return uri, true
	}
	if rest, found := strings.CutPrefix(uri, uiScheme); found {
		rest, ok = strings.CutPrefix(rest, namespace+"+")
		return uiScheme + rest, ok
	}
	return strings.CutPrefix(uri, namespace+"+")
}

// namespaceOf returns the namespace that a URI names; ok is false when it
// names none.
func namespaceOf(uri string) (namespace string, ok bool) {
	rest := strings.TrimPrefix(uri, uiScheme)
	namespace, _, ok = strings.Cut(rest, "+")
	return namespace, ok
}

// steps are what stands for a dot, a slash, the end of a name or the beginning of
// its parameters in a URI.
var steps = strings.NewReplacer("%00", "\x00", "%3b", ";", "%3B", ";", "%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", `\`, "/", "%25", "%")

// direct tells whether a URI leads where it says. Servers resolve "." and ".."
// in a path, with parameters behind a semicolon or without, end a name at NUL, drop
// characters that no URI has, read bytes that are no UTF-8 each in its own way and fold a scheme before they look it up, so that a rule
// about names would be about another resource.
func direct(uri string) bool {
	if strings.ContainsFunc(uri, unicode.IsControl) || strings.TrimSpace(uri) != uri {
		return false
	}
	scheme, rest, _ := strings.Cut(uri, ":")
	if strings.ToLower(scheme) != scheme {
		return false
	}
	for range 4 { // escapes of escapes
		rest = steps.Replace(rest)
	}
	if plain := unescaped(rest); !utf8.ValidString(plain) || strings.ContainsFunc(plain, invisible) {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		segment, _, _ = strings.Cut(segment, "?")
		segment, _, _ = strings.Cut(segment, "#")
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// unescaped undoes the escapes of a text, once. What is no escape stays.
func unescaped(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // the form has none that is wrong
		return string(b)
	})
}

var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// invisible tells whether a character is a control, or changes the direction of text.
func invisible(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// uriEdit returns the edit that exposes the URI in a string token of a message.
func uriEdit(namespace string, raw []byte, at mcp.Span) (mcp.Edit, bool) {
	token := at.Of(raw)
	uri, err := mcp.Unquote(token)
	if err != nil {
		return mcp.Edit{}, false
	}
	if bytes.HasPrefix(token, []byte(`"`+uiScheme)) {
		place := at.Start + 1 + len(uiScheme)
		return mcp.Edit{Span: mcp.Span{Start: place, End: place}, New: []byte(namespace + "+")}, true
	}
	if strings.HasPrefix(uri, uiScheme) { // written with escapes
		return mcp.Edit{Span: at, New: mcp.Quote(exposedURI(namespace, uri))}, true
	}
	place := at.Start + 1
	return mcp.Edit{Span: mcp.Span{Start: place, End: place}, New: []byte(namespace + "+")}, true
}
