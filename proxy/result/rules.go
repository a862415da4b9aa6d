package result

import (
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/redact"
)

// Rules say what is done with what a server answers. The zero value does
// nothing.
type Rules struct {
	// Output is what happens to the structuredContent of a tool that does not
	// fit the outputSchema which its server lists.
	Output OutputMode
	// Redact takes secrets out of results, errors, progress and log messages of
	// calls.
	Redact redact.Messages
	// MaxBytes is the largest result of a tool; 0 is any.
	MaxBytes int
	// Larger is what happens to larger ones.
	Larger LargerMode
}

// OutputMode is what a check of structured content leads to.
type OutputMode uint8

// The modes.
const (
	OutputUnchecked OutputMode = iota
	OutputWarn                 // it is passed on, marked, logged and counted
	OutputEnforce              // it is refused
)

// LargerMode is what happens to a result that is too large.
type LargerMode uint8

// The modes.
const (
	TruncateLarger LargerMode = iota // what fits is passed on
	KeepLarger                       // the same, and the whole is kept as a resource for the caller
	RefuseLarger                     // it is refused
)

// OutputChecker holds structured content against the schema that a server lists
// for it. It is safe for concurrent use and bounds its own waits.
type OutputChecker interface {
	// CheckOutput returns what does not fit, a line each, nil when all does. The
	// error says why it could not be found out.
	CheckOutput(schema, value []byte) (problems []string, err error)
	// Ready returns why nothing can be held against a schema, nil when it can.
	Ready(schema []byte) error
}

// Key is the member of _meta that says what was done with a result.
const Key = "dev.toolgate/result"

// Keeps tells whether results may be kept as resources.
func (r *Rules) Keeps() bool { return r.MaxBytes > 0 && r.Larger == KeepLarger }

// Tool is the tool whose result it is.
type Tool struct {
	Server   string
	Original string // its name at the server
	Exposed  string // its name for callers
	Schema   []byte // its output schema; nil without one
}

// Notes are what was done with a result, for its _meta. The zero value is nothing.
type Notes struct {
	Problems []string // of structured content, see [CheckOutput]
	LeftOut  int      // bytes, see [Rules.Truncate]

	bytes int // that the whole had; 0 for one that is whole
	limit int
	uri   string // where the whole is kept; empty for nowhere
}

// Member returns the member of _meta that has the notes, nil without notes.
func (n *Notes) Member() []byte {
	if n.Problems == nil && n.bytes == 0 {
		return nil
	}
	var note []byte
	if n.Problems != nil {
		note = append(note, `,"output":"invalid","problems":[`...)
		for i, p := range n.Problems {
			if i > 0 {
				note = append(note, ',')
			}
			note = mcp.AppendQuote(note, p)
		}
		note = append(note, ']')
	}
	if n.bytes > 0 {
		note = strconv.AppendInt(append(note, `,"bytes":`...), int64(n.bytes), 10)
		note = strconv.AppendInt(append(note, `,"limit":`...), int64(n.limit), 10)
		note = strconv.AppendInt(append(note, `,"left_out":`...), int64(n.LeftOut), 10)
	}
	if n.uri != "" {
		note = mcp.AppendQuote(append(note, `,"resource":`...), n.uri)
	}
	note[0] = '{'
	return append(append([]byte(`"`+Key+`":`), note...), '}')
}
