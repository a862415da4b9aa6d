package http1_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// releaser is a response that takes back the memory of its request.
type releaser interface{ ReleaseRequest() }

// Requests that lie in the memory of released ones are their own, with their context, and those
// that were not released stay as they are.
func TestReleasedRequestsAreSeparate(t *testing.T) {
	const clients, each = 8, 100
	var keeping sync.Mutex
	var kept []func()
	_, l := listen(t, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		who, path, header := string(text), r.URL.Path, maps.Clone(r.Header)
		ctx := r.Context()
		check := func() {
			if r.Header.Get("X-Who") != who || r.URL.Path != path || r.RequestURI != path || !maps.EqualFunc(header, r.Header, func(a, b []string) bool {
				return strings.Join(a, "\n") == strings.Join(b, "\n")
			}) || r.Form != nil || r.Context() != ctx {
				t.Errorf("%s came to %s with %v", who, path, r.Header)
			}
		}
		if !strings.HasSuffix(path, strings.ReplaceAll(who, " ", "-")) || len(r.Header["X-More"]) != len(who)%3 || ctx.Err() != nil {
			t.Errorf("%s came to %s with %v: %v", who, path, r.Header, ctx.Err())
		}
		check()
		stop := context.AfterFunc(ctx, func() {})
		defer stop()
		_, _ = io.WriteString(w, who)
		switch len(who) % 4 {
		case 0:
			keeping.Lock()
			defer keeping.Unlock()
			kept = append(kept, func() {
				check()
				if ctx.Err() == nil {
					t.Errorf("the context of %s has not ended", who)
				}
			})
		case 1: // somebody may hold what belongs to the request besides
			r.Form = map[string][]string{"a": {who}}
			w.(releaser).ReleaseRequest()
		default:
			w.(releaser).ReleaseRequest()
		}
	})))
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := dial(t, l)
			for i := range each {
				who := fmt.Sprintf("%d of %s", i, strings.Repeat("x", n+1))
				c.send(fmt.Sprintf("POST /to/%s HTTP/1.1\r\nHost: x\r\nX-Who: %s\r\n%sContent-Length: %d\r\n\r\n%s",
					strings.ReplaceAll(who, " ", "-"), who, strings.Repeat("X-More: "+who+"\r\n", len(who)%3), len(who), who))
				if _, got := c.answer(); got != who {
					t.Errorf("%s was answered with %v", who, got)
				}
			}
		})
	}
	all.Wait()
	if len(kept) == 0 {
		t.Error("no request was kept")
	}
	for _, check := range kept {
		check()
	}
}
