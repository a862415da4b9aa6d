package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	usualLength = 20_000  // characters returned by default
	mostLength  = 200_000 // the limit
	// mostText bounds the text made from a page, which is a few times the page's size.
	mostText = 4 << 20
)

func (p *plugin) fetchTool() toolapi.Tool {
	return toolapi.Tool{
		Name: "fetch_url", Title: "Fetch a web page",
		Description: "Fetch a page or file over http or https and return its text: HTML as Markdown, JSON and other text as it is. Addresses of private networks are refused.",
		Input: json.RawMessage(`{"type":"object","properties":{` +
			`"url":{"type":"string","description":"Address, with http:// or https://"},` +
			`"format":{"type":"string","enum":["markdown","text","raw"],"default":"markdown","description":"What HTML is turned into; raw leaves it as it is"},` +
			`"max_characters":{"type":"integer","minimum":1,"maximum":200000,"default":20000,"description":"Length of the text that is returned"},` +
			`"timeout":{"type":"number","minimum":0.1,"maximum":3600,"description":"Give up after this many seconds, if that is less than is allowed"},` +
			`"start":{"type":"integer","minimum":0,"default":0,"description":"Character to begin at, to read on where a text was cut"}},` +
			`"required":["url"],"additionalProperties":false}`),
		Output: json.RawMessage(`{"type":"object","properties":{` +
			`"url":{"type":"string","description":"Address after redirects"},"status":{"type":"integer"},"content_type":{"type":"string"},` +
			`"title":{"type":"string"},"text":{"type":"string"},"cut":{"type":"boolean","description":"There is more than was read or returned"},` +
			`"next":{"type":"integer","description":"Where to start to read on"}},"required":["url","status","content_type","text","cut"]}`),
		ReadOnly: true, Idempotent: true, OpenWorld: true,
		Category: "web", Risk: toolapi.Medium, Timeout: p.timeout(), RatePerHour: 600,
		Run: p.fetch,
	}
}

// errLate is the cause of a call that exceeded its own timeout.
var errLate = errors.New("the page took too long")

type fetchArguments struct {
	URL    string `json:"url"`
	Format string `json:"format"`
	Length int    `json:"max_characters"`
	Start  int    `json:"start"`
	// Timeout is in seconds; 0 is as long as is allowed.
	Timeout float64 `json:"timeout"`
}

// fetched is the result of fetch_url.
type fetched struct {
	URL    string `json:"url"`
	Status int    `json:"status"`
	Type   string `json:"content_type"`
	Title  string `json:"title,omitempty"`
	Text   string `json:"text"`
	Cut    bool   `json:"cut"`
	Next   int    `json:"next,omitempty"`
}

func (p *plugin) fetch(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	args := fetchArguments{Format: "markdown", Length: usualLength}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return toolapi.Result{}, toolapi.Problemf("The arguments cannot be read: %v.", err)
	}
	args.Length, args.Start = min(max(args.Length, 1), mostLength), max(args.Start, 0)
	if args.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(min(args.Timeout, 3600)*float64(time.Second)), errLate)
		defer cancel()
	}
	u, err := p.guard.Parse(args.URL)
	if err != nil {
		return toolapi.Result{}, problem(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return toolapi.Result{}, toolapi.Problemf("That is not a URL.") // the error would repeat the URL
	}
	p.header(req, "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5")
	call.Progress(0, 0, "fetching "+u.Hostname())
	got, err := p.pages.Do(ctx, req)
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		return toolapi.Result{}, toolapi.Problemf("%s did not answer within %v seconds.", u.Hostname(), args.Timeout)
	}
	if err != nil {
		return toolapi.Result{}, problem(err)
	}
	return page(ctx, got, &args)
}

// problem converts an error of a request for the caller.
func problem(err error) error {
	text := strings.TrimSuffix(err.Error(), ".")
	first, n := utf8.DecodeRuneInString(text)
	return toolapi.Problemf("%s%s.", strings.ToUpper(string(first)), text[n:])
}

