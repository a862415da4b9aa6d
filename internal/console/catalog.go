package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/admin"
)

// catalogData are entries of the catalog.
type catalogData struct {
	Query   admin.CatalogQuery
	Entries []admin.CatalogEntry
	Found   int
	Held    int // of all entries found
	Down    string
}

// shownEntries bounds the entries of a page. The form narrows what is found.
const shownEntries = 500

// catalog lists the catalog. What is held comes first.
func (v *visit) catalog() {
	q := admin.CatalogQuery{Server: v.r.FormValue("server"), Kind: v.r.FormValue("kind"), State: v.r.FormValue("state"), Class: v.r.FormValue("class")}
	d := &catalogData{Query: q}
	all, err := v.model.Catalog(v.r.Context(), q)
	if err != nil {
		d.Down = err.Error()
	}
	for i := range all {
		if all[i].HeldHash != "" {
			d.Held++
		}
	}
	slices.SortStableFunc(all, func(a, b admin.CatalogEntry) int {
		if (a.HeldHash != "") != (b.HeldHash != "") {
			return strings.Compare(b.HeldHash, a.HeldHash)
		}
		return strings.Compare(a.Name, b.Name)
	})
	d.Found, d.Entries = len(all), all[:min(len(all), shownEntries)]
	words := []string{"catalog", "ls"}
	for _, f := range []struct{ flag, value string }{{"--server", q.Server}, {"--kind", q.Kind}, {"--state", q.State}, {"--class", q.Class}} {
		if f.value != "" {
			words = append(words, f.flag+"="+f.value)
		}
	}
	v.render(http.StatusOK, &page{Title: "Catalog", View: "catalog", Command: command(words...), Data: d})
}

// entry shows one entry with its definitions.
func (v *visit) entry() {
	e, err := v.model.CatalogEntry(v.r.Context(), v.r.FormValue("name"), v.r.FormValue("kind"))
	if _, none := errors.AsType[*admin.NoEntryError](err); none {
		v.missing()
		return
	}
	if err != nil {
		v.fail(http.StatusServiceUnavailable, "This cannot be shown: "+err.Error())
		return
	}
	v.render(http.StatusOK, &page{Title: "Catalog", View: "entry", Command: command("catalog", "show", e.Name), Data: &e})
}

// changes are what the console changes in the catalog.
var changes = []string{
	admin.CatalogEnable, admin.CatalogDisable, admin.CatalogAccept, admin.CatalogRestrict, admin.CatalogAllow, admin.CatalogUnrestrict,
}

// changeCatalog changes one entry. To accept a definition is to accept the one that was
// shown.
func (v *visit) changeCatalog() {
	f := v.r.PostFormValue
	change := admin.CatalogChange{Op: f("op"), Name: f("name"), Kind: f("kind"), Persona: f("persona"), Hash: f("held_hash"), Actor: v.person.Name(), Reason: f("reason")}
	if !slices.Contains(changes, change.Op) || change.Op == admin.CatalogAccept && change.Hash == "" {
		v.fail(http.StatusUnprocessableEntity, "The console does not make this change.")
		return
	}
	e, err := v.model.ChangeCatalog(v.r.Context(), change)
	if err != nil {
		v.fail(http.StatusUnprocessableEntity, err.Error())
		return
	}
	http.Redirect(v.w, v.r, "/catalog/entry?"+url.Values{"name": {e.Name}, "kind": {e.Kind}}.Encode(), http.StatusSeeOther)
}
