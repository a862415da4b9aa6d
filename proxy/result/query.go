package result

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/result/jq"
)

// ReaderServer and ReaderTool are the server and the original name of the tool whose calls
// [Query] answers.
const ReaderServer, ReaderTool = "toolgate", "read_result"

// Reading is a kept result: the contents of its resource, and what removes secrets from a
// text that is made of them, because a program may read what was escaped. A nil Clean
// removes none.
type Reading struct {
	Contents []byte
	Clean    func(text string) (string, error)
}

// Reader reads a kept result for the caller of a call. The error is a sentence for the
// model.
type Reader func(ctx context.Context, uri string) (Reading, error)

type readerKey struct{}

// WithReader returns a context in which [Query] reads kept results.
func WithReader(ctx context.Context, r Reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// sentence is an error that a model can act on.
type sentence string

// Error implements error.
func (s sentence) Error() string { return string(s) }

func sayf(format string, args ...any) error { return sentence(fmt.Sprintf(format, args...)) }

// ErrNotKept is what [Reader] returns for a result that is not kept for the caller,
// whatever the reason.
const ErrNotKept = sentence("There is no kept result with this id. Results are kept for a limited time, and for their caller alone; make the call again.")

// Bounds of an answer, and of a search.
const (
	pageBytes  = 16 << 10
	lineBytes  = 1 << 10 // of a line that matches
	maxMatches = 200     // that are shown
	searchTime = 500 * time.Millisecond
)

// query is what a call asks of a kept result.
type query struct {
	id       string
	way      string // of the four; empty for the first page
	text     string // of select, grep and lines
	page     int
	from, to int
}

const queryForm = `The arguments are {"id": "..."} and one of "select": ".items[] | .id", "grep": "error|warning", "lines": "10-40" and "page": 2.`

// parseQuery reads arguments. The error is a sentence for the model.
func parseQuery(args []byte) (q query, err error) {
	q.page = 1
	for m := range mcp.Members(args) {
		name, _ := mcp.Unquote(m.Key(args))
		value := m.Value.Of(args)
		switch name {
		case "id":
			q.id, err = mcp.Unquote(value)
		case "select", "grep", "lines", "page":
			if q.way != "" {
				return q, sayf("Give only one of %s and %s.", q.way, name)
			}
			q.way = name
			if name == "page" {
				q.page, err = strconv.Atoi(string(value))
			} else {
				q.text, err = mcp.Unquote(value)
			}
		default:
			err = sentence(queryForm)
		}
		if err != nil {
			return q, sentence(queryForm)
		}
	}
	switch {
	case q.id == "":
		return q, sentence(queryForm + " The id is in the note of the result that was cut.")
	case q.page < 1:
		return q, sentence("page is a number from 1 on.")
	case q.way == "lines":
		err = q.parseLines()
	}
	return q, err
}

func (q *query) parseLines() (err error) {
	first, last, between := strings.Cut(q.text, "-")
	q.from, err = strconv.Atoi(strings.TrimSpace(first))
	q.to = q.from
	if err == nil && between {
		q.to, err = strconv.Atoi(strings.TrimSpace(last))
	}
	if err != nil || q.from < 1 || q.to < q.from {
		return sentence(`lines is a range such as "10-40", from line 1 on.`)
	}
	return nil
}

// Query answers a call of [ReaderTool] with a part of a kept result: what a jq program
// selects, the lines that match a regular expression, a range of lines, or a page. An
// answer has about 16 KiB at most. The error is a sentence for the model.
func Query(ctx context.Context, args []byte) (string, error) {
	q, err := parseQuery(args)
	if err != nil {
		return "", err
	}
	read, _ := ctx.Value(readerKey{}).(Reader)
	if read == nil {
		return "", ErrNotKept
	}
	reading, err := read(ctx, URIPrefix+strings.TrimPrefix(q.id, URIPrefix))
	if err != nil {
		return "", err
	}
	text, err := q.answer(ctx, reading.Contents)
	if err != nil || reading.Clean == nil {
		return text, err
	}
	return reading.Clean(text)
}

// answer returns what a call asks of the contents of a result.
func (q *query) answer(ctx context.Context, contents []byte) (string, error) {
	if q.way == "select" {
		return selected(ctx, contents, q.text)
	}
	text := textOf(contents)
	switch {
	case text == "":
		return "", sayf("The result has no text; read the resource %s.", URIPrefix+strings.TrimPrefix(q.id, URIPrefix))
	case q.way == "grep":
		return grep(ctx, text, q.text)
	case q.way == "lines":
		return linesOf(text, q.from, q.to)
	}
	return pageOf(text, q.page)
}

// textOf is everything in the contents that is text. JSON on a single line is broken into
// lines, but not indented: that would grow with the depth. Structured content that the
// next text repeats is left out.
func textOf(contents []byte) string {
	var texts []string
	for e := range mcp.Elements(contents) {
		token := mcp.Lookup(e.Of(contents), "text")
		text, err := mcp.Unquote(token)
		if err != nil {
			continue
		}
		if value := jsonIn(token); value != nil && !bytes.Contains(value, []byte{'\n'}) {
			var broken bytes.Buffer
			if json.Indent(&broken, value, "", "") == nil {
				text = broken.String()
			}
		}
		if len(texts) == 1 && texts[0] == text {
			continue
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// selected returns what a program returns for the contents. Its input is what select is
// given for a result: the structured content, or else the texts.
func selected(ctx context.Context, contents []byte, program string) (string, error) {
	p, err := jq.Compile(program)
	if err != nil {
		return "", sayf("select does not compile: %v.", err)
	}
	var texts [][]byte
	for e := range mcp.Elements(contents) {
		part := e.Of(contents)
		token := mcp.Lookup(part, "text")
		if token == nil {
			continue
		}
		value := jsonIn(token)
		if mime, _ := mcp.LookupString(part, "mimeType"); mime == "application/json" && value != nil && len(texts) == 0 {
			texts = [][]byte{value} // the structured content is the first part
			break
		}
		if value == nil {
			value = token
		}
		texts = append(texts, value)
	}
	input := array(texts)
	if len(texts) == 1 {
		input = texts[0]
	}
	found, err := p.Run(ctx, input)
	if err != nil {
		return "", sayf("select failed: %v.", err)
	}
	if len(found) == 0 {
		return "[select returned nothing]", nil
	}
	for i := range found {
		found[i] = plain(found[i])
	}
	return shortened(string(bytes.Join(found, []byte{'\n'})), "select less"), nil
}

// shortened is a text up to the size of a page.
func shortened(text, advice string) string {
	short := beginning(text, pageBytes)
	if short == text {
		return text
	}
	return fmt.Sprintf("%s\n[%d bytes more; %s]", short, len(text)-len(short), advice)
}

// beginning returns at most size bytes of a text, whole characters.
func beginning(text string, size int) string {
	if size >= len(text) {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// grep returns the lines that match, each with its number. Of a long line it returns what
// is around the match.
func grep(ctx context.Context, text, pattern string) (string, error) {
	search, err := jq.NewSearch(pattern)
	if err != nil {
		return "", sayf("grep: %v.", err)
	}
	leave, err := jq.Enter(ctx)
	if err != nil {
		return "", sayf("grep: %v.", err)
	}
	defer leave()
	var out strings.Builder
	number, matches, shown, skipped, end := 0, 0, 0, 0, time.Now().Add(searchTime)
	for line := range strings.SplitSeq(text, "\n") {
		if number++; ctx.Err() != nil || time.Now().After(end) {
			return "", sentence("grep takes too long; use a simpler expression, or lines or select.")
		}
		at, found, ok := search.In(line)
		if !ok {
			skipped++
		}
		if !found {
			continue
		}
		if matches++; shown < maxMatches && out.Len() < pageBytes {
			fmt.Fprintf(&out, "%d:%s\n", number, around(line, at))
			shown++
		}
	}
	fmt.Fprintf(&out, "[%d of %d lines match", matches, number)
	if shown < matches {
		fmt.Fprintf(&out, "; the first %d are here", shown)
	}
	if skipped > 0 {
		fmt.Fprintf(&out, "; %d are too long for this expression, use select", skipped)
	}
	return out.String() + "]", nil
}

// around returns the part of a line around a position.
func around(line string, at int) string {
	if len(line) <= lineBytes {
		return line
	}
	from := len(beginning(line, max(at-lineBytes/4, 0)))
	part := beginning(line[from:], lineBytes)
	if from > 0 {
		part = "..." + part
	}
	return part + "..."
}

// linesOf returns a range of lines.
func linesOf(text string, from, to int) (string, error) {
	all, start, end, line := strings.Count(text, "\n")+1, -1, len(text), 1
	if from > all {
		return "", sayf("lines: the result has %d lines.", all)
	}
	to = min(to, all)
	for at := 0; start < 0 || line <= to; line++ {
		if line == from {
			start = at
		}
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		if at += next + 1; line == to {
			end = at - 1
		}
	}
	return shortened(text[start:end], "ask for fewer lines, or a page") + fmt.Sprintf("\n[lines %d to %d of %d]", from, to, all), nil
}

// pageOf returns a page.
func pageOf(text string, page int) (string, error) {
	pages := (len(text) + pageBytes - 1) / pageBytes
	if page > pages {
		return "", sayf("page: the result has %d pages.", cmp.Or(pages, 1))
	}
	from, to := len(beginning(text, (page-1)*pageBytes)), len(beginning(text, page*pageBytes))
	return fmt.Sprintf("%s\n[page %d of %d]", text[from:to], page, pages), nil
}
