package findview

import "github.com/toolgate/toolgate/proxy/find/vectors"

// What an answer of a search has at most where nothing else is asked for: how many tools,
// and about how many tokens.
const (
	DefaultLimit  = 8
	DefaultTokens = 1500
)

// Settings are how tools are found.
type Settings struct {
	// Names of tools that the find view also lists, so that a model need not search for them. The full view marks them
	// for clients that search by themselves. Default: none.
	Pins []string `config:"pins"`
	// About how many tokens an answer of toolgate__find_tools has at most. Default: 1500.
	AnswerTokens int `config:"answer_tokens" default:"1500" min:"200" max:"20000"`
	// An embedding model, by which tools are found whose words are others than those of the query. Default: the words
	// alone decide.
	Embeddings vectors.Settings `config:"embeddings"`
}
