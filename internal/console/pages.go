package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

//go:embed assets templates
var files embed.FS

// noEnd is the end of what has none.
var noEnd time.Time

// page is what a template gets.
type page struct {
	Title   string
	View    string // name of the template, and of the view in the navigation
	Command string // shows the same
	Data    any
	Refresh bool // without JavaScript it is loaded again soon

	Person person
	CSRF   string
	Nav    []navItem
}

// navItem is a view in the navigation.
type navItem struct {
	Path, Title, Key string
	Here             bool
}

// views are the views of the navigation. A key of the keyboard opens each.
var views = []struct {
	view, title, key string
	least            Role
}{
	{"now", "Now", "n", Viewer},
	{"calls", "Calls", "c", ViewerOwn},
	{"catalog", "Catalog", "t", Viewer},
	{"try", "Try", "r", ViewerOwn},
	{"approvals", "Approvals", "a", ViewerOwn},
	{"budgets", "Budgets", "b", Viewer},
	{"access", "Access", "w", Auditor},
	{"runs", "Runs", "u", ViewerOwn},
	{"jobs", "Jobs", "j", ViewerOwn},
	{"searches", "Searches", "s", Auditor},
	{"replicas", "Replicas", "g", Auditor},
}

var functions = template.FuncMap{
	"t": short, "long": long, "micros": micros, "seconds": seconds, "size": size, "clock": clock, "day": day, "hour": hour, "diff": diffLines, "indented": indented, "took": took, "visible": visibleJSON, "asset": assetPath,
	"iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }, "command": command,
	"join": func(all []string) string { return short(strings.Join(all, ", ")) },
	"for":  func(p *page, v any) part { return part{p, v} },
}

// part is a part of a page with what it shows.
type part struct {
	Page *page
	Of   any
}

// templates are the pages by view, and under "fragments" what is a part of some. To parse them
// takes milliseconds, which a command that shows no page does not spend.
var templates = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{"fragments": base}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		view := strings.TrimSuffix(path.Base(name), ".html")
		if view != "layout" && view != "parts" {
			all[view] = template.Must(template.Must(base.Clone()).ParseFS(files, name))
		}
	}
	return all
})

// render writes a page for the person of a visit. To htmx it writes what is in the main
// part of the page.
func (v *visit) render(status int, p *page) {
	p.Person, p.CSRF = v.person, v.session.csrf
	for _, view := range views {
		if v.person.role >= view.least {
			p.Nav = append(p.Nav, navItem{"/" + view.view, view.title, view.key, view.view == p.View || view.title == p.Title})
		}
	}
	v.w.Header().Add("Vary", "HX-Request")
	name := "layout"
	if v.r.Header.Get("HX-Request") == "true" && v.r.Header.Get("HX-Boosted") == "" {
		name = "main"
	}
	v.writeAs(v.w, status, p.View, name, p)
}

// place returns the time and the id of the last item of the page before, which name and id in the
// URL are; both are empty for the first page. ok is false for what no page leads to.
func (v *visit) place(name string) (at time.Time, id string, ok bool) {
	text, id := v.r.FormValue(name), v.r.FormValue("id")
	if text == "" && id == "" {
		return at, "", true
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, id, err == nil && id != "" && admin.CheckSince(at) == nil
}

// pageBehind is the URL of the page that begins behind an item.
func (v *visit) pageBehind(name string, at time.Time, id string) string {
	values := v.r.URL.Query()
	values.Set(name, at.UTC().Format(time.RFC3339Nano))
	values.Set("id", id)
	return v.r.URL.Path + "?" + values.Encode()
}

// write writes a page for somebody who has not signed in.
func (c *Console) write(w http.ResponseWriter, status int, view string, p *page) {
	c.writeAs(w, status, view, "layout", p)
}

func (c *Console) writeAs(w http.ResponseWriter, status int, view, name string, p *page) {
	var b bytes.Buffer
	if err := templates()[view].ExecuteTemplate(&b, name, p); err != nil {
		c.o.Log.Error("a page of the console cannot be shown", "view", view, "err", err)
		http.Error(w, "this page cannot be shown; the log of the gateway says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// say writes a page with one sentence.
func (c *Console) say(w http.ResponseWriter, status int, title, text string) {
	c.write(w, status, "message", &page{Title: title, View: "message", Data: text})
}

// sums are the hashes of the assets, by name.
var sums = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		text, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = hex.EncodeToString(sum[:8])
	}
	return all
})

// assetPath is the path of an asset. It changes with the asset.
func assetPath(name string) string { return "/assets/" + name + "?" + sums()[name] }

// serveAsset serves a file that pages use.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if sums()[name] == "" {
		http.NotFound(w, r)
		return
	}
	if r.URL.RawQuery == sums()[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, files, "assets/"+name)
}
