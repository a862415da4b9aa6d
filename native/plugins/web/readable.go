package web

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// HTML is read as a stream of tags and texts, in one pass with bounded state. No tree
// is built: by the rules for repairing markup, a small page could grow quadratically.

const (
	mostDepth  = 64  // depth of lists and quotes
	checkEvery = 512 // tokens between two checks of the deadline
	// littleText: a main part with less text than this does not replace the page.
	littleText = 200
	// mostLink bounds the length of a link's address.
	mostLink = 2000
)

// part is the part of a page that is read.
type part int

const (
	mainPart   part = iota // the part that the page marks as main
	body                   // all but navigation and the like
	everything             // for pages whose markup is broken
)

// readable returns the title of a page and its text. It returns only the main part
// where the page marks one, and leaves out navigation, scripts and hidden elements.
func readable(ctx context.Context, page string, base *url.URL, markdown bool, most int) (title, text string, cut bool) {
	if len(base.String()) > mostLink { // relative links would be as long
		base = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/"}
	}
	var r *reader
	for part := mainPart; part <= everything; part++ {
		next := walk(ctx, page, base, markdown, most, part)
		if r == nil || next.out.Len() > r.out.Len() {
			r = next
		}
		if r.out.Len() >= littleText {
			break
		}
	}
	return squeeze(r.title.String(), 500), strings.TrimSpace(r.out.String()), r.cut
}

// squeeze puts a text on one line and cuts it.
func squeeze(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// reader converts a page to text.
type reader struct {
	base     *url.URL
	markdown bool
	part     part
	most     int

	out   bytes.Buffer
	title bytes.Buffer
	cut   bool

	skip    string // name of the element whose content is left out
	skipped int    // depth in elements of that name
	inMain  int
	inTitle bool
	inPre   bool
	quoted  int
	lists   []list
	link    string // target of the open link
	marks   []string
	cells   int

	breaks int  // line breaks to write before the next text
	space  bool // a space to write before the next text
	fresh  bool // at the beginning of a line
}

type list struct {
	ordered bool
	n       int
}

func walk(ctx context.Context, page string, base *url.URL, markdown bool, most int, part part) *reader {
	r := &reader{base: base, markdown: markdown, part: part, most: most, fresh: true}
	z := html.NewTokenizer(strings.NewReader(page))
	for n := 1; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			r.cut = true
			return r
		}
		kind := z.Next()
		if kind == html.ErrorToken {
			return r
		}
		if r.out.Len() >= r.most {
			r.cut = true
			return r
		}
		switch kind {
		case html.TextToken:
			r.text(z)
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, more := z.TagName()
			name := string(tag)
			if attrs := attributes(z, more); kind == html.StartTagToken || name != "svg" && name != "math" { // other elements ignore a closing slash
				r.start(name, attrs)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			r.end(string(name))
		case html.ErrorToken, html.CommentToken, html.DoctypeToken:
		}
	}
}

// attributes returns the relevant attributes of a tag.
func attributes(z *html.Tokenizer, more bool) map[string]string {
	var out map[string]string
	for more {
		var name, value []byte
		name, value, more = z.TagAttr()
		switch string(name) {
		case "href", "src", "alt", "hidden", "aria-hidden", "style", "role":
			if out == nil {
				out = make(map[string]string)
			}
			if _, twice := out[string(name)]; !twice {
				out[string(name)] = string(value)
			}
		}
	}
	return out
}

// never are elements without readable text.
var never = map[string]bool{
	"script": true, "style": true, "noscript": true, "template": true, "svg": true, "math": true, "iframe": true, "object": true,
	"canvas": true, "select": true, "button": true, "textarea": true, "dialog": true, "audio": true, "video": true,
}

// around are elements around the main text of a page.
var around = map[string]bool{"nav": true, "header": true, "footer": true, "aside": true, "form": true}

