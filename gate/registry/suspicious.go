package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxSuspicions bounds the reasons recorded for one definition.
	maxSuspicions = 8
	// maxInspected bounds the definitions that are inspected, in bytes. No person would
	// read a longer one either.
	maxInspected = 256 << 10
)

// suspicious says why a definition looks made to mislead its readers: models, or the
// person who is to accept it. It inspects every text, with keys and nested texts,
// because a model gets them all.
func suspicious(of *gate.Offer, from *gate.Offered, names *names) []string {
	var found []string
	add := func(where, what string) {
		text := fmt.Sprintf("%s: %s", where, what)
		if len(found) < maxSuspicions && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	if len(from.Definition) > maxInspected {
		return []string{fmt.Sprintf("the definition has %d bytes, which is too much to look through", len(from.Definition))}
	}
	eachText(from.Definition, "", 0, func(where, text string) {
		if where == "" {
			where = "the definition"
		}
		if r, hidden := hiddenRune(text); hidden {
			add(where, fmt.Sprintf("hidden character U+%04X", r))
		}
		plain := strings.ToLower(strings.Join(strings.Fields(text), " "))
		for _, p := range instructions {
			if p.in(plain) {
				add(where, p.what)
			}
		}
		for token := range tokens(text) {
			if server := names.foreign(of, token); server != "" {
				add(where, fmt.Sprintf("names %s of server %s", token, server))
			}
		}
	})
	return found
}

// maxTextDepth bounds the depth of the search for texts. The limits of a message
// refuse deeper values before.
const maxTextDepth = 200

// eachText calls fn with every key and string of a validated value.
func eachText(value []byte, where string, depth int, fn func(where, text string)) {
	switch {
	case depth > maxTextDepth || len(value) == 0:
	case value[0] == '"':
		if text, err := mcp.Unquote(value); err == nil {
			fn(where, text)
		}
	case mcp.IsObject(value):
		for m := range mcp.Members(value) {
			name, err := mcp.Unquote(m.Key(value))
			if err != nil {
				continue
			}
			at := strings.TrimPrefix(where+"."+shown(name, 40), ".")
			fn(at, name)
			eachText(m.Value.Of(value), at, depth+1, fn)
		}
	case mcp.IsArray(value):
		for e := range mcp.Elements(value) {
			eachText(e.Of(value), where, depth+1, fn)
		}
	}
}

// hiddenRune finds a character that people do not see but models read: controls,
// direction overrides, tags, selectors and fillers.
func hiddenRune(text string) (rune, bool) {
	before := rune(0)
	for _, r := range text {
		if isHidden(r, before) {
			return r, true
		}
		before = r
	}
	return 0, false
}

func isHidden(r, before rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7F
	case r == 0x200C || r == 0x200D: // joiners belong to scripts and emoji, not between Latin letters
		return before < 0x300
	case r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0 || r == 0x2800: // blanks that are letters or symbols
		return true
	case r >= 0xE0100 && r <= 0xE01EF: // selectors that can carry any byte
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// shown makes text safe to show on a terminal.
func shown(text string, most int) string {
	var b strings.Builder
	before := rune(0)
	for _, r := range text {
		if b.Len() >= most {
			b.WriteString("...")
			break
		}
		if isHidden(r, before) || r == utf8.RuneError || r == '\n' || r == '\r' || r == '\t' {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// instruction is a phrase that speaks to the model behind its user's back.
type instruction struct {
	what  string
	words []string // a text without any of them cannot match
	form  func() *regexp.Regexp
}

// in tells whether a text, in lower case with single spaces, contains the phrase.
func (i *instruction) in(plain string) bool {
	return slices.ContainsFunc(i.words, func(word string) bool { return strings.Contains(plain, word) }) && i.form().MatchString(plain)
}

// form compiles an expression when a text first has one of its words. The expressions
// are large, and otherwise every command of the program would compile them.
func form(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// instructions are the phrases that published attacks have in common. They point a
// person to a definition; they prove nothing.
var instructions = []instruction{
	{
		"a tag that poses as instructions",
		[]string{"<"},
		form(`< ?/? ?(important|system|instructions?|assistant|secret|hidden) ?>`),
	},
	{
		"asks to ignore instructions",
		[]string{"ignore", "disregard", "forget", "override"},
		form(`\b(ignore|disregard|forget|override)\b.{0,30}\b(previous|prior|above|earlier|other|all|any|system)\b.{0,30}\b(instructions?|prompts?|rules|messages?)\b`),
	},
	{
		"asks to keep something from the user",
		[]string{"user", "human", "operator", "person"},
		form(`\b(do not|don't|never|without)\b.{0,20}\b(tell|telling|mention|mentioning|inform|informing|reveal|revealing|notify|notifying|alert|alerting|asking)\b.{0,30}\b(user|human|operator|person)\b`),
	},
	{
		"speaks about other tools",
		[]string{"tool"},
		form(`\b(before|after|when|whenever|instead of)\b.{0,20}\b(using|calling|invoking|running)\b.{0,20}\b(any|every|all|other|another)\b.{0,30}\btools?\b`),
	},
	{
		"asks not to use other tools",
		[]string{"tool"},
		form(`\b(do not|don't|never)\b.{0,10}\b(use|call|invoke)\b.{0,20}\bother\b.{0,30}\btools?\b`),
	},
	{
		"names a file with secrets",
		[]string{"~/.", "id_", "mcp.json", "/etc/passwd"},
		form(`(~/\.(ssh|aws|cursor|claude|config)\b|\bid_(rsa|ed25519)\b|\bmcp\.json\b|/etc/passwd\b)`),
	},
}

// tokens returns the words of a text that may be names of tools.
func tokens(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
		}) {
			if strings.Contains(word, "_") && !yield(word) {
				return
			}
		}
	}
}

// names are the exposed names of tools and prompts, and the namespaces, by server.
type names struct {
	exposed    map[string]string
	namespaces map[string]string
}

func newNames(offers []*gate.Offer) *names {
	n := &names{exposed: map[string]string{}, namespaces: map[string]string{}}
	for _, o := range offers {
		if o.Namespace != "" {
			n.namespaces[o.Namespace] = o.Server
		}
		for i := range o.Items {
			if kind := o.Items[i].Kind; kind == mcp.Tool || kind == mcp.Prompt {
				n.exposed[o.Items[i].Exposed] = o.Server
			}
		}
	}
	return n
}

// foreign returns the other server that a word names, empty for none. The form of
// another server's names is enough, so that the order in which servers answer does not
// matter.
func (n *names) foreign(of *gate.Offer, word string) string {
	if server := n.exposed[word]; server != "" && server != of.Server {
		return server
	}
	if prefix, rest, ok := strings.Cut(word, "__"); ok && rest != "" {
		if server := n.namespaces[prefix]; server != "" && server != of.Server {
			return server
		}
	}
	return ""
}
