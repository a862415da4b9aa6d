package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
)

func TestArgumentsAreNumbered(t *testing.T) {
	for query, want := range map[string]string{
		"":                               "",
		"SELECT 1":                       "SELECT 1",
		"a = ? AND b IN (?, ?)":          "a = $1 AND b IN ($2, $3)",
		"a = '?' AND b = ?":              "a = '?' AND b = $1",
		"a = 'it''s ?' AND b = ?":        "a = 'it''s ?' AND b = $1",
		`"odd?" = ?`:                     `"odd?" = $1`,
		"a -- why?\n= ?":                 "a -- why?\n= $1",
		"a /* why? */ = ?":               "a /* why? */ = $1",
		"a - ? / ?":                      "a - $1 / $2",
		"? -- the end?":                  "$1 -- the end?",
		"? /* open ?":                    "$1 /* open ?",
		"? 'open ?":                      "$1 'open ?",
		strings.Repeat("?", 11):          "$1$2$3$4$5$6$7$8$9$10$11",
		"/*/ ? */ ?":                     "/*/ ? */ $1",
		"é = ? AND note = 'ü?' OR x = ?": "é = $1 AND note = 'ü?' OR x = $2",
	} {
		if got := store.Numbered(query); got != want {
			t.Errorf("%q\n got %q\nwant %q", query, got, want)
		}
	}
}

// FuzzNumbered checks that nothing but question marks changes, and that their
// numbers rise by one.
func FuzzNumbered(f *testing.F) {
	for _, seed := range []string{"", "?", "a = ? OR b = '?'", `"?`, "--?\n?", "/*?*/?", "''?''", "/*/?*/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if strings.Contains(query, "$") {
			return
		}
		back := store.Numbered(query)
		for n := 1; ; n++ {
			next := strings.Replace(back, fmt.Sprint("$", n), "?", 1)
			if next == back {
				break
			}
			if i := strings.Index(back, "$"); !strings.HasPrefix(back[i:], fmt.Sprint("$", n)) {
				t.Fatalf("%q: $%d is not the next", query, n)
			}
			back = next
		}
		if back != query {
			t.Errorf("%q became %q", query, back)
		}
	})
}
