package schemas

// bytesPerToken is the average number of bytes per token in JSON tool definitions,
// measured over real servers with current tokenizers.
const bytesPerToken = 4.5

// Tokens approximates how many tokens a number of bytes of definitions costs a model.
func Tokens(bytes int) int { return int(float64(bytes)/bytesPerToken + 0.5) }

// Bytes is about how many bytes of definitions a number of tokens are.
func Bytes(tokens int) int { return int(float64(tokens) * bytesPerToken) }
