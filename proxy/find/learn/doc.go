// Package learn ranks the tools higher that callers chose after searches like the one at
// hand.
//
// A search and a successful call of a tool that it found are a [Pair]. [Train] makes a
// [Model] of the pairs of one tenant: the words of the searches after which each tool was
// called. [Model.Advise] compares the words of a query with these.
//
// The statistics that a score depends on are those of the visible tools, so two models
// that differ only in tools that the caller may not view say the same.
package learn

import "time"

// Pair is a search and the tool that was called after it.
type Pair struct {
	Query string
	// Server and Tool name the tool: the server, and the name that clients use.
	Server, Tool string
	// Caller identifies who searched and called. Equal callers have equal ones.
	Caller string
	// At is when that was. It may be the zero time.
	At time.Time
}

// What a model is made of.
const (
	// MinCallers is the least number of callers by default that must have called a tool
	// before their words count. With two, each of them could tell the words of the other,
	// and one of them alone would make up half.
	MinCallers = 3
	// MinPairs is the least number of pairs of a tool. With one or two, the words that
	// happen to be in them weigh too much, and the ranking gets worse.
	MinPairs = 3
	// MaxPerCaller is how many pairs of one caller count for a tool, so that nobody's many
	// searches outweigh those of others.
	MaxPerCaller = 10
	// MaxPerTool is how many pairs count for a tool.
	MaxPerTool = 200
	// maxWords is how many words of a tool a model keeps, and maxTools how many tools.
	maxWords = 96
	maxTools = 20_000
)
