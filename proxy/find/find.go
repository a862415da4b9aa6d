// Package find ranks the items of a catalog for a query in words, such as "close the
// stale pull requests and tell the team".
//
// [Build] makes an immutable [Index] of the items of all servers. [Index.View] restricts
// it to what one caller may view. Every statistic that a score depends on is one of the
// view, so two catalogs that differ only in items that the caller may not view give
// equal results.
//
// The ranking is lexical: BM25F over the fields of an item, with stems, a thesaurus of
// the tool world and character n-grams. Each formula names the paper that it is from.
//
// The functions are pure and safe for concurrent use.
package find

import "github.com/toolgate/toolgate/internal/mcp"

// Item is one thing that can be found.
type Item struct {
	// Kind is what it is: a tool, a prompt, a resource or a template.
	Kind mcp.Kind
	// Name is the name that clients use, and Server the name of its server.
	Name, Server string
	// Title and Description are texts for people and models. Both may be empty.
	Title, Description string
	// Schema is the JSON Schema of the arguments. It may be nil. Invalid JSON is ignored.
	Schema []byte
	// ReadOnly says that the item changes nothing.
	ReadOnly bool
	// Hash identifies the definition: items with equal, nonempty hashes are equal in all
	// other fields. Build uses it to reuse what a previous index knows.
	Hash string
}

// Query is what is searched.
type Query struct {
	// Text is in words. Only its first 16 KiB and its first 96 words are read.
	Text string
	// Server restricts the search to one server. Empty means all.
	Server string
	// Kinds restricts the search to these kinds. Empty means all.
	Kinds []mcp.Kind
	// Limit is the largest number of hits, at most [MaxHits]; zero means 8.
	Limit int
	// Explain fills the reasons of the hits.
	Explain bool
	// Boost, if it is not nil, returns a number that is added to the score of an item,
	// where the words alone give between 0 and about 1. It is called for each visible item
	// of the server and the kinds, also for those that no word matches: they are found if
	// their score is above 0. NaN says that nothing is known of an item: then it is boosted
	// for how well its words match, so that it does not fall behind items of which more is
	// known. What it returns must not depend on what the caller may not view.
	Boost func(item int) float64
}

// MaxHits is the largest number of hits of a search.
const MaxHits = 200

// Hit is an item that matches.
type Hit struct {
	// Item is the position of the item in the slice that Build took.
	Item int
	// Score is how well the item matches the whole query. Items that serve a step of the
	// query come before better ones that serve a step which an earlier hit serves. Scores
	// of different queries cannot be compared.
	Score float64
	// Reasons say what matched, most important first. It is nil without Explain.
	Reasons []Reason
}

// Reason is one match of a word, or what [Query.Boost] added.
type Reason struct {
	Field string  // "name", "title", "description", "argument", "server" and so on; "boost" without a word
	Word  string  // the word of the query
	Match string  // what it matched, as a stem: the word, a synonym or a similar word
	Share float64 // how much of the score it made, from 0 to 1
}

// Result is what a search found.
type Result struct {
	Hits []Hit
	// More is the number of further items that match.
	More int
	// Steps are the steps into which the query was split. It is nil if there is only one.
	Steps []string
}
