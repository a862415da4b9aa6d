package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/toolapi"
)

// resultNames are the paths of the values in an engine's answer.
type resultNames struct {
	results, title, link, snippet []string
}

func (p *plugin) openSearch(limits egress.Limits) error {
	s := &p.config.Search
	if s.URL == "" {
		return nil
	}
	var err error
	if p.address, err = egress.ParseTemplate(s.URL); err != nil {
		return err
	}
	query := false
	for _, name := range p.address.Names() {
		query = query || name == "query"
		if name != "query" && name != "count" {
			return fmt.Errorf("the URL has the place {%s}; there are {query} and {count}", name)
		}
	}
	if !query {
		return fmt.Errorf("the URL has no {query}, where the words go")
	}
	guard, err := egress.New(p.address.Policy())
	if err != nil {
		return err
	}
	limits.Redirects = 0
	p.engine = egress.NewClient(guard, limits, nil)
	path := func(text, usual string) []string {
		if text == "" {
			text = usual
		}
		return strings.Split(text, ".")
	}
	p.names = resultNames{path(s.Results, "results"), path(s.Title, "title"), path(s.Link, "url"), path(s.Snippet, "content")}
	return nil
}

func (p *plugin) searchTool() toolapi.Tool {
	return toolapi.Tool{
		Name: "search", Title: "Search the web",
		Description: "Search with the engine that the operator configured and return titles, addresses and extracts.",
		Input: json.RawMessage(`{"type":"object","properties":{` +
			`"query":{"type":"string","minLength":1,"maxLength":1000,"description":"What to look for"},` +
			`"count":{"type":"integer","minimum":1,"maximum":50,"default":10,"description":"How many results at most"}},` +
			`"required":["query"],"additionalProperties":false}`),
		Output: json.RawMessage(`{"type":"object","properties":{"results":{"type":"array","items":{"type":"object","properties":{` +
			`"title":{"type":"string"},"url":{"type":"string"},"snippet":{"type":"string"}},"required":["title","url","snippet"]}}},"required":["results"]}`),
		ReadOnly: true, Idempotent: true, OpenWorld: true,
		Category: "web", Risk: toolapi.Low, Timeout: p.timeout(), RatePerHour: 600,
		Run: p.search,
	}
}

// result is one search result.
type result struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet"`
}

// mostSnippet bounds each text of a result, in bytes.
const mostSnippet = 2000

func (p *plugin) search(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	args := struct {
		Query string `json:"query"`
		Count int    `json:"count"`
	}{Count: 10}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return toolapi.Result{}, toolapi.Problemf("The arguments cannot be read: %v.", err)
	}
	if p.address == nil {
		return toolapi.Result{}, toolapi.Problemf("No search engine is configured; the operator sets native.web.search.url, such as that of a SearXNG.")
	}
	args.Count = min(max(args.Count, 1), 50)
	where, err := p.address.Expand(func(name string) []string {
		if name == "count" {
			return []string{strconv.Itoa(args.Count)}
		}
		return []string{args.Query}
	})
	if err != nil {
		return toolapi.Result{}, problem(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return toolapi.Result{}, toolapi.Problemf("The words make no address of the search engine.")
	}
	p.header(req, "application/json")
	for name, value := range p.config.Search.Headers {
		req.Header.Set(name, value)
	}
	got, err := p.engine.Do(ctx, req)
	switch {
	case err != nil:
		return toolapi.Result{}, toolapi.Problemf("The search engine did not answer: %v.", err)
	case got.Status != http.StatusOK:
		return toolapi.Result{}, toolapi.Problemf("The search engine answered %d %s.", got.Status, http.StatusText(got.Status))
	case got.Cut:
		return toolapi.Result{}, toolapi.Problemf("The answer of the search engine is larger than %d bytes.", p.config.MaxBytes)
	}
	results, err := p.names.read(got.Body, args.Count)
	if err != nil {
		return toolapi.Result{}, err
	}
	structured, err := json.Marshal(map[string]any{"results": results})
	if err != nil {
		return toolapi.Result{}, err
	}
	var text strings.Builder
	for i, r := range results {
		fmt.Fprintf(&text, "%d. %s\n   %s\n   %s\n", i+1, r.Title, r.URL, r.Snippet)
	}
	if len(results) == 0 {
		text.WriteString("Nothing was found.")
	}
	return toolapi.Result{Text: text.String(), Structured: structured}, nil
}

// read parses the results in an answer.
func (n *resultNames) read(body []byte, count int) ([]result, error) {
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, toolapi.Problemf("The search engine answered with something that is not JSON; SearXNG needs the format json to be allowed in its settings.")
	}
	list, ok := at(answer, n.results).([]any)
	if !ok {
		return nil, toolapi.Problemf("The answer of the search engine has no list at %q; the operator sets native.web.search.results.", strings.Join(n.results, "."))
	}
	out := []result{}
	for _, item := range list {
		if len(out) == count {
			break
		}
		r := result{Title: line(at(item, n.title)), URL: line(at(item, n.link)), Snippet: line(at(item, n.snippet))}
		if r.URL != "" {
			out = append(out, r)
		}
	}
	return out, nil
}

// at returns the value at a path, nil when there is none.
func at(value any, path []string) any {
	for _, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// line returns a text on one line, cut to the limit.
func line(value any) string {
	text, _ := value.(string)
	if len(text) > mostSnippet {
		text = text[:mostSnippet]
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
}
