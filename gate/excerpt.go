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
	boxes := outline(value)
	for _, f := range finenesses {
		e = excerpting{fineness: f, most: most, Lexer: mcp.NewLexer(value), raw: value, boxes: boxes}
		if e.value(0); len(e.out) <= most {
			break
		}
	}
	return Excerpt{Text: string(e.out), Missing: e.missing}
}

// box is an object or an array in a JSON text, which has less than 2 GiB.
type box struct {
	end   int32 // the index behind it
	parts int32 // members or elements
	inner int32 // boxes in it, of whatever depth
}

// outline returns the boxes of a text in the order in which they begin, so that whoever
// reads the text knows each of them beforehand. It reads the text once.
func outline(text []byte) []box {
	var boxes []box
	var open []int // indices of boxes, innermost last
	in := mcp.NewLexer(text)
	for c := in.Peek(); c != 0; c = in.Peek() {
		if c == '}' || c == ']' {
			in.Skip(1)
			if last := len(open) - 1; last >= 0 {
				b := &boxes[open[last]]
				if b.end, b.inner = int32(in.Offset()), int32(len(boxes)-open[last]-1); c == '}' {
					b.parts /= 2 // a key and a value each
				}
				open = open[:last]
			}
			continue
		}
		if len(open) > 0 {
			boxes[open[len(open)-1]].parts++
		}
		if c == '{' || c == '[' {
			open = append(open, len(boxes))
			boxes = append(boxes, box{})
			in.Skip(1)
			continue
		}
		passScalar(&in)
	}
	for _, i := range open { // only where the text is not JSON
		boxes[i].end, boxes[i].inner = int32(len(text)), int32(len(boxes)-i-1)
	}
	return boxes
}

// passScalar passes a text, a number or a literal.
func passScalar(in *mcp.Lexer) {
	switch in.Peek() {
	case '"':
		in.RawText()
	case 't', 'n':
		in.Skip(len("true"))
	case 'f':
		in.Skip(len("false"))
	default:
		in.Number()
	}
}

// excerpting writes an excerpt of a text, which it reads once. It gives up when there
// is more than fits.
type excerpting struct {
	fineness
	most int

	mcp.Lexer
	raw   []byte // what it reads
	boxes []box
	next  int // the box that begins next

	out     []byte
	missing int
}

// value writes the value that comes next.
func (e *excerpting) value(depth int) {
	if c := e.Peek(); c != '{' && c != '[' {
		e.scalar()
		return
	}
	if depth < e.depth {
		e.box(depth)
		return
	}
	begin := e.Offset()
	if e.pass(); e.Offset()-begin <= e.text { // as short as what would be said instead
		e.out = append(e.out, e.raw[begin:e.Offset()]...)
		return
	}
	e.leaveOut(e.Offset()-begin, "")
}

// pass passes the value that comes next.
func (e *excerpting) pass() {
	if c := e.Peek(); c != '{' && c != '[' {
		passScalar(&e.Lexer)
		return
	}
	b := e.boxes[e.next]
	e.Skip(int(b.end) - e.Offset())
	e.next += 1 + int(b.inner)
}

// box writes the object or the array that comes next.
func (e *excerpting) box(depth int) {
	b, open := e.boxes[e.next], e.Peek()
	keyed, closing, parts := open == '{', open+2, "elements"
	if keyed {
		parts = "members"
	}
	e.next++
	e.Skip(1)
	e.out = append(e.out, open)
	skip, left := e.skipped(int(b.parts)), 0
	for i := 1; i <= int(b.parts); i++ {
		if len(e.out) > e.most {
			return
		}
		if skip.holds(i) {
			if left += e.passPart(keyed); i == skip.last {
				e.comma(open)
				if keyed {
					e.out = append(e.out, `"…":`...)
				}
				e.leaveOut(left, fmt.Sprintf("%d %s", skip.last-skip.first+1, parts))
			}
			continue
		}
		e.comma(open)
		if keyed {
			e.scalar()
			e.out = append(e.out, ':')
		}
		e.value(depth + 1)
	}
	e.Peek()
	e.Skip(1)
	e.out = append(e.out, closing)
}

// passPart passes a member or an element, and returns how many bytes that is.
func (e *excerpting) passPart(keyed bool) int {
	e.Peek()
	begin := e.Offset()
	if keyed {
		passScalar(&e.Lexer)
	}
	e.pass()
	return e.Offset() - begin
}

// leaveOut writes what stands for something that is left out, between two of its
// ends.
func (e *excerpting) leaveOut(bytes int, begin string) {
	e.missing += bytes
	e.out = append(e.out, mcp.Quote(begin+fmt.Sprintf("…[%d bytes left out]…", bytes))...)
}

// scalar writes the text that comes next, or the number, which is shortened as one.
func (e *excerpting) scalar() {
	e.Peek()
	begin := e.Offset()
	passScalar(&e.Lexer)
	v := e.raw[begin:e.Offset()]
	if len(v) <= max(e.text, 64) { // what stands for the rest is about as long
		e.out = append(e.out, v...)
		return
	}
	text, err := mcp.Unquote(v)
	if err != nil {
		text = string(v)
	}
	half := e.text / 2
	first, last := head(text, half), tail(text, half)
	cut := len(text) - len(first) - len(last)
	if cut <= 0 { // it is but written at length
		e.out = append(e.out, mcp.Quote(text)...)
		return
	}
	e.missing += cut
	e.out = append(e.out, mcp.Quote(fmt.Sprintf("%s…[%d bytes left out]…%s", first, cut, last))...)
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
