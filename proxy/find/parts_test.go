package find

import (
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"List open issues.", "list open issues"},
		{"createIssue", "create issue createissue"},
		{"HTTPServerConfig", "http server config"},
		{"get_user2", "get user 2 user2"},
		{"k8s S3 mp3", "8 k8s 3 s3 mp 3 mp3"},
		{"GitHub's user’s don't", "git hub github user don"},
		{"snake_case-kebab.dot/slash", "snake case kebab dot slash"},
		{"天气预报", "天气 气预 预报"},
		{"天 ok 天气", "天 ok 天气"},
		{"Über café", "über café"},
		{"a1b", "1 a1b"},
		{strings.Repeat("x", 100), strings.Repeat("x", maxWord)},
		{"\xff\x00 ok", "ok"},
		{"", ""},
	} {
		var s splitter
		var got []string
		s.split(c.text, func(w []byte) bool {
			got = append(got, string(w))
			return true
		})
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestSplitStopsWhenTold(t *testing.T) {
	for _, text := range []string{"one two", "oneTwo three", "one2 three", "天气预报"} {
		var s splitter
		n := 0
		s.split(text, func([]byte) bool {
			n++
			return false
		})
		if n != 1 {
			t.Errorf("%q: %d words after it was told to stop", text, n)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"list the open issues", []string{"list the open issues"}},
		{"Close the stale pull requests and tell the team.", []string{"Close the stale pull requests", "tell the team."}},
		{"read a.csv, then draw a chart of it; send it to ann", []string{"read a.csv", "draw a chart of it", "send it to ann"}},
		{"compare red, green and blue", []string{"compare red, green, blue"}},
		{"打开文件。发送消息", []string{"打开文件, 发送消息"}},
		{" , . ; ", nil},
		{"", nil},
	} {
		if got := splitSteps(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	many := splitSteps(strings.Repeat("create the next thing now and ", 1000))
	if len(many) != maxSteps {
		t.Errorf("%d steps, want %d", len(many), maxSteps)
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"read ~/data/people.xlsx now", "read file xlsx now"},
		{"write it to notes.md.", "write it to file."},
		{"run a.PY", "run file py"},
		{"open 'C:\\tmp\\a.txt', please", "open file', please"},
		{"list /var/log", "list folder"},
		{"mail ann@example.org", "mail email"},
		{"fetch https://example.org/a?b=c", "fetch url"},
		{"watch https://www.YouTube.com/watch?v=1.", "watch url youtube."},
		{"read www.bbc.co.uk", "read url bbc"},
		{"read https://t.co, http://localhost:80 and https://10.0.0.1/", "read url t, url and url"},
		{"who owns amaz0n.com?", "who owns domain?"},
		{"search wikipedia.org", "search domain wikipedia"},
		{"an ASP.NET page", "an ASP.NET page"},
		{"read and/or write", "read and/or write"},
		{"it works. Really", "it works. Really"},
		{"e.g. 1.5", "e.g. 1.5"},
	} {
		if got := plain(c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestWithFiles(t *testing.T) {
	for _, c := range []struct {
		steps []string
		added int
	}{
		{[]string{"Give me a markdown report in ~/report.md"}, 1},
		{[]string{"fetch the news", "generate a summary at daily.md", "make a list of sources in sources.csv"}, 2},
		{[]string{"generate a report in report.pdf"}, 0}, // by what makes PDF files
		{[]string{"save the report to notes.md"}, 0},     // is that step
		{[]string{"make a summary of notes.md"}, 0},      // reads it
		{[]string{"create notes.md"}, 0},                 // nothing else is made
		{slices.Repeat([]string{"make a list in a.md"}, maxSteps), 0},
	} {
		got := withFiles(c.steps)
		if len(got) != len(c.steps)+c.added || c.added > 0 && got[len(got)-1] != "write file" {
			t.Errorf("%q: got %q, want %d more", c.steps, got, c.added)
		}
	}
}

func TestSegments(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"getuserinfo", "get user info"},
		{"exportchat", "export chat"},
		{"search", ""},
		{"xyzzyplugh", ""},
		{"", ""},
		{strings.Repeat("list", 20), ""},
	} {
		if got := strings.Join(segments(c.name), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	read := func(schema string) string {
		var got []string
		a := arguments{report: func(f field, text string) { got = append(got, fieldNames[f]+" "+text) }}
		a.read([]byte(schema))
		return strings.Join(got, "; ")
	}
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"state":{"enum":["open",1],"description":"The state"}}}`, "argument state; argument description The state; argument value open"},
		{`{"properties":{"a":{"items":{"anyOf":[{"properties":{"b":{}}}]}}},"$defs":{"D":{"properties":{"c":{}}}}}`, "argument a; argument b; argument c"},
		{`{"properties":{"a":true}}`, "argument a"},
		{`{"properties":["a"]}`, ""},
		{`{"properties":{"a":{}}`, ""},
		{`null`, ""},
	} {
		if got := read(c.schema); got != c.want {
			t.Errorf("%s: got %q, want %q", c.schema, got, c.want)
		}
	}
	deep := strings.Repeat(`{"items":`, 60) + `{"properties":{"a":{}}}` + strings.Repeat("}", 60)
	if got := read(deep); got != "" {
		t.Errorf("deeper than %d: got %q", maxSchemaDepth, got)
	}
	wide := `{"properties":{` + strings.TrimSuffix(strings.Repeat(`"abcdefg":{},`, 1), ",") + `},"enum":["x"` + strings.Repeat(`,"x"`, 1000) + `]}`
	if got := strings.Count(read(wide), ";") + 1; got != maxSchemaTexts {
		t.Errorf("%d texts, want %d", got, maxSchemaTexts)
	}
}

// The thesaurus has no entry twice, none of a single word, and none that no query or
// item can have.
func TestThesaurus(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(thesaurusText) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if seen[line] {
			t.Errorf("%q is there twice", line)
		}
		seen[line] = true
		sides := strings.FieldsFunc(strings.ReplaceAll(line, "->", "="), func(r rune) bool { return r == '=' || r == '>' })
		entries := 0
		for _, side := range sides {
			entries += len(entriesOf(side))
		}
		if len(sides) > 2 || entries < 2 {
			t.Errorf("%q relates nothing", line)
		}
	}
	th := loadThesaurus()
	if th.longest > 5 {
		t.Errorf("an entry of %d words makes each search slow", th.longest)
	}
	for from, list := range th.of {
		for _, r := range list {
			if r.term == from {
				t.Errorf("%q is related to itself", from)
			}
		}
	}
}

func TestLargest(t *testing.T) {
	for _, list := range [][]float32{{1}, {3, 1, 2}, {2, 2, 2, 2}, {5, 4, 3, 2, 1, 0}, {0, 1, 0, 1, 0}} {
		sorted := slices.Clone(list)
		slices.Sort(sorted)
		for n := 1; n <= len(list)+1; n++ {
			want := float32(0)
			if n <= len(list) {
				want = sorted[len(list)-n]
			}
			if got := largest(slices.Clone(list), n); got != want {
				t.Errorf("the %d. of %v: got %v, want %v", n, list, got, want)
			}
		}
	}
}
