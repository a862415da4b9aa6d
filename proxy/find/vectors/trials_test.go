package vectors_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/vectors"
)

// failing answers as the model does, except for texts with a word.
func failing(word string, answer func(w http.ResponseWriter, texts []string)) func(w http.ResponseWriter, texts []string) {
	return func(w http.ResponseWriter, texts []string) {
		if strings.Contains(strings.Join(texts, "\n"), word) {
			answer(w, texts)
			return
		}
		embeds(300)(w, texts)
	}
}

// mixed returns an index of n good tools, with as many bad ones of another server before
// each as there are in bad.
func mixed(n, bad int) *find.Index {
	var items []find.Item
	for i := range n {
		for j := range bad {
			text := fmt.Sprintf("Hides poison %d of %d", j, i)
			items = append(items, find.Item{Kind: mcp.Tool, Server: "a", Name: fmt.Sprintf("a__bad%d_%d", i, j), Description: text, Hash: text})
		}
		text := fmt.Sprintf("Takes snapshot number%d", i)
		items = append(items, find.Item{Kind: mcp.Tool, Server: "s", Name: fmt.Sprintf("s__good%d", i), Description: text, Hash: text})
	}
	return find.Build(items, nil, nil)
}

func good(x *find.Index) func(int) bool {
	return func(i int) bool { return x.Server(i) == "s" }
}

// goodHaveVectors reports whether all good tools have vectors.
func (r *running) goodHaveVectors(x *find.Index) bool {
	for i := range x.Len() {
		if x.Server(i) == "s" && !r.Has(x, i) {
			return false
		}
	}
	return true
}

// TestTextsThatFail has a server that the caller may not view offer texts for which the
// endpoint fails, in every way. The tools of others get their vectors.
func TestTextsThatFail(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, texts []string){
		"500":       func(w http.ResponseWriter, _ []string) { http.Error(w, "panic", http.StatusInternalServerError) },
		"503":       func(w http.ResponseWriter, _ []string) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		"400":       func(w http.ResponseWriter, _ []string) { http.Error(w, "too long", http.StatusBadRequest) },
		"403":       func(w http.ResponseWriter, _ []string) { http.Error(w, "filtered", http.StatusForbidden) },
		"malformed": func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, `{"data":[]}`) },
		"null":      func(w http.ResponseWriter, texts []string) { fmt.Fprint(w, `{"data":[{"embedding":[0,0]}]}`) },
		"short":     embeds(10),
		"hangs up": func(w http.ResponseWriter, _ []string) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t)
			e.answers(failing("poison", answer))
			r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
			x := mixed(2*vectors.MaxBatch, 1) // more bad ones than a server may have at a time
			view := x.View(good(x))
			r.Advise(t.Context(), by("t"), "photo", view)
			testwait.Until(t, patience, "the vectors of the others", func() bool { return r.goodHaveVectors(x) })
			if p := r.Problem(); p != "" {
				t.Error(p)
			}
		})
	}
}

// TestFailedTextIsTriedAgain tries a text again that may not be at fault, and not for
// ever.
func TestFailedTextIsTriedAgain(t *testing.T) {
	t.Run("until it works", func(t *testing.T) {
		e := newEndpoint(t)
		e.answers(failing("poison", func(w http.ResponseWriter, _ []string) { http.Error(w, "busy", http.StatusInternalServerError) }))
		r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
		x := mixed(3, 1)
		r.Indexed(x)
		testwait.Until(t, patience, "the failure", func() bool { return r.log.count("refuses a definition") >= 1 })
		e.answers(nil)
		testwait.Until(t, patience, "all vectors", func() bool { return r.Complete(x) })
	})
	for status, tries := range map[int]int{http.StatusInternalServerError: vectors.MaxTries, http.StatusBadRequest: 1} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			e := newEndpoint(t)
			e.answers(failing("poison", func(w http.ResponseWriter, _ []string) { http.Error(w, "no", status) }))
			r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
			x := mixed(3, 1)
			r.Indexed(x)
			testwait.Until(t, patience, "the failures", func() bool { return r.log.count("refuses a definition") == 3*tries })
			n, _ := e.asked()
			more := mixed(4, 1) // the same texts, and two more
			r.Indexed(more)
			testwait.Until(t, patience, "the failures of the new one", func() bool { return r.log.count("refuses a definition") == 4*tries })
			runtime.KeepAlive(x) // the index of a gateway is held by it
			runtime.KeepAlive(more)
			_, texts := e.asked()
			alone := 0
			for _, text := range texts[n:] {
				if strings.Contains(text, "poison 0 of 0") {
					alone++
				}
			}
			if alone > 8*vectors.MaxTries {
				t.Errorf("a text was sent %d times", alone)
			}
		})
	}
}

// TestStoredVectorsDuringARest takes from the store what it has while the endpoint is left
// alone.
func TestStoredVectorsDuringARest(t *testing.T) {
	e, k := newEndpoint(t), &keeper{kept: map[string][]byte{}}
	x := mixed(20, 0)
	before := run(t, k, e.settings())
	before.complete(t, x)
	before.end()
	e.answers(func(w http.ResponseWriter, _ []string) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	r := run(t, k, e.settings())
	r.Indexed(tools(5))
	testwait.Until(t, patience, "the refusal", func() bool { return r.Problem() != "" })
	n, _ := e.asked()
	r.Indexed(x)
	testwait.Until(t, patience, "the stored vectors", func() bool { return r.Complete(x) })
	if m, _ := e.asked(); m != n {
		t.Errorf("the endpoint is asked %d times during its rest", m-n)
	}
	k.mu.Lock()
	k.fail = errors.New("disk full")
	k.mu.Unlock()
	r.Indexed(mixed(21, 0)) // fails in silence: the endpoint's problem is said
}
