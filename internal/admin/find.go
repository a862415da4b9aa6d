package admin

import (
	"context"
	"net/http"
)

// FindQuestion asks how the tools that a caller sees rank for some queries.
type FindQuestion struct {
	Queries []string `json:"queries"`          // at most [MaxQueries]
	Server  string   `json:"server,omitempty"` // only tools of this server; empty for all
	Limit   int      `json:"limit"`            // of each ranking
	As      string   `json:"as,omitempty"`     // as in [WhyQuestion]
	Assumed *Caller  `json:"assumed,omitempty"`
	Capsule string   `json:"capsule,omitempty"`
	// Learned asks for the ranking with what was learned, or without, whichever is in force;
	// nil for that in force.
	Learned *bool `json:"learned,omitempty"`
}

// MaxQueries is how many queries one question may have.
const MaxQueries = 256

// Ranked is the answer to a [FindQuestion].
type Ranked struct {
	Caller   string    `json:"caller"`
	Assumed  bool      `json:"assumed,omitempty"` // the caller is assumed
	Rankings []Ranking `json:"rankings"`          // in the order of the queries
}

// Ranking is the ranking of the tools for one query.
type Ranking struct {
	Query string       `json:"query"`
	Steps []string     `json:"steps,omitempty"` // into which the query was split
	Tools []RankedTool `json:"tools"`           // best first
	More  int          `json:"more"`            // further tools that match
	Notes []string     `json:"notes,omitempty"` // why something may be missing
	// Tokens is about how many tokens the answer of the find view has.
	Tokens int `json:"tokens"`
}

// RankedTool is a tool with what made its score.
type RankedTool struct {
	Name     string         `json:"name"`
	Server   string         `json:"server"`
	Original string         `json:"original_name"`
	Score    float64        `json:"score"` // only comparable within its ranking
	Reasons  []RankedReason `json:"reasons"`
}

// RankedReason is one match of a word, or what an adviser added.
type RankedReason struct {
	Field string  `json:"field"` // in which the word was found; "boost" without a word
	Word  string  `json:"word"`  // of the query
	Match string  `json:"match"` // the stem that it matched
	Share float64 `json:"share"` // of the score
}

// Finder is a [Gateway] that ranks tools. Errors are for people.
type Finder interface {
	Find(ctx context.Context, q FindQuestion) (Ranked, error)
}

// handleFinder serves the rankings of a Finder.
func handleFinder(mux *router, f Finder) {
	mux.HandleFunc("POST /v1/find", func(w http.ResponseWriter, r *http.Request) {
		var q FindQuestion
		if err := readJSON(r, &q); err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		found, err := f.Find(r.Context(), q)
		writeFound(w, found, err)
	})
}

// Find asks the gateway to rank the tools that a caller sees.
func (c *Client) Find(ctx context.Context, q FindQuestion) (Ranked, error) {
	var out Ranked
	err := c.post(ctx, "/v1/find", q, &out)
	return out, err
}
