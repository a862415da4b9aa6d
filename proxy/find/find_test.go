package find_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// catalog is a small catalog of a few servers.
var catalog = []find.Item{
	tool("github", "list_pull_requests", "List pull requests of a repository.", `{"type":"object","properties":{"state":{"enum":["open","closed"]},"owner":{"type":"string","description":"Owner of the repository"}}}`),
	tool("github", "update_pull_request", "Change a pull request, for example to close it.", ""),
	tool("github", "create_issue", "Open a new issue in a repository.", `{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array","items":{"type":"string","description":"A label"}}}}`),
	tool("gitlab", "create_issue", "Open a new issue in a project.", ""),
	tool("slack", "post_message", "Post a message to a channel of the team.", ""),
	tool("files", "readFile", "Read the content of a file.", ""),
	tool("files", "delete_file", "Remove a file.", ""),
	tool("weather", "forecast", "天气预报。查询城市的天气。", ""),
	{Kind: mcp.Prompt, Server: "github", Name: "review", Description: "Review a pull request."},
}

func tool(server, name, description, schema string) find.Item {
	return find.Item{Kind: mcp.Tool, Server: server, Name: name, Description: description, Schema: []byte(schema), Hash: server + "/" + name + "/" + description}
}

func everything(int) bool { return true }

// found returns the names of the hits.
func found(items []find.Item, r find.Result) []string {
	var names []string
	for _, h := range r.Hits {
		names = append(names, items[h.Item].Server+"/"+items[h.Item].Name)
	}
	return names
}

func TestSearch(t *testing.T) {
	v := find.Build(catalog, nil, nil).View(everything)
	for _, c := range []struct {
		query string
		first string
	}{
		{"list pull requests", "github/list_pull_requests"},
		{"list PRs", "github/list_pull_requests"},
		{"create_issue", "github/create_issue"},
		{"open an issue on gitlab", "gitlab/create_issue"},
		{"add a label", "github/create_issue"},
		{"read file", "files/readFile"},
		{"erase this file", "files/delete_file"},
		{"forcast", "weather/forecast"},
		{"fore cast", "weather/forecast"},
		{"城市天气", "weather/forecast"},
		{"what is the owner?", "github/list_pull_requests"},
	} {
		got := found(catalog, v.Search(find.Query{Text: c.query, Limit: 3}))
		if len(got) == 0 || got[0] != c.first {
			t.Errorf("%q: got %v, want %s first", c.query, got, c.first)
		}
	}
}

func TestSearchOfTwoStepsFindsBoth(t *testing.T) {
	v := find.Build(catalog, nil, nil).View(everything)
	r := v.Search(find.Query{Text: "Close the stale pull requests and tell the team by a message", Limit: 4})
	got := found(catalog, r)
	if !slices.Contains(got, "github/update_pull_request") || !slices.Contains(got, "slack/post_message") {
		t.Errorf("got %v", got)
	}
	if len(r.Steps) != 2 {
		t.Errorf("steps %q", r.Steps)
	}
	r = v.Search(find.Query{Text: "Read the content of ~/notes/a.md. Then post a message to ann@example.org"})
	if want := []string{"Read the content of ~/notes/a.md", "Then post a message to ann@example.org"}; !slices.Equal(r.Steps, want) {
		t.Errorf("steps %q are not the caller's words %q", r.Steps, want)
	}
}

func TestRestrictions(t *testing.T) {
	v := find.Build(catalog, nil, nil).View(everything)
	for _, h := range v.Search(find.Query{Text: "issue", Server: "gitlab"}).Hits {
		if catalog[h.Item].Server != "gitlab" {
			t.Errorf("found %s of another server", catalog[h.Item].Name)
		}
	}
	r := v.Search(find.Query{Text: "review a pull request", Kinds: []mcp.Kind{mcp.Prompt}})
	if got := found(catalog, r); !slices.Equal(got, []string{"github/review"}) {
		t.Errorf("got %v", got)
	}
	r = v.Search(find.Query{Text: "pull request issue", Limit: 2})
	if len(r.Hits) != 2 || r.More == 0 {
		t.Errorf("got %d hits and %d more", len(r.Hits), r.More)
	}
	boosted := v.Search(find.Query{Text: "create issue", Boost: func(i int) float64 {
		if catalog[i].Server == "gitlab" {
			return 1
		}
		return 0
	}})
	if got := found(catalog, boosted); got[0] != "gitlab/create_issue" {
		t.Errorf("boosted: got %v", got)
	}
	unnamed := v.Search(find.Query{Text: "zzzz", Server: "files", Boost: func(i int) float64 { return 0.1 }})
	if got := found(catalog, unnamed); !slices.Equal(got, []string{"files/delete_file", "files/readFile"}) {
		t.Errorf("boosted without a word that matches: got %v", got)
	}
}