// hidden tells whether an element is hidden.
func hidden(attrs map[string]string) bool {
	if _, is := attrs["hidden"]; is || attrs["aria-hidden"] == "true" {
		return true
	}
	style := strings.ToLower(strings.ReplaceAll(attrs["style"], " ", ""))
	return strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

// closed are elements that always have an end tag.
var closed = map[string]bool{
	"div": true, "span": true, "section": true, "article": true, "ul": true, "ol": true, "table": true, "a": true, "b": true, "i": true,
	"em": true, "strong": true, "pre": true, "blockquote": true,
}

func (r *reader) start(name string, attrs map[string]string) {
	if r.skip != "" {
		if name == r.skip {
			r.skipped++
		}
		return
	}
	if never[name] || r.part != everything && around[name] && r.inMain == 0 || closed[name] && hidden(attrs) {
		r.skip, r.skipped = name, 1
		return
	}
	switch name {
	case "title":
		r.inTitle = r.title.Len() == 0
	case "main", "article":
		r.inMain++
		r.block(2)
	case "br":
		r.block(1)
	case "hr":
		r.block(2)
		r.mark("---")
		r.block(2)
	case "h1", "h2", "h3", "h4", "h5", "h6":
		r.block(2)
		r.mark(strings.Repeat("#", int(name[1]-'0')) + " ")
	case "ul", "ol":
		r.block(1)
		if len(r.lists) < mostDepth {
			r.lists = append(r.lists, list{ordered: name == "ol"})
		}
	case "li":
		r.item()
	case "blockquote":
		r.block(2)
		r.quoted = min(r.quoted+1, mostDepth)
	case "pre":
		r.block(2)
		r.mark("```\n")
		r.inPre = true
	case "code":
		if !r.inPre {
			r.open("`")
		}
	case "b", "strong":
		r.open("**")
	case "i", "em":
		r.open("*")
	case "a":
		r.endLink()
		if target := r.target(attrs["href"]); target != "" && r.markdown {
			r.open("[")
			r.link = target
		}
	case "img":
		if alt := squeeze(attrs["alt"], 300); alt != "" {
			r.word("[" + alt + "]")
		}
	case "tr":
		r.block(1)
		r.cells = 0
	case "td", "th":
		if r.cells++; r.cells > 1 {
			r.word(" |")
			r.space = true
		}
	case "p", "table", "dl", "figure", "details":
		r.block(2)
	case "div", "section", "dt", "dd", "summary", "figcaption", "address", "option", "fieldset", "tbody", "thead", "caption", "header", "footer", "nav", "aside", "form":
		r.block(1)
	}
}

func (r *reader) end(name string) {
	if r.skip != "" {
		if name == r.skip {
			if r.skipped--; r.skipped == 0 {
				r.skip = ""
			}
		}
		return
	}
	switch name {
	case "title":
		r.inTitle = false
	case "main", "article":
		r.inMain = max(0, r.inMain-1)
		r.block(2)
	case "h1", "h2", "h3", "h4", "h5", "h6", "p", "table", "dl", "figure", "details":
		r.block(2)
	case "ul", "ol":
		if len(r.lists) > 0 {
			r.lists = r.lists[:len(r.lists)-1]
		}
		r.block(1 + min(1, max(0, 1-len(r.lists))))
	case "blockquote":
		r.quoted = max(0, r.quoted-1)
		r.block(2)
	case "pre":
		if r.inPre {
			r.inPre = false
			r.block(1)
			r.mark("```")
			r.block(2)
		}
	case "code":
		if !r.inPre {
			r.shut("`")
		}
	case "b", "strong":
		r.shut("**")
	case "i", "em":
		r.shut("*")
	case "a":
		r.endLink()
	case "div", "section", "li", "dt", "dd", "tr", "summary", "figcaption", "address", "fieldset", "header", "footer", "nav", "aside", "form":
		r.block(1)
	}
}

func (r *reader) text(z *html.Tokenizer) {
	if r.skip != "" {
		return
	}
	text := string(z.Text())
	if r.inTitle {
		if r.title.Len() < 2000 {
			r.title.WriteString(text)
		}
		return
	}
	if r.inPre {
		r.raw(text)
		return
	}
	words := strings.Fields(text)
	if text != "" && strings.ContainsRune(" \t\r\n", rune(text[0])) {
		r.space = true
	}
	for i, word := range words {
		if i > 0 {
			r.space = true
		}
		r.word(word)
		if r.out.Len() >= r.most {
			return
		}
	}
	if text != "" && len(words) > 0 && strings.ContainsRune(" \t\r\n", rune(text[len(text)-1])) {
		r.space = true
	}
}

// shown tells whether the current position is part of the text.
func (r *reader) shown() bool { return r.part != mainPart || r.inMain > 0 }

// block starts a new line for the next text, after n-1 empty ones.
func (r *reader) block(n int) {
	r.breaks, r.space = max(r.breaks, n), false
}

// begin writes the pending line breaks or space.
func (r *reader) begin() {
	switch {
	case r.breaks > 0:
		if r.out.Len() > 0 {
			for range min(r.breaks, 2) {
				r.out.WriteByte('\n')
			}
		}
		if r.markdown {
			r.out.WriteString(strings.Repeat("> ", r.quoted))
		}
	case r.space && r.out.Len() > 0 && !r.fresh:
		r.out.WriteByte(' ')
	}
	r.breaks, r.space, r.fresh = 0, false, false
	for _, m := range r.marks {
		r.out.WriteString(m)
	}
	r.marks = r.marks[:0]
}

func (r *reader) word(text string) {
	if r.shown() {
		r.begin()
		r.out.WriteString(text)
	}
}

// raw writes a text, including its line breaks.
func (r *reader) raw(text string) {
	if r.shown() {
		r.begin()
		r.out.WriteString(text[:min(len(text), max(0, r.most-r.out.Len()))])
	}
}

// mark writes the Markdown at the beginning of a line.
func (r *reader) mark(text string) {
	if r.markdown && r.shown() {
		r.begin()
		r.out.WriteString(text)
		r.fresh = true
	}
}

// open holds a mark back until the next word. If it is closed before any word, it is
// never written.
func (r *reader) open(mark string) {
	if r.markdown && r.shown() && len(r.marks) < 8 {
		r.marks = append(r.marks, mark)
	}
}

func (r *reader) shut(mark string) {
	if !r.markdown || !r.shown() {
		return
	}
	if n := len(r.marks); n > 0 {
		r.marks = r.marks[:n-1]
		return
	}
	if r.breaks == 0 {
		r.out.WriteString(mark)
	}
}

func (r *reader) endLink() {
	if r.link == "" {
		return
	}
	target := r.link
	r.link = ""
	if n := len(r.marks); n > 0 {
		r.marks = r.marks[:n-1]
		return
	}
	if r.shown() {
		r.out.WriteString("](" + target + ")")
	}
}

// target returns the address of a link, empty when it is not on the web.
func (r *reader) target(href string) string {
	href = strings.TrimSpace(href)
	if href == "" || href[0] == '#' || len(href) > mostLink {
		return ""
	}
	u, err := r.base.Parse(href)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(u.String())
}

func (r *reader) item() {
	r.block(1)
	if len(r.lists) == 0 {
		r.mark("- ")
		return
	}
	l := &r.lists[len(r.lists)-1]
	l.n++
	sign := "- "
	if l.ordered {
		sign = strconv.Itoa(l.n) + ". "
	}
	if r.markdown {
		r.mark(strings.Repeat("  ", len(r.lists)-1) + sign)
	} else if r.shown() {
		r.begin()
		r.out.WriteString(sign)
		r.fresh = true
	}
}