// page makes the result from an answer.
func page(ctx context.Context, got *egress.Answer, args *fetchArguments) (toolapi.Result, error) {
	kind, sniffed := mediaType(got)
	out := fetched{URL: got.URL.String(), Status: got.Status, Type: kind, Cut: got.Cut}
	if !textual(sniffed) {
		return toolapi.Result{}, toolapi.Problemf("%s is %s, which is not text; only text can be fetched.", got.URL.Hostname(), sniffed)
	}
	text, err := decode(got)
	if err != nil {
		return toolapi.Result{}, toolapi.Problemf("The text of %s is in a character set that cannot be read.", got.URL.Hostname())
	}
	if sniffed == "text/html" || sniffed == "application/xhtml+xml" {
		if args.Format != "raw" {
			var cut bool
			out.Title, text, cut = readable(ctx, text, got.URL, args.Format == "markdown", mostText)
			out.Cut = out.Cut || cut
		}
	}
	if err := ctx.Err(); err != nil {
		return toolapi.Result{}, err
	}
	var next int
	out.Text, next = window(text, args.Start, args.Length)
	if next > 0 {
		out.Cut, out.Next = true, next
	}
	structured, err := json.Marshal(out)
	if err != nil {
		return toolapi.Result{}, err
	}
	shown := out.Text
	switch {
	case out.Next > 0:
		shown += fmt.Sprintf("\n\n[cut; go on with start=%d]", out.Next)
	case out.Cut:
		shown += "\n\n[cut; the rest is too long to be read]"
	}
	if got.Status >= http.StatusBadRequest {
		return toolapi.Result{Text: fmt.Sprintf("%s answered %d %s.\n\n%s", got.URL.Hostname(), got.Status, http.StatusText(got.Status), shown), Structured: structured, IsError: true}, nil
	}
	if out.Title != "" && args.Start == 0 {
		shown = out.Title + "\n\n" + shown
	}
	return toolapi.Result{Text: shown, Structured: structured}, nil
}

// window returns a part of a text, and the offset where it continues; 0 at the end.
func window(text string, start, length int) (part string, next int) {
	from, at := -1, 0
	for i := range text {
		if at == start {
			from = i
		}
		if at == start+length {
			return text[from:i], at
		}
		at++
	}
	if from < 0 {
		return "", 0
	}
	return text[from:], 0
}

// mediaType returns the declared type of an answer, and the type to treat it as. If
// the declared type is missing or only says bytes, the beginning of the body decides.
func mediaType(got *egress.Answer) (said, is string) {
	said, _, _ = mime.ParseMediaType(got.Header.Get("Content-Type"))
	is, _, _ = mime.ParseMediaType(http.DetectContentType(got.Body))
	switch {
	case said == "":
		return is, is
	case said == "application/octet-stream", said == "binary/octet-stream":
		return said, is
	case textual(said) && is == "application/octet-stream" && strings.IndexByte(string(got.Body[:min(len(got.Body), 512)]), 0) >= 0 && !wide(got.Body):
		return said, is // declared as text, but it is not
	}
	return said, said
}

// wide tells whether a text begins like UTF-16, which is full of zero bytes.
func wide(body []byte) bool {
	return len(body) > 1 && (body[0] == 0xfe && body[1] == 0xff || body[0] == 0xff && body[1] == 0xfe)
}

func textual(kind string) bool {
	main, sub, _ := strings.Cut(kind, "/")
	switch {
	case main == "text", strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml") && main != "image":
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/sql", "application/graphql", "application/x-ndjson", "application/jsonl", "application/x-sh",
		"application/x-www-form-urlencoded", "image/svg+xml":
		return true
	}
	return false
}

// decode returns the body of a text as UTF-8. Invalid characters are replaced.
func decode(got *egress.Answer) (string, error) {
	kind := got.Header.Get("Content-Type")
	encoding, name, certain := charset.DetermineEncoding(got.Body, kind)
	if name == "utf-8" || !certain && utf8.Valid(got.Body) {
		return strings.ToValidUTF8(strings.TrimPrefix(string(got.Body), "\ufeff"), "\ufffd"), nil
	}
	out, err := encoding.NewDecoder().Bytes(got.Body)
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(out), "\ufeff"), "\ufffd"), nil
}
