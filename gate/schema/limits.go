package schema

// Limits of a schema. They keep the work of compiling one, in this package and in the
// library, below about 50 ms.
const (
	// MaxBytes is the size of the largest schema, in bytes.
	MaxBytes = 256 << 10
	// MaxDepth is the deepest nesting of a schema's JSON.
	MaxDepth = 64
	// MaxSubschemas is the largest number of subschemas in a schema. The library
	// compares each with all others.
	MaxSubschemas = 1000
	// MaxCost is how many subschemas one value may be checked against by keywords that
	// apply in place, such as allOf and $ref.
	MaxCost = 5000
	// MaxChain is the longest chain of such keywords.
	MaxChain = 128
	// MaxEnum is how many values an enum may list.
	MaxEnum = 5000
	// MaxPattern is the longest regular expression, in bytes.
	MaxPattern = 4096

	maxPatterns     = 16 << 10 // bytes of all regular expressions of a schema
	maxClasses      = 64       // Unicode classes in all of them: each is a table
	maxInstructions = 20_000   // estimated total after compiling
	maxPointedAt    = 64       // references to places outside of schema keywords
)

// Limits of arguments.
const (
	// MaxValues is how many values (of any kind, at any depth) the arguments of one
	// call may contain.
	MaxValues = 100_000
	// maxArgsDepth is the deepest nesting of arguments.
	maxArgsDepth = 256

	// A call may be checked against baseVisits subschemas, plus visitsPerValue for each
	// of its values. Without this limit, nested arguments and a recursive schema would
	// multiply.
	baseVisits     = MaxCost
	visitsPerValue = 32
)
