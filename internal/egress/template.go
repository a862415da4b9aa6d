package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Template is an address with placeholders, written {name}: within the segments of its
// path and as values of its query. Scheme, host and port are fixed. A value never
// leaves its placeholder. It is percent-encoded. In a path it cannot be empty, contain
// a slash, or lead upwards, however often a server decodes it.
type Template struct {
	base     *url.URL // without path and query
	segments [][]part
	pairs    []pair
}

// part is a literal or the name of a placeholder.
type part struct {
	text  string
	place bool
}

// pair is one pair of a query; its key is encoded.
type pair struct {
	key   string
	value []part
	bare  bool // without "="
}

// maxPairs bounds the pairs of an expanded query.
const maxPairs = 200

// ParseTemplate parses a template. Its error is for the operator.
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

// Names returns the names of the placeholders.
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

// Policy returns a policy for the template's own host and port only. It allows loopback
// and private addresses if the template names them, because an operator wrote it.
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

// Expand returns the address with values for its placeholders. value returns the values
// of a name. Without a value, a query pair that is only this placeholder is left out;
// with several, the pair repeats. The error is for whoever gave the values.
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
	// Values together, and with the literals between them, may form something that none
	// of them is. An encoded slash of the template itself separates names like any
	// other.
	name := decoded(whole.String())
	if slashes(name) != slashes(decoded(literal.String())) {
		return "", refuse("path", "the values make a path that leads elsewhere; no slash may come of them, encoded or not")
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		// Some servers remove what follows a semicolon before the lookup.
		name, _, _ = strings.Cut(name, ";")
		if strings.Trim(name, ".") == "" {
			return "", refuse("path", "the values make a path that leads elsewhere; dots alone are not a name")
		}
	}
	return url.PathEscape(whole.String()), nil
}

func slashes(text string) int { return strings.Count(text, "/") + strings.Count(text, `\`) }

// pathValue refuses values that a server could take for more than a part of a name.
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

// decoded returns a text without percent-encoding, however often it was encoded. A text
// that is still encoded after some rounds becomes a slash, which is never allowed.
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
