package gate

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Excerpt is what a person is shown of a JSON value who is asked about it.
type Excerpt struct {
	// Text is the value, or as much of its structure as there is room for: all
	// members, with long texts shortened in the middle, and where that does not do,
	// the first and the last of many. What is left out says so in its place. It is
	// JSON.
	Text string
	// Missing is how many bytes of the value are not in Text; 0 where it is whole.
	Missing int
}

// fineness is how much of each part an excerpt keeps.
type fineness struct {
	text    int // bytes of a text
	members int // of an object or an array
	depth   int // below which there are but counts
}

// finenesses are tried in turn, until there is room. The last one always fits into
// 1 KiB.
var finenesses = []fineness{
	{1024, 1 << 30, 64}, {256, 1 << 30, 64}, {64, 1 << 30, 32}, {64, 64, 16}, {48, 16, 8}, {32, 6, 4}, {24, 4, 2}, {16, 2, 1},
}

// Excerpted returns what people are shown of a validated JSON value, in at most so
// many bytes, of which there are 1,024 or more.
func Excerpted(value []byte, most int) Excerpt {
	if value = bytes.TrimSpace(value); len(value) <= most {
		return Excerpt{Text: string(value)}
	}
	var e excerpting
	for _, f := range finenesses {
		e = excerpting{fineness: f, most: most}
		if e.value(value, 0); len(e.out) <= most {
			break
		}
	}
	return Excerpt{Text: string(e.out), Missing: e.missing}
}

// excerpting writes an excerpt. It gives up when there is more than fits.
type excerpting struct {
	fineness
	most    int
	out     []byte
	missing int
}

func (e *excerpting) value(v []byte, depth int) {
	switch {
	case len(e.out) > e.most:
	case len(v) == 0:
	case v[0] == '{' && depth >= e.depth, v[0] == '[' && depth >= e.depth:
		if len(v) <= e.text { // as short as what would be said instead
			e.out = append(e.out, v...)
			return
		}
		e.leaveOut(len(v), "")
	case v[0] == '{':
		e.object(v, depth)
	case v[0] == '[':
		e.array(v, depth)
	default:
		e.scalar(v)
	}
}

// leaveOut writes what stands for something that is left out, between two of its
// ends.
func (e *excerpting) leaveOut(bytes int, begin string) {
	e.missing += bytes
	e.out = append(e.out, mcp.Quote(begin+fmt.Sprintf("…[%d bytes left out]…", bytes))...)
}

// scalar writes a text, or a number, which is shortened as one.
func (e *excerpting) scalar(v []byte) {
	if len(v) <= max(e.text, 64) { // what stands for the rest is about as long
		e.out = append(e.out, v...)
		return
	}
	text, err := mcp.Unquote(v)
	if err != nil {
		text = string(v)
	}
	half := e.text / 2
	begin, end := head(text, half), tail(text, half)
	cut := len(text) - len(begin) - len(end)
	if cut <= 0 { // it is but written at length
		e.out = append(e.out, mcp.Quote(text)...)
		return
	}
	e.missing += cut
	e.out = append(e.out, mcp.Quote(fmt.Sprintf("%s…[%d bytes left out]…%s", begin, cut, end))...)
}

// head is the beginning of a text, of at most n bytes and whole characters.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// tail is the end of a text, likewise.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - n
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}

func (e *excerpting) object(v []byte, depth int) {
	count := 0
	for range mcp.Members(v) {
		count++
	}
	e.out = append(e.out, '{')
	skip := e.skipped(count)
	left, i := 0, 0
	for m := range mcp.Members(v) {
		if len(e.out) > e.most {
			return
		}
		if i++; skip.holds(i) {
			if left += len(m.All.Of(v)); i == skip.last {
				e.comma('{')
				e.out = append(e.out, `"…":`...)
				e.leaveOut(left, fmt.Sprintf("%d members", skip.last-skip.first+1))
			}
			continue
		}
		e.comma('{')
		e.scalar(m.Key(v))
		e.out = append(e.out, ':')
		e.value(m.Value.Of(v), depth+1)
	}
	e.out = append(e.out, '}')
}

func (e *excerpting) array(v []byte, depth int) {
	count := 0
	for range mcp.Elements(v) {
		count++
	}
	e.out = append(e.out, '[')
	skip := e.skipped(count)
	left, i := 0, 0
	for element := range mcp.Elements(v) {
		if len(e.out) > e.most {
			return
		}
		if i++; skip.holds(i) {
			if left += len(element.Of(v)); i == skip.last {
				e.comma('[')
				e.leaveOut(left, fmt.Sprintf("%d elements", skip.last-skip.first+1))
			}
			continue
		}
		e.comma('[')
		e.value(element.Of(v), depth+1)
	}
	e.out = append(e.out, ']')
}

// comma goes between two parts of what was opened.
func (e *excerpting) comma(open byte) {
	if last := e.out[len(e.out)-1]; last != open {
		e.out = append(e.out, ',')
	}
}

// stretch is the parts that are left out, counted from 1; none where last is 0.
type stretch struct{ first, last int }

func (s stretch) holds(i int) bool { return i >= s.first && i <= s.last && s.last > 0 }

// skipped are those of so many parts that are left out: all but the first and the
// last.
func (e *excerpting) skipped(count int) stretch {
	if count <= e.members+1 { // the word for one would be as long
		return stretch{}
	}
	return stretch{first: e.members - e.members/2 + 1, last: count - e.members/2}
}
