//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/toolgate/toolgate/internal/testwait"
)

// TestConsoleFacts opens each view, runs the command that the page names, and compares what
// stands in the tables of both.
func TestConsoleFacts(t *testing.T) {
	t.Parallel()
	d := newDesk()
	w := consoleGateway(t, d, nil)
	ids := w.busy(t, d)
	r := newReader(t, w)
	testwait.Until(t, startTimeout, "the latest call is on the page", func() bool { // it is written within a second
		p := r.read(t, "/calls")
		latest := printedAs[[]auditEntry](t, p, 0)
		rows := p.columns(t, 0, 8)
		return len(rows) > 0 && len(latest) > 0 && rows[0][0] == latest[len(latest)-1].ID
	})
	for path, facts := range map[string]func(t *testing.T, p *readPage){
		"/now": factsOfNow, "/calls": factsOfCalls, "/calls?tool=desk__fail&error=any": factsOfCalls, "/calls/" + ids.done: factsOfCall, "/calls/" + ids.refused: factsOfCall,
		"/catalog": factsOfCatalog, "/catalog?server=demo&kind=tool": factsOfCatalog, "/catalog/entry?name=desk__shred": factsOfEntry,
		"/approvals": factsOfApprovals, "/approvals/" + ids.approval: factsOfApproval, "/budgets": factsOfBudgets, "/access?name=desk__send_letter&as=ann": factsOfAccess, "/try": factsOfTry,
		"/replicas": factsOfReplicas, "/runs": factsOfRuns, "/jobs": factsOfJobs, "/searches": factsOfSearches,
	} {
		t.Run(path, func(t *testing.T) { facts(t, r.read(t, path)) })
	}
	t.Run("live", func(t *testing.T) { factsOfLive(t, r) })
}

// reader reads pages as a browser without JavaScript, and runs the commands of pages.
type reader struct {
	w    *watched
	http *http.Client
	bin  string // folder of toolgate
}

func newReader(t *testing.T, w *watched) *reader {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{w, &http.Client{Jar: jar, Timeout: rawTimeout}, filepath.Join(w.dir, "bin")}
	if err := os.Mkdir(r.bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built(t, lab.toolgate), filepath.Join(r.bin, "toolgate")); err != nil {
		t.Fatal(err)
	}
	r.get(t, strings.TrimPrefix(w.link(t), w.console))
	page := r.get(t, "/try")
	form := url.Values{"key": {ownerKey}, "csrf": {csrfOf(page)}}
	r.post(t, "/try/as", form)
	return r
}

// csrfOf is the token of the forms of a page.
func csrfOf(page *html.Node) (token string) {
	for n := range page.Descendants() {
		if attribute(n, "name") == "csrf" {
			token = attribute(n, "value")
		}
	}
	return token
}

// post sends a form, and returns the document that answers it.
func (r *reader) post(t *testing.T, path string, form url.Values) *html.Node {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.w.console+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", r.w.console)
	return r.answer(t, req)
}

// get returns the document of a page.
func (r *reader) get(t *testing.T, path string) *html.Node {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.w.console+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r.answer(t, req)
}

// answer returns the document that answers a request.
func (r *reader) answer(t *testing.T, req *http.Request) *html.Node {
	t.Helper()
	resp, err := r.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	root, err := html.Parse(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", req.URL.Path, resp.StatusCode, err)
	}
	return root
}

// readPage is a page with its tables, its pairs of terms and descriptions, and what the
// commands that it names print as JSON.
type readPage struct {
	tables  [][][]string // rows of cells, without the heads
	pairs   map[string]string
	printed []json.RawMessage
	lines   []string // texts of the paragraphs
	by      *reader
}

// read reads a page, and runs the commands that it lets copy.
func (r *reader) read(t *testing.T, path string) *readPage {
	t.Helper()
	p := r.parts(t, r.get(t, path))
	if len(p.printed) == 0 {
		t.Fatalf("%s names no command", path)
	}
	return p
}

// parts reads what is in a document, and runs the commands that it lets copy.
func (r *reader) parts(t *testing.T, root *html.Node) *readPage {
	t.Helper()
	p := &readPage{pairs: map[string]string{}, by: r}
	term := ""
	for n := range root.Descendants() {
		switch n.Data {
		case "tbody":
			var rows [][]string
			for row := range n.ChildNodes() {
				if row.Type != html.ElementNode {
					continue
				}
				var cells []string
				for cell := range row.ChildNodes() {
					cells = append(cells, textOf(cell))
				}
				rows = append(rows, cells)
			}
			p.tables = append(p.tables, rows)
		case "p":
			p.lines = append(p.lines, textOf(n))
		case "dt":
			term = textOf(n)
		case "dd":
			p.pairs[term] = textOf(n)
		case "button":
			if command := attribute(n, "data-copy"); strings.HasPrefix(command, "toolgate ") {
				p.printed = append(p.printed, r.run(t, command))
			}
		}
	}
	return p
}

// run runs a command as a shell does, and returns the JSON that it prints.
func (r *reader) run(t *testing.T, command string) json.RawMessage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command+` --output=json --config "$0"`, r.w.file)
	cmd.Env, cmd.Dir = append(slices.Clone(r.w.env), "TOOLGATE_API_KEY="+ownerKey, "PATH="+r.bin), r.w.dir
	out, err := cmd.CombinedOutput()
	if err != nil && !json.Valid(out) { // why and who-can end with another code for a refusal
		t.Fatalf("%s: %v %s", command, err, out)
	}
	return out
}

// textOf is the text of an element with single spaces, without its buttons.
func textOf(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := range n.ChildNodes() {
			if c.Data != "button" && c.Data != "svg" {
				walk(c)
			}
		}
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// printedAs reads what a command of a page has printed.
func printedAs[T any](t *testing.T, p *readPage, i int) (v T) {
	t.Helper()
	if i >= len(p.printed) {
		t.Fatalf("the page names %d commands", len(p.printed))
	}
	if err := json.Unmarshal(p.printed[i], &v); err != nil {
		t.Fatalf("%v in %.300s", err, p.printed[i])
	}
	return v
}

// columns are some columns of a table of the page.
func (p *readPage) columns(t *testing.T, table int, which ...int) (rows [][]string) {
	t.Helper()
	if table >= len(p.tables) {
		t.Fatalf("the page has %d tables", len(p.tables))
	}
	for _, row := range p.tables[table] {
		var cells []string
		for _, i := range which {
			if i < len(row) {
				cells = append(cells, row[i])
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

// same fails t where what a command says is not what the page shows.
func same(t *testing.T, command, page any) {
	t.Helper()
	if diff := cmp.Diff(command, page); diff != "" {
		t.Errorf("(-command +page):\n%s", diff)
	}
}

// What the console makes of numbers.
func microsText(us int64) string {
	switch {
	case us < 1_000:
		return fmt.Sprintf("%d µs", us)
	case us < 1_000_000:
		return fmt.Sprintf("%.1f ms", float64(us)/1_000)
	}
	return fmt.Sprintf("%.2f s", float64(us)/1_000_000)
}

func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

func clockText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }
