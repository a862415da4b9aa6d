// Command embedder is an embeddings endpoint for the examples alone. It answers POST
// /v1/embeddings as OpenAI's does, with a model that knows a few words: texts with the
// same words, or with words for the same thing, are close. A real one is a program such
// as Ollama.
//
//	embedder ADDRESS
//
// It prints every text that it is sent. EMBEDDER_KEY is the key that it asks for.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"
)

// meanings are words that stand for the same thing.
var meanings = map[string]string{"scribble": "write", "jot": "write", "memo": "note", "notes": "note", "wipe": "delete", "erase": "delete"}

const (
	dimensions = 256
	maxBody    = 1 << 20
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: embedder ADDRESS")
	}
	s := &http.Server{Addr: args[0], Handler: http.HandlerFunc(embed), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// embed answers one request.
func embed(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Input []string `json:"input"`
	}
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/embeddings":
		http.NotFound(w, r)
		return
	case r.Header.Get("Authorization") != "Bearer "+os.Getenv("EMBEDDER_KEY"):
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, "that is not a request for embeddings", http.StatusBadRequest)
		return
	}
	type vector struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	data := make([]vector, len(in.Input))
	for i, text := range in.Input {
		fmt.Printf("embedded: %q\n", text)
		data[i] = vector{i, vectorOf(text)}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
}

// vectorOf counts the words of a text, each in a dimension of its own.
func vectorOf(text string) []float32 {
	out := make([]float32, dimensions)
	out[0] = 0.1 // a text without words has a vector too
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if same := meanings[word]; same != "" {
			word = same
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		out[1+h.Sum32()%(dimensions-1)]++
	}
	return out
}
