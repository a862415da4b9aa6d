package spicedb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// part is a word in the template of an id.
type part string

// The words of templates.
const (
	partTenant     part = "tenant"
	partServer     part = "server"
	partOriginal   part = "original"
	partExposed    part = "exposed"
	partCapability part = "capability"
	partIssuer     part = "issuer"
	partSubject    part = "subject"
	partPersona    part = "persona"
)

var (
	objectParts  = []part{partTenant, partServer, partOriginal, partExposed, partCapability}
	subjectParts = []part{partTenant, partIssuer, partSubject, partPersona}
)

// piece is a part or the text between two.
type piece struct {
	part    part // empty for text
	literal string
}

// template makes an object id of parts so that different parts never make the
// same id. The zero template makes none.
type template struct {
	text     string
	pieces   []piece
	reserved string // bytes that separate parts and are escaped inside them
}

// parseTemplate reads "{tenant}/{exposed}", or the same with bare words:
// "tenant/exposed".
func parseTemplate(text string, known []part) (template, error) {
	pieces, err := split(text, known)
	if err != nil {
		return template{}, fmt.Errorf("template %q: %w", text, err)
	}
	t := template{text: text, pieces: pieces}
	var between strings.Builder // the text since the last part
	parts := 0
	for _, p := range pieces {
		if p.part == "" {
			between.WriteString(p.literal)
			continue
		}
		if parts++; parts > 1 {
			separator := strings.Trim(between.String(), letters)
			if separator == "" {
				return template{}, fmt.Errorf("template %q: nothing separates {%s} from the part before it: put a / between them", text, p.part)
			}
			t.reserved += separator
		}
		between.Reset()
	}
	if parts == 0 {
		return template{}, fmt.Errorf("template %q: it has no part, so that everything would be one object: use one of %s", text, wordList(known))
	}
	// A letter or digit between two separators needs no escape: the first
	// separator ends the part before it already.
	t.reserved = strings.Map(func(r rune) rune {
		if strings.ContainsRune(letters, r) {
			return -1
		}
		return r
	}, t.reserved)
	return t, nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// split cuts a template into its pieces.
func split(text string, known []part) ([]piece, error) {
	if !strings.ContainsAny(text, "{}") {
		return splitBare(text, known)
	}
	var pieces []piece
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if literal != "" {
			for i := range len(literal) {
				if !plain(literal[i]) {
					return nil, fmt.Errorf("%q cannot be in an object id: use letters, digits, and / | _ + -", literal[i:i+1])
				}
			}
			pieces = append(pieces, piece{literal: literal})
		}
		if !found {
			break
		}
		word, tail, closed := strings.Cut(after, "}")
		if !closed {
			return nil, errors.New("a { is not closed")
		}
		if !slices.Contains(known, part(word)) {
			return nil, unknownPart(word, known)
		}
		pieces = append(pieces, piece{part: part(word)})
		rest = tail
	}
	return pieces, nil
}

// splitBare cuts a template that is words and separators.
func splitBare(text string, known []part) ([]piece, error) {
	var pieces []piece
	for rest := text; ; {
		at := strings.IndexAny(rest, "/|")
		word := rest
		if at >= 0 {
			word = rest[:at]
		}
		if !slices.Contains(known, part(word)) {
			return nil, unknownPart(word, known)
		}
		pieces = append(pieces, piece{part: part(word)})
		if at < 0 {
			return pieces, nil
		}
		pieces = append(pieces, piece{literal: rest[at : at+1]})
		rest = rest[at+1:]
	}
}

func unknownPart(word string, known []part) error {
	return fmt.Errorf("there is no part %q: use one of %s", word, wordList(known))
}

func wordList(known []part) string {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = "{" + string(k) + "}"
	}
	return strings.Join(words, ", ")
}

// render returns the id. A part that may not be empty and is, is an error:
// without it different things would be one object.
func (t template) render(value func(part) string) (string, error) {
	if len(t.pieces) == 0 {
		return "", errors.New("there is no template for its id")
	}
	if len(t.pieces) == 1 { // which reserves nothing
		if v := value(t.pieces[0].part); v != "" && len(v) <= maxID && allPlain(v) {
			return v, nil
		}
	}
	id := make([]byte, 0, 64)
	for _, p := range t.pieces {
		if p.part == "" {
			id = append(id, p.literal...)
			continue
		}
		v := value(p.part)
		if v == "" && !optional(p.part) {
			return "", fmt.Errorf("its %s is empty, and the template %q needs it", p.part, t.text)
		}
		id = appendEscaped(id, v, t.reserved)
	}
	if len(id) == 0 {
		return "", fmt.Errorf("the template %q makes an empty id of it", t.text)
	}
	return bounded(id), nil
}

// optional tells whether callers may come without a part.
func optional(p part) bool { return p == partPersona || p == partIssuer || p == partTenant }
