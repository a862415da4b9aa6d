package findview

import "github.com/toolgate/toolgate/proxy/find/vectors"

// What an answer of a search has at most where nothing else is asked for: how many tools,
// and about how many tokens.
const (
	DefaultLimit  = 8
	DefaultTokens = 1500
)

// Learning is what is done with searches and the calls that follow them.
type Learning string

// The ways.
const (
	LearningOff    Learning = "off"
	LearningRecord Learning = "record" // they are kept
	LearningShadow Learning = "shadow" // and each search is also ranked with what was learned, which nobody is shown
	LearningLive   Learning = "live"   // and answers are ranked with what was learned
)

// Settings are how tools are found.
type Settings struct {
	// Names of tools that the find view also lists, so that a model need not search for them. The full view marks them
	// for clients that search by themselves. Default: none.
	Pins []string `config:"pins"`
	// About how many tokens an answer of toolgate__find_tools has at most. Default: 1500.
	AnswerTokens int `config:"answer_tokens" default:"1500" min:"200" max:"20000"`
	// What is learned from searches that end in a successful call. record keeps the words of these searches for
	// `toolgate find train`; shadow compares what was learned with the answers; live ranks answers by it. Default: off.
	Learning Learning `config:"learning" enum:"off|record|shadow|live" default:"off"`
	// An embedding model, by which tools are found whose words are others than those of the query. Default: the words
	// alone decide.
	Embeddings vectors.Settings `config:"embeddings"`
}
