package admin

import (
	"net/url"
	"strconv"
	"time"
)

// parsePage reads which page of a list is asked for: the time and the id of the last item of the
// page before, and how many items the page has, most at most. problem says what is wrong with it.
func parsePage(v url.Values, name string, most int) (at time.Time, id string, limit int, problem string) {
	limit = most
	var err error
	if text := v.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > most {
			return at, "", 0, "limit must be a number from 1 to " + strconv.Itoa(most)
		}
	}
	text, id := v.Get(name), v.Get("id")
	if text == "" && id == "" {
		return at, "", limit, ""
	}
	if at, err = time.Parse(time.RFC3339Nano, text); err != nil || id == "" || CheckSince(at) != nil {
		return at, "", 0, name + " and id must be those of the last one of the page before"
	}
	return at, id, limit, ""
}

// setPage is the inverse of parsePage. An empty id is the first page.
func setPage(v url.Values, name string, at time.Time, id string, limit int) {
	if id != "" {
		v.Set(name, at.UTC().Format(time.RFC3339Nano))
		v.Set("id", id)
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
}
