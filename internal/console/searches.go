package console

import (
	"net/http"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// searchesData are searches that ended in a call.
type searchesData struct {
	Since    string
	Searches []admin.Search
	Queries  bool // the person may see what was searched for
	Down     string
}

// shownSearches is how many searches the page has.
const shownSearches = 100

// searches lists the searches of the last day, or of another time: to administrators with the
// words, to auditors without.
func (v *visit) searches() {
	d := &searchesData{Since: v.r.FormValue("since"), Queries: v.person.role >= Admin}
	words, ago := []string{"find", "searches"}, admin.SearchesSince
	if d.Since != "" {
		var err error
		if ago, err = time.ParseDuration(d.Since); err != nil || ago <= 0 {
			d.Down = "write since as a duration, such as 15m or 24h"
		} else {
			words = append(words, "--since="+d.Since)
		}
	}
	if d.Down == "" {
		var err error
		if d.Searches, err = v.model.Searches(v.r.Context(), time.Now().Add(-ago), shownSearches); err != nil {
			d.Down = err.Error()
		}
	}
	for i := range d.Searches {
		if !d.Queries {
			d.Searches[i].Query = ""
		}
	}
	v.render(http.StatusOK, &page{Title: "Searches", View: "searches", Command: command(words...), Data: d})
}
