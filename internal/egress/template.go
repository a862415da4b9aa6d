package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Template is an address with places for values, written {name}: within the
// segments of its path and as values of its query. Scheme, host and port are
// fixed. A value never leaves its place: it is percent-encoded for it, and in a
// path it can neither be empty, nor a folder of another name, nor lead upwards,
// however often a server decodes it.
type Template struct {
	base     *url.URL // without path and query
	segments [][]part
	pairs    []pair
}

// part is a literal or the name of a place.
type part struct {
	text  string
	place bool
}

// pair is one of a query; its key is encoded already.
type pair struct {
	key   string
	value []part
	bare  bool // without "="
}

// maxPairs bounds the pairs of an expanded query.
const maxPairs = 200

// ParseTemplate reads a template. Its error is for the operator.
func ParseTemplate(text string) (*Template, error) {
	rest, fragment, _ := strings.Cut(text, "#")
	if fragment != "" || strings.HasSuffix(text, "#") {
		return nil, errors.New("the URL has a fragment, which is never sent")
	}
	scheme, after, ok := strings.Cut(rest, "://")
	if !ok || scheme != "https" && scheme != "http" {
		return nil, errors.New("the URL must begin with https:// or http://")
	}
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	authority, after := after[:end], after[end:]
	if strings.ContainsAny(authority, "{}") {
		return nil, errors.New("the URL has a place in its host or port; those are fixed")
	}
	base, err := url.Parse(scheme + "://" + authority)
	if err != nil || base.Host == "" || base.User != nil {
		return nil, errors.New("the URL has no host, or credentials, which belong into headers")
	}
	t := &Template{base: base}
	path, query, hasQuery := strings.Cut(after, "?")
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		parts, err := parseParts(segment, url.PathUnescape)
		if err != nil {
			return nil, err
		}
		t.segments = append(t.segments, parts)
	}
	if !hasQuery || query == "" {
		return t, nil
	}
	for text := range strings.SplitSeq(query, "&") {
		key, value, has := strings.Cut(text, "=")
		if strings.ContainsAny(key, "{}") {
			return nil, fmt.Errorf("the URL has a place in the name of a query: %q", key)
		}
		key, err := url.QueryUnescape(key)
		if err != nil {
			return nil, fmt.Errorf("the URL's query: %w", err)
		}
		parts, err := parseParts(value, url.QueryUnescape)
		if err != nil {
			return nil, err
		}
		t.pairs = append(t.pairs, pair{key: url.QueryEscape(key), value: parts, bare: !has})
	}
	if len(t.pairs) > maxPairs {
		return nil, fmt.Errorf("the URL's query has more than %d pairs", maxPairs)
	}
	return t, nil
}

func parseParts(text string, decode func(string) (string, error)) ([]part, error) {
	var out []part
	for text != "" {
		literal, rest, open := strings.Cut(text, "{")
		plain, err := decode(literal)
		if err != nil || strings.Contains(literal, "}") {
			return nil, fmt.Errorf("the URL is not encoded as it must be, or has a } too many: %q", literal)
		}
		if plain != "" {
			out = append(out, part{text: plain})
		}
		if !open {
			break
		}
		name, rest, ok := strings.Cut(rest, "}")
		if !ok || name == "" || strings.ContainsAny(name, "{/?&= ") {
			return nil, fmt.Errorf("the URL has a { that begins no {name}: %q", text)
		}
		out = append(out, part{text: name, place: true})
		text = rest
	}
	return out, nil
}

// Names returns the names of the places.
func (t *Template) Names() []string {
	var out []string
	add := func(parts []part) {
		for _, p := range parts {
			if p.place {
				out = append(out, p.text)
			}
		}
	}
	for _, s := range t.segments {
		add(s)
	}
	for _, p := range t.pairs {
		add(p.value)
	}
	return out
}

// Policy is one that leads to the template's own host and port alone. The
// addresses of this machine, or a private one, may be reached when the template
// itself names them: an operator wrote it.
func (t *Template) Policy() Policy {
	host, port := t.base.Hostname(), uint64(443)
	if t.base.Scheme == "http" {
		port = 80
	}
	if text := t.base.Port(); text != "" {
		port, _ = strconv.ParseUint(text, 10, 16)
	}
	p := Policy{Ports: []uint16{uint16(port)}, AllowHosts: []string{host}}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap().WithZone("")
		p.Allow = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	} else if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		p.Allow = Loopback()
	}
	return p
}

