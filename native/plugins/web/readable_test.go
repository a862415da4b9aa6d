package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var base = &url.URL{Scheme: "https", Host: "site.example", Path: "/dir/page"}

func TestReadable(t *testing.T) {
	for name, tc := range map[string]struct{ page, title, markdown, text string }{
		"words":     {page: "<p>One  two\n three</p><p>Four", markdown: "One two three\n\nFour"},
		"title":     {page: "<title> A &amp; B\n</title><svg><title>no</title></svg><p>x", title: "A & B", markdown: "x"},
		"headings":  {page: "<h1>A</h1><h3>B <b>c</b></h3>x", markdown: "# A\n\n### B **c**\n\nx", text: "A\n\nB c\n\nx"},
		"emphasis":  {page: "a <b>b</b>, <em>c d</em><code>e</code> <b></b>f", markdown: "a **b**, *c d*`e` f", text: "a b, c de f"},
		"lists":     {page: "<ul><li>a<li>b<ol><li>c</li><li>d</li></ol></ul>e", markdown: "- a\n- b\n  1. c\n  2. d\n\ne", text: "- a\n- b\n1. c\n2. d\n\ne"},
		"links":     {page: `<a href="/x">a</a> <a href="y z(1)">b <i>c</i></a> <a href="javascript:alert(1)">d</a> <a href="#e">e</a> <a href="f"></a>g`, markdown: "[a](https://site.example/x) [b *c*](https://site.example/dir/y%20z%281%29) d e g", text: "a b c d e g"},
		"code":      {page: "<pre>  a\n    b &lt;c&gt;</pre>after", markdown: "```\n  a\n    b <c>\n```\n\nafter", text: "  a\n    b <c>\n\nafter"},
		"quotes":    {page: "a<blockquote>b<p>c</blockquote>d", markdown: "a\n\n> b\n\n> c\n\nd", text: "a\n\nb\n\nc\n\nd"},
		"tables":    {page: "<table><tr><th>a<th>b</tr><tr><td>c</td><td>d</td></tr></table>", markdown: "a | b\nc | d"},
		"images":    {page: `<img src=x alt="a cat">`, markdown: "[a cat]"},
		"no text":   {page: "<script>a<p>b</script><style>c</style><!-- d --><noscript>e</noscript><template>f</template>g", markdown: "g"},
		"hidden":    {page: `<div hidden>a<div>b</div></div><span style="DISPLAY: none">c</span><div aria-hidden=true>d</div>e`, markdown: "e"},
		"around":    {page: "<header>a</header><nav>b<nav>c</nav></nav><p>" + strings.Repeat("word ", 60) + "<footer>d</footer>", markdown: strings.TrimSpace(strings.Repeat("word ", 60))},
		"main":      {page: "a<main><header>b</header>" + strings.Repeat("word ", 60) + "</main>c", markdown: "b\n" + strings.TrimSpace(strings.Repeat("word ", 60))},
		"small":     {page: "a<main>b</main>c", markdown: "a\n\nb\n\nc"},
		"unclosed":  {page: "<nav>a<p>b", markdown: "a\n\nb"},
		"self ends": {page: "<svg/>a<math />b", markdown: "ab"},
		"unopened":  {page: "</main></ul></b></pre></a></td>a", markdown: "a"},
		"empty":     {page: ""},
	} {
		t.Run(name, func(t *testing.T) {
			title, got, cut := readable(t.Context(), tc.page, base, true, mostText)
			if diff := cmp.Diff(tc.markdown, got); diff != "" || title != tc.title || cut {
				t.Errorf("title %q, cut %v, markdown (-want +got):\n%s", title, cut, diff)
			}
			want := tc.text
			if want == "" {
				want = tc.markdown
			}
			if _, got, _ := readable(t.Context(), tc.page, base, false, mostText); strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("text %q; want %q", got, want)
			}
		})
	}
}

// TestHostilePages are such as grow by the square in a tree, or nest without end:
// what comes out is no longer than some times what went in.
func TestHostilePages(t *testing.T) {
	const n = 20_000
	for name, page := range map[string]string{
		"formatting that is reopened": strings.Repeat("<b id=x>", n) + strings.Repeat("<p>x", n),
		"nesting":                     strings.Repeat("<div><blockquote>", n) + "x" + strings.Repeat("<p>x", 1000),
		"tables":                      strings.Repeat("<table><tr><td>", n) + "x",
		"lists":                       strings.Repeat("<ul><li>", n) + "x",
		"links in links":              strings.Repeat(`<a href="/x">`, n),
		"attributes":                  "<p " + strings.Repeat("a=b ", n) + ">x",
		"one tag":                     "<" + strings.Repeat("a", n*10),
		"comments":                    strings.Repeat("<!--", n),
		"entities":                    strings.Repeat("&amp", n),
		"marks":                       strings.Repeat("<b><i><code>", n) + "x",
		"ends":                        strings.Repeat("</b></i>x", n),
		"active":                      strings.Repeat("<a><b><i><p>", n) + "x",
		"carriage returns":            strings.Repeat("\r", n*10),
	} {
		t.Run(name, func(t *testing.T) {
			_, got, cut := readable(t.Context(), page, base, true, 1<<20)
			if len(got) > 20*len(page) || len(got) > 1<<20+len(page) || cut && len(got) < 1<<19 {
				t.Errorf("%d bytes of %d, cut %v", len(got), len(page), cut)
			}
		})
	}
}

func TestAPageIsCut(t *testing.T) {
	_, got, cut := readable(t.Context(), strings.Repeat("<p>word", 1000), base, true, 500)
	if !cut || len(got) > 600 {
		t.Errorf("%d bytes, cut %v", len(got), cut)
	}
}

func FuzzReadable(f *testing.F) {
	for _, seed := range []string{"<p>a<b>b</b>", "<ul><li>a<pre>b", "<main><a href=x>y</a>", "<table><tr><td>x", "<nav><svg/>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, page string) {
		for _, markdown := range []bool{true, false} {
			if _, got, _ := readable(t.Context(), page, base, markdown, 10_000); len(got) > 10_000+4*len(page)+200 {
				t.Errorf("%d bytes of %d", len(got), len(page))
			}
		}
	})
}
