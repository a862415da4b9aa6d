package schema

// What a schema may be. The limits hold the work of preparing one, in this
// package and in the library, below about 50 ms.
const (
	// MaxBytes is the largest schema.
	MaxBytes = 256 << 10
	// MaxDepth is the deepest nesting of a schema's JSON.
	MaxDepth = 64
	// MaxSubschemas is how many subschemas there may be in one. The library
	// compares each with all others.
	MaxSubschemas = 1000
	// MaxCost is how many subschemas one value may be held against by keywords
	// that apply in place, such as allOf and $ref.
	MaxCost = 5000
	// MaxChain is how many of those keywords may follow from one another.
	MaxChain = 128
	// MaxEnum is how many values an enum may list.
	MaxEnum = 5000
	// MaxPattern is the longest regular expression, in bytes.
	MaxPattern = 4096

	maxPatterns     = 16 << 10 // bytes of all regular expressions of a schema
	maxClasses      = 64       // Unicode classes in all of them: each is a table
	maxInstructions = 20_000   // that all of them compile to, about
	maxPointedAt    = 64       // references to places where no schema is expected
)

// What arguments may be.
const (
	// MaxValues is how many values (of any kind, at any depth) the arguments
	// of one call may have.
	MaxValues = 100_000
	// maxArgsDepth is the deepest nesting of arguments.
	maxArgsDepth = 256

	// A call may be checked against as many subschemas as baseVisits and
	// visitsPerValue for each of its values. Nested arguments and a recursive
	// schema can otherwise multiply.
	baseVisits     = MaxCost
	visitsPerValue = 32
)
