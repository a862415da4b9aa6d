// Package admintest checks the answers of the control protocol in tests of more than one
// package.
package admintest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Check returns a handler that answers as a handler of the control protocol does, and fails
// the test for each answer that is not as the protocol's own description has it. The token
// lets it read that.
func Check(t testing.TB, h http.Handler, header http.Header) http.Handler {
	t.Helper()
	d := describe(t, h, header)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := d.paths.Handler(r); pattern == "POST /v1/stdio" {
			h.ServeHTTP(w, r) // takes the connection
			return
		}
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		d.check(t, r, got)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes())
	})
}

// description is what openapi.json says.
type description struct {
	paths    *http.ServeMux
	mu       sync.Mutex // guards compiler: answers are checked side by side
	compiler *jsonschema.Compiler
	all      map[string]map[string]any
}

const place = "https://toolgate.example/openapi.json"

func describe(t testing.TB, h http.Handler, header http.Header) *description {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", http.NoBody)
	r.Header = header.Clone()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("openapi.json: %d %v", w.Code, err)
	}
	d := &description{paths: http.NewServeMux(), compiler: jsonschema.NewCompiler(), all: map[string]map[string]any{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(place, text); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			pattern := strings.ToUpper(method) + " " + path
			d.paths.HandleFunc(pattern, http.NotFound)
			d.all[pattern] = operation.Responses
		}
	}
	return d
}

// check checks one answer.
func (d *description) check(t testing.TB, r *http.Request, got *httptest.ResponseRecorder) {
	t.Helper()
	_, pattern := d.paths.Handler(r)
	responses, known := d.all[pattern]
	if !known {
		if got.Code == http.StatusOK {
			t.Errorf("%s %s is not in openapi.json and answers %d", r.Method, r.URL.Path, got.Code)
		}
		return
	}
	status := "default"
	if _, own := responses[strconv.Itoa(got.Code)]; own {
		status = strconv.Itoa(got.Code)
	}
	method, path, _ := strings.Cut(pattern, " ")
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	at := place + "#/paths/" + escape.Replace(path) + "/" + strings.ToLower(method) + "/responses/" + status + "/content/application~1json/schema"
	d.mu.Lock()
	schema, err := d.compiler.Compile(at)
	d.mu.Unlock()
	if err != nil {
		t.Errorf("the schema of %s: %v", pattern, err)
		return
	}
	answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Body.Bytes()))
	if err == nil {
		err = schema.Validate(answer)
	}
	if err != nil {
		t.Errorf("%s answers %d with %.500s: %v", pattern, got.Code, got.Body, err)
	}
}