func TestOddQueries(t *testing.T) {
	v := find.Build(catalog, nil, nil).View(everything)
	for _, q := range []string{"", " ", "\x00", "\xff\xfe", "!!!", "😀", "zzzzqqqq"} {
		if r := v.Search(find.Query{Text: q}); len(r.Hits) != 0 || r.More != 0 {
			t.Errorf("%q: got %v", q, found(catalog, r))
		}
	}
	for _, q := range []string{strings.Repeat("list pull requests and ", 5000), strings.Repeat("x", 100_000) + " issue", strings.Repeat("天气", 40_000)} {
		v.Search(find.Query{Text: q})
	}
	if r := find.Build(nil, nil, nil).View(everything).Search(find.Query{Text: "issue"}); len(r.Hits) != 0 {
		t.Errorf("an empty catalog: got %v", r)
	}
	if r := v.Search(find.Query{Text: "issue", Limit: -3}); len(r.Hits) == 0 {
		t.Error("a negative limit stands for the default")
	}
}

func TestReasons(t *testing.T) {
	v := find.Build(catalog, map[string]string{"slack": "Gossip of colleagues."}, nil).View(everything)
	r := v.Search(find.Query{Text: "gossip message", Explain: true, Limit: 1})
	if len(r.Hits) != 1 || catalog[r.Hits[0].Item].Name != "post_message" {
		t.Fatalf("got %v", found(catalog, r))
	}
	sum, byField := 0.0, map[string]string{}
	for _, reason := range r.Hits[0].Reasons {
		sum += reason.Share
		byField[reason.Field] = reason.Word
	}
	if sum < 0.99 || sum > 1.01 || byField["name"] != "messag" || byField["server"] != "gossip" {
		t.Errorf("got %+v", r.Hits[0].Reasons)
	}
	if r := v.Search(find.Query{Text: "gossip message"}); r.Hits[0].Reasons != nil {
		t.Error("reasons that nobody asked for")
	}
}

func TestNearest(t *testing.T) {
	v := find.Build(catalog, nil, nil).View(func(i int) bool { return catalog[i].Server != "gitlab" })
	for _, c := range []struct{ name, first string }{
		{"create_isue", "github/create_issue"},
		{"read_file", "files/readFile"},
		{"github__list_pull_request", "github/list_pull_requests"},
	} {
		var got []string
		for _, i := range v.Nearest(c.name, 3) {
			got = append(got, catalog[i].Server+"/"+catalog[i].Name)
		}
		if len(got) == 0 || got[0] != c.first {
			t.Errorf("%q: got %v, want %s first", c.name, got, c.first)
		}
	}
	if got := v.Nearest("gitlab", 5); slices.ContainsFunc(got, func(i int) bool { return catalog[i].Server == "gitlab" }) {
		t.Error("a hidden name is suggested")
	}
	if got := v.Nearest("qqqq", 5); len(got) != 0 {
		t.Errorf("nothing is near, got %v", got)
	}
	if got := v.Nearest("create_issue", 0); len(got) != 0 {
		t.Errorf("none were asked for, got %v", got)
	}
}

// An index that reuses another one gives the results of one that does not.
func TestReuse(t *testing.T) {
	first := find.Build(catalog, nil, nil)
	changed := slices.Clone(catalog)
	changed[1] = tool("github", "close_pull_request", "Close it.", "")
	changed = append(changed[:5:5], changed[6:]...)
	servers := map[string]string{"slack": "Chat."}
	reused, fresh := find.Build(changed, servers, first).View(everything), find.Build(changed, servers, nil).View(everything)
	for _, q := range []string{"close the pull request", "chat", "file", "forcast", "read and delete a file"} {
		got, want := reused.Search(find.Query{Text: q, Explain: true}), fresh.Search(find.Query{Text: q, Explain: true})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %v", q, got, want)
		}
	}
}

// An index and its views serve any number of searches at once, also while another index
// is built from it.
func TestConcurrentSearches(t *testing.T) {
	x := find.Build(catalog, nil, nil)
	v := x.View(everything)
	q := find.Query{Text: "close the stale pull requests and tell the team, then read a file", Explain: true}
	want := fmt.Sprint(v.Search(q))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := fmt.Sprint(v.Search(q)); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				next := find.Build(append(slices.Clone(catalog), tool("files", "stat", "Size of a file.", "")), nil, x)
				next.View(everything).Search(q)
			}
		})
	}
	wg.Wait()
}
