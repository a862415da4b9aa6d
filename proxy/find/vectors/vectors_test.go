package vectors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testwait"
	"github.com/toolgate/toolgate/proxy/find"
	"github.com/toolgate/toolgate/proxy/find/vectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what takes some milliseconds.
const patience = 20 * time.Second

// concepts are words that the model of the tests takes for the same.
var concepts = map[string]string{"photo": "picture", "image": "picture", "snapshot": "picture", "car": "vehicle", "lorry": "vehicle"}

// embedding is what the model of the tests makes of a text: each word, or its concept,
// adds to one of the dimensions.
func embedding(text string, dimensions int) []float32 {
	out := make([]float32, dimensions)
	out[0] = 0.1 // never without direction
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if same := concepts[word]; same != "" {
			word = same
		}
		h := fnv.New32a()
		h.Write([]byte(word))
		out[1+int(h.Sum32()%uint32(dimensions-1))]++
	}
	return out
}

// endpoint is an embeddings endpoint with a scripted model.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	requests [][]string // the texts of each
	keys     map[string]bool
	answer   func(w http.ResponseWriter, texts []string) // nil: as the model says
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{keys: map[string]bool{}}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost || in.Model == "" {
		http.Error(w, "not like that", http.StatusTeapot)
		return
	}
	e.mu.Lock()
	e.requests = append(e.requests, in.Input)
	e.keys[r.Header.Get("Authorization")] = true
	answer := e.answer
	e.mu.Unlock()
	if answer == nil {
		answer = embeds(300)
	}
	answer(w, in.Input)
}

// embeds answers with vectors of some dimensions, the last first.
func embeds(dimensions int) func(w http.ResponseWriter, texts []string) {
	return func(w http.ResponseWriter, texts []string) {
		type one struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		data := make([]one, len(texts))
		for i := range texts {
			data[len(texts)-1-i] = one{i, embedding(texts[i], dimensions)}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
}

func (e *endpoint) answers(f func(w http.ResponseWriter, texts []string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

// asked returns how many requests came, and what they were for.
func (e *endpoint) asked() (requests int, texts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		texts = append(texts, r...)
	}
	return len(e.requests), texts
}

func (e *endpoint) settings() *vectors.Settings {
	return &vectors.Settings{URL: e.URL + "/v1", Model: "scripted", APIKey: secret.Text("the-key")}
}

// keeper is a store in memory that can fail.
type keeper struct {
	mu   sync.Mutex
	kept map[string][]byte
	fail error
}

func (k *keeper) Load(_ context.Context, space string, keys []string) (map[string][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string][]byte{}
	for _, key := range keys {
		if body, ok := k.kept[space+key]; ok {
			out[key] = body
		}
	}
	return out, k.fail
}

func (k *keeper) Save(_ context.Context, space string, all map[string][]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, body := range all {
		k.kept[space+key] = body
	}
	return k.fail
}

// log is what was logged.
type log struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.String(), text)
}

// running is an adviser that runs.
type running struct {
	*vectors.Vectors
	log log
	end func()
}

func run(t *testing.T, s vectors.Store, set *vectors.Settings) *running {
	r := &running{}
	r.Vectors = vectors.New(s, slog.New(slog.NewTextHandler(&r.log, nil)))
	r.TryAgain(5 * time.Millisecond)
	r.Use(set)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.end)
	return r
}

// tools returns an index of n tools. The first ones can be told apart by what the model
// knows alone.
func tools(n int, more ...string) *find.Index {
	var items []find.Item
	for i, description := range append([]string{"Takes a snapshot with the camera", "Rents a lorry", "Sends mail"}, more...) {
		items = append(items, find.Item{Kind: mcp.Tool, Server: "s", Name: fmt.Sprintf("s__t%d", i), Description: description, Hash: description})
	}
	for i := len(items); i < n; i++ {
		text := fmt.Sprintf("Computes number%d and number%d", i, i*7)
		items = append(items, find.Item{Kind: mcp.Tool, Server: "s", Name: fmt.Sprintf("s__t%d", i), Description: text, Hash: text})
	}
	return find.Build(items, nil, nil)
}

// by is a caller of a tenant, the only one.
func by(tenant string) find.Caller { return find.Caller{Tenant: tenant, Principal: tenant} }

func everything(int) bool { return true }

// complete has an index searched, and waits until all of it has vectors.
func (r *running) complete(t *testing.T, x *find.Index) {
	t.Helper()
	r.Advise(t.Context(), by("t"), "anything", x.View(everything))
	testwait.Until(t, patience, "the vectors", func() bool { return r.Complete(x) })
}

// first returns the name of the best hit.
func (r *running) first(t *testing.T, v *find.View, query string) string {
	t.Helper()
	result := v.Search(find.Query{Text: query, Boost: r.Advise(t.Context(), by("t"), query, v)})
	if len(result.Hits) == 0 {
		return ""
	}
	return v.Index().Name(result.Hits[0].Item)
}

