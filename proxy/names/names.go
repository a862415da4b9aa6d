// Package names translates between the names of a server and the names that clients
// see. Tools and prompts get the server's namespace as a prefix, and resources get it
// in their URIs, so that two servers never offer the same name.
//
// Its functions are pure and safe for concurrent use. Objects that they take are
// validated JSON. They do not modify their arguments unless they say so.
package names

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// maxLength is the longest exposed name: the 64 characters that models accept, less
// what clients put in front.
const maxLength = 45

// hashChars is the length of the hash that distinguishes changed names.
const hashChars = 7

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Exposed returns the name under which a tool or prompt is listed: the namespace and
// its name where that loses nothing, else a shortened form with a hash. It never
// depends on other servers. It depends on its own server only through caseCollision,
// which says that another name differs by case alone.
func Exposed(namespace, server, original string, caseCollision bool) string {
	if namespace == "" {
		return original
	}
	full := namespace + "__" + original
	if !caseCollision && len(full) <= maxLength && allowed(original) {
		return full
	}
	cleaned := []byte(full)
	for i, c := range cleaned {
		if !allowedByte(c) {
			cleaned[i] = '_'
		}
	}
	sum := sha256.New()
	sum.Write([]byte(server))
	sum.Write([]byte{0})
	sum.Write([]byte(original))
	tail := "_" + base32Lower.EncodeToString(sum.Sum(nil))[:hashChars]
	return string(cleaned[:min(len(cleaned), maxLength-len(tail))]) + tail
}

func allowed(s string) bool {
	for i := range len(s) {
		if !allowedByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func allowedByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

const uiScheme = "ui://"

// URI returns the URI under which a resource is listed. The namespace is put before the
// scheme, or for MCP Apps after `ui://`, because clients recognise those by the scheme.
func URI(namespace, uri string) string {
	if namespace == "" {
		return uri
	}
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok {
		return uiScheme + namespace + "+" + rest
	}
	return namespace + "+" + uri
}

// Original is the inverse of [URI]; ok is false when the URI is not of the namespace.
func Original(namespace, uri string) (original string, ok bool) {
	if namespace == "" {
		return uri, true
	}
	if rest, found := strings.CutPrefix(uri, uiScheme); found {
		rest, ok = strings.CutPrefix(rest, namespace+"+")
		return uiScheme + rest, ok
	}
	return strings.CutPrefix(uri, namespace+"+")
}

// Namespace returns the namespace in an exposed name or URI of a kind; ok is false when
// there is none.
func Namespace(kind mcp.Kind, exposed string) (namespace string, ok bool) {
	if kind == mcp.Resource || kind == mcp.Template {
		namespace, _, ok = strings.Cut(strings.TrimPrefix(exposed, uiScheme), "+")
		return namespace, ok
	}
	namespace, _, ok = strings.Cut(exposed, "__")
	return namespace, ok
}
