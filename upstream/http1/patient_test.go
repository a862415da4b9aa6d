package http1

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"weak"
)

// Requests that are sent apart from the wait for their answers are like others.
func TestPatient(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	p, dialed := newPool(t)
	p.Patient = true
	keepsConnection(t, p, dialed, server.URL)
	server.Close()
	if got, err := post(t.Context(), p, server.URL, "{}"); err == nil {
		t.Errorf("answered with %q", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.MultiReader())
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 2
	if _, err := p.RoundTrip(r); err == nil {
		t.Error("a request without its body was sent")
	}
}

// The wait for an answer holds nothing of the request but its context and its address.
func TestPatientHoldsLittle(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-goOn
	}))
	t.Cleanup(server.Close)
	p, _ := newPool(t)
	p.Patient = true
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	answered := make(chan *http.Response, 1)
	ask := func() (weak.Pointer[http.Request], weak.Pointer[strings.Reader]) {
		body := strings.NewReader("{}")
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/path?q", body)
		if err != nil {
			t.Fatal(err)
		}
		request, read := weak.Make(r), weak.Make(body)
		go func() {
			resp, err := p.RoundTrip(r)
			if err != nil {
				t.Error(err)
			}
			answered <- resp
		}()
		return request, read
	}
	request, body := ask()
	<-asked
	for i := 0; request.Value() != nil || body.Value() != nil; i++ { // it may not wait yet
		if i == 1000 {
			t.Error("the request is held")
			break
		}
		runtime.GC()
	}
	close(goOn)
	resp := <-answered
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	if r := resp.Request; r.Method != http.MethodPost || r.URL.String() != server.URL+"/path?q" || r.Context().Value(key{}) != "value" {
		t.Errorf("the request of the answer is %+v", r)
	}
}