// TestFindsOtherWords finds by vectors what no word matches, in batches, with the key,
// and each text is sent once, also after a restart.
func TestFindsOtherWords(t *testing.T) {
	e, dir := newEndpoint(t), t.TempDir()
	x := tools(3*vectors.MaxBatch + 5)
	view := x.View(everything)
	for restart := range 2 {
		s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "store.db"), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		r := run(t, store.NewVectors(s), e.settings())
		r.complete(t, x)
		if got := r.first(t, view, "make a photo"); got != "s__t0" {
			t.Errorf("photo finds %q", got)
		}
		if got := r.first(t, view, "car"); got != "s__t1" {
			t.Errorf("car finds %q", got)
		}
		if p := r.Problem(); p != "" {
			t.Errorf("problem: %s", p)
		}
		r.end()
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
		seen := map[string]int{}
		_, texts := e.asked()
		for _, text := range texts {
			if strings.HasPrefix(text, "s\n") {
				seen[text]++
			}
		}
		if len(seen) != x.Len() {
			t.Errorf("%d of %d texts were sent", len(seen), x.Len())
		}
		for text, n := range seen {
			if n != 1 {
				t.Errorf("restart %d: %q was sent %d times", restart, text, n)
			}
		}
	}
	for _, r := range e.requests {
		if len(r) > vectors.MaxBatch {
			t.Errorf("a batch of %d", len(r))
		}
	}
	if want := map[string]bool{"Bearer the-key": true}; !maps.Equal(e.keys, want) {
		t.Errorf("keys: %v", e.keys)
	}
}

// TestChangedIndex keeps the vectors of what is the same, and asks for the others.
func TestChangedIndex(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	r.complete(t, tools(20))
	_, before := e.asked()
	x := tools(20, "Shows a photo")
	if r.first(t, x.View(func(i int) bool { return i != 3 }), "image") != "s__t0" {
		t.Error("the vectors are gone as soon as the index changes")
	}
	r.complete(t, x)
	_, after := e.asked()
	if sent := strings.Join(after[len(before):], "|"); strings.Count(sent, "s\n") != 1 || !strings.Contains(sent, "Shows a photo") {
		t.Errorf("sent: %q", sent)
	}
}

// TestUse changes the settings: another model has its own vectors, and without one
// nothing is sent.
func TestUse(t *testing.T) {
	e := newEndpoint(t)
	r := run(t, &keeper{kept: map[string][]byte{}}, &vectors.Settings{})
	x := tools(20)
	view := x.View(everything)
	if got := r.Advise(t.Context(), by("t"), "photo", view); got != nil {
		t.Error("advice without a model")
	}
	r.Use(e.settings())
	r.complete(t, x)
	other := e.settings()
	other.Model = "other"
	e.answers(embeds(100))
	r.Use(other)
	r.complete(t, x)
	if got := r.first(t, view, "image"); got != "s__t0" {
		t.Errorf("image finds %q", got)
	}
	r.Use(other)
	r.complete(t, x)
	n, texts := e.asked()
	if sent := strings.Count(strings.Join(texts, "|"), "s\n"); sent != 2*x.Len() {
		t.Errorf("two models got %d texts of %d", sent, x.Len())
	}
	r.Use(&vectors.Settings{})
	if r.Advise(t.Context(), by("t"), "lorry", view) != nil || r.Problem() != "" {
		t.Error("a model that is gone advises")
	}
	if m, _ := e.asked(); m != n {
		t.Errorf("%d more requests", m-n)
	}
}