// Expand returns the address with values in its places. value returns those of a
// name: none where there is no value, so that a pair of the query is left out
// that is nothing else, and several for a pair that repeats. Its error is for
// whoever gave the values.
func (t *Template) Expand(value func(name string) []string) (string, error) {
	var out strings.Builder
	out.WriteString(t.base.Scheme + "://" + t.base.Host)
	for _, parts := range t.segments {
		segment, err := expandSegment(parts, value)
		if err != nil {
			return "", err
		}
		out.WriteString("/" + segment)
	}
	query, err := t.query(value)
	if err != nil {
		return "", err
	}
	if len(query) > 0 {
		out.WriteString("?" + strings.Join(query, "&"))
	}
	if out.Len() > maxURL {
		return "", refuse("url", "the values make a URL of more than %d bytes", maxURL)
	}
	return out.String(), nil
}

func expandSegment(parts []part, value func(string) []string) (string, error) {
	var whole, literal strings.Builder
	place := false
	for _, p := range parts {
		if !p.place {
			whole.WriteString(p.text)
			literal.WriteString(p.text + " ")
			continue
		}
		place = true
		v := value(p.text)
		if len(v) != 1 || v[0] == "" {
			return "", refuse("path", "%s is part of a path and must be there, one value and not empty", p.text)
		}
		if err := pathValue(p.text, v[0]); err != nil {
			return "", err
		}
		whole.WriteString(v[0])
	}
	if !place {
		return url.PathEscape(whole.String()), nil
	}
	// Together values, and what stands between them, may be what none of them is. A
	// slash that the template itself has, encoded, parts names as one does that is not.
	name := decoded(whole.String())
	if slashes(name) != slashes(decoded(literal.String())) {
		return "", refuse("path", "the values make a path that leads elsewhere; no slash may come of them, encoded or not")
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		// What comes after a semicolon some servers take off before they look.
		name, _, _ = strings.Cut(name, ";")
		if strings.Trim(name, ".") == "" {
			return "", refuse("path", "the values make a path that leads elsewhere; dots alone are no name")
		}
	}
	return url.PathEscape(whole.String()), nil
}

func slashes(text string) int { return strings.Count(text, "/") + strings.Count(text, `\`) }

// pathValue refuses what a server could take for more than a part of a name.
func pathValue(name, v string) error {
	plain := decoded(v)
	for _, text := range [...]string{v, plain} {
		if strings.ContainsAny(text, "/\\") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return refuse("path", "%s is part of a path and may not hold slashes, backslashes or control characters, encoded or not", name)
		}
		if dots := strings.Trim(text, "."); text != "" && dots == "" {
			return refuse("path", "%s is part of a path and may not be dots alone", name)
		}
	}
	return nil
}

// decoded is a text without percent-encoding, however often it was encoded. One
// that is encoded still after some rounds is returned as a slash, which nothing
// may be.
func decoded(text string) string {
	for range 8 {
		if !strings.Contains(text, "%") {
			return text
		}
		var out strings.Builder
		changed := false
		for i := 0; i < len(text); i++ {
			if text[i] == '%' && i+2 < len(text) {
				if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
					out.WriteByte(byte(n))
					i += 2
					changed = true
					continue
				}
			}
			out.WriteByte(text[i])
		}
		if !changed {
			return text
		}
		text = out.String()
	}
	return "/"
}

func (t *Template) query(value func(string) []string) ([]string, error) {
	var out []string
	for _, p := range t.pairs {
		switch {
		case p.bare:
			out = append(out, p.key)
			continue
		case len(p.value) == 1 && p.value[0].place:
			for _, v := range value(p.value[0].text) {
				out = append(out, p.key+"="+url.QueryEscape(v))
			}
		default:
			var whole strings.Builder
			for _, part := range p.value {
				if !part.place {
					whole.WriteString(part.text)
					continue
				}
				v := value(part.text)
				if len(v) != 1 {
					return nil, refuse("query", "%s is within a text of the query and must be there, one value", part.text)
				}
				whole.WriteString(v[0])
			}
			out = append(out, p.key+"="+url.QueryEscape(whole.String()))
		}
		if len(out) > maxPairs {
			return nil, refuse("query", "the values make a query of more than %d pairs", maxPairs)
		}
	}
	return out, nil
}