// TestBadEndpoints leaves the ranking of words alone, whatever the endpoint does. That is
// logged once, and in an alarm; the vectors are there once the endpoint answers.
func TestBadEndpoints(t *testing.T) {
	body := func(text string) func(w http.ResponseWriter, texts []string) {
		return func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, text) }
	}
	status := func(code int) func(w http.ResponseWriter, texts []string) {
		return func(w http.ResponseWriter, _ []string) { http.Error(w, "the-key", code) }
	}
	all := func(vector string) func(w http.ResponseWriter, texts []string) {
		return func(w http.ResponseWriter, texts []string) {
			fmt.Fprint(w, `{"data":[`+strings.TrimSuffix(strings.Repeat(`{"embedding":`+vector+`},`, len(texts)), ",")+`]}`)
		}
	}
	var asked atomic.Int32
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, texts []string)
		want   string
	}{
		"down":    {status(http.StatusServiceUnavailable), "answers 503"},
		"key":     {status(http.StatusUnauthorized), "api_key"},
		"url":     {status(http.StatusNotFound), "no such model"},
		"refuses": {status(http.StatusBadRequest), "answers 400"},
		"limited": {status(http.StatusTooManyRequests), "answers 429"},
		"html":    {body("<html>the-key"), "not JSON"},
		"huge":    {func(w http.ResponseWriter, _ []string) { endless(w) }, "more than 8388608 bytes"},
		"too few": {body(`{"data":[{"embedding":[1,2]}]}`), "1 vectors for"},
		"none":    {body(`{}`), "0 vectors for"},
		"NaN":     {all(`[NaN]`), "not JSON"},
		"1e999":   {all(`[1e999]`), "not JSON"},
		"zero":    {all(`[0,0,0]`), "without direction"},
		"empty":   {all(`[]`), "0 numbers"},
		"wide":    {all(`[` + strings.Repeat("1,", 5000) + `1]`), "5001 numbers"},
		"texts":   {all(`"the-key"`), "not JSON"},
		"redirects": {func(w http.ResponseWriter, _ []string) {
			w.Header().Set("Location", "/v1/embeddings")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "answers 307"},
		"lengths": {func(w http.ResponseWriter, texts []string) { // of another model after the first
			embeds(10+int(asked.Add(1)))(w, texts)
		}, "those before have"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t)
			e.answers(c.answer)
			r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
			x := tools(vectors.MaxBatch + 31)
			view := x.View(everything)
			if got := r.first(t, view, "mail"); got != "s__t2" {
				t.Errorf("mail finds %q", got)
			}
			testwait.Until(t, patience, "the problem", func() bool { return strings.Contains(r.Problem(), c.want) })
			if got := r.first(t, view, "mail"); got != "s__t2" {
				t.Errorf("mail finds %q", got)
			}
			n, _ := e.asked()
			testwait.Until(t, patience, "another attempt", func() bool { m, _ := e.asked(); return m > n })
			if r.log.count("vectors of definitions are not made") != 1 || r.log.count("the-key") != 0 || strings.Contains(r.Problem(), "the-key") {
				t.Errorf("the log: %s", r.log.String())
			}
			if name == "lengths" { // some vectors are kept
				return
			}
			e.answers(nil)
			testwait.Until(t, patience, "the vectors", func() bool { return r.Complete(x) && r.Problem() == "" })
		})
	}
}

// TestRetryAfterIsWaited leaves an endpoint alone for as long as it asks for.
func TestRetryAfterIsWaited(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	var mu sync.Mutex
	var times []time.Time
	e.answers(func(w http.ResponseWriter, texts []string) {
		if !strings.HasPrefix(texts[0], "s\n") {
			embeds(300)(w, texts)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if times = append(times, time.Now()); len(times) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		embeds(300)(w, texts)
	})
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x := tools(20)
	r.Advise(t.Context(), by("t"), "anything", x.View(everything))
	testwait.Until(t, patience, "the refusal", func() bool { return r.Problem() != "" })
	x = tools(30) // a new index is no reason to ask earlier
	r.complete(t, x)
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 2 || times[1].Sub(times[0]) < time.Second {
		t.Errorf("attempts at %v", times)
	}
}

// endless writes more than is read.
func endless(w http.ResponseWriter) {
	chunk := bytes.Repeat([]byte("[0.1,"), 1<<16)
	for range 100 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestOneBadText goes without the vector of a text that the endpoint refuses, and of no
// other.
func TestOneBadText(t *testing.T) {
	e := newEndpoint(t)
	e.answers(func(w http.ResponseWriter, texts []string) {
		if strings.Contains(strings.Join(texts, ""), "lorry") {
			http.Error(w, "too long", http.StatusBadRequest)
			return
		}
		embeds(300)(w, texts)
	})
	r := run(t, &keeper{kept: map[string][]byte{}}, e.settings())
	x := tools(50)
	view := x.View(everything)
	r.Advise(t.Context(), by("t"), "photo", view)
	testwait.Until(t, patience, "the refusal", func() bool { return r.log.count("refuses a definition") == 1 })
	testwait.Until(t, patience, "the other vectors", func() bool { return r.first(t, view, "photo") == "s__t0" })
	if p := r.Problem(); p != "" {
		t.Error(p)
	}
	if got := r.first(t, view, "lorry"); got != "s__t1" {
		t.Errorf("the words of that text find %q", got)
	}
}

// TestStoreFails shows a store that fails, and goes on once it does not.
func TestStoreFails(t *testing.T) {
	e, k := newEndpoint(t), &keeper{kept: map[string][]byte{}, fail: errors.New("disk full")}
	r := run(t, k, e.settings())
	x := tools(10)
	r.Advise(t.Context(), by("t"), "photo", x.View(everything))
	testwait.Until(t, patience, "the problem", func() bool { return strings.Contains(r.Problem(), "the store: disk full") })
	k.mu.Lock()
	k.fail = nil
	k.mu.Unlock()
	testwait.Until(t, patience, "the vectors", func() bool { return r.Complete(x) && r.Problem() == "" })
	k.mu.Lock()
	for key := range k.kept { // what cannot be read is made again
		k.kept[key] = []byte("?")
	}
	k.mu.Unlock()
	again := run(t, k, e.settings())
	again.complete(t, x)
}
