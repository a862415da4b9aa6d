package result

import (
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/redact"
)

// Rules configure the post-processing of results. The zero value changes nothing.
type Rules struct {
	// Output says what happens to structuredContent that does not match the
	// outputSchema of its tool.
	Output OutputMode
	// Redact removes secrets from results, errors, progress and log messages of calls.
	Redact redact.Messages
	// MaxBytes bounds the results of tools; 0 means no limit.
	MaxBytes int
	// Larger says what happens to larger ones.
	Larger LargerMode
	// Shaping says what is passed on of results of tools.
	Shaping Shaping
}

// OutputMode is what a failed check of structured content leads to.
type OutputMode string

// The modes.
const (
	OutputUnchecked OutputMode = ""
	OutputWarn      OutputMode = "warn"    // passed on, marked, logged and counted
	OutputEnforce   OutputMode = "enforce" // refused
)

// LargerMode is what happens to a result that is too large.
type LargerMode string

// The modes.
const (
	TruncateLarger LargerMode = ""       // passed on as far as it fits
	KeepLarger     LargerMode = "keep"   // truncated, and kept as a resource for the caller
	RefuseLarger   LargerMode = "refuse" // refused
)

// OutputChecker checks structured content against the schema that a server lists. It is
// safe for concurrent use and bounds its own waits.
type OutputChecker interface {
	// CheckOutput returns the problems, one per line, nil when there are none. The
	// error tells why the check failed.
	CheckOutput(schema, value []byte) (problems []string, err error)
	// Ready returns an error when nothing can be checked against a schema.
	Ready(schema []byte) error
}

// Key is the member of _meta that tells what was done with a result.
const Key = "dev.toolgate/result"

// Keeps reports whether results may be kept as resources.
func (r *Rules) Keeps() bool { return r.MaxBytes > 0 && r.Larger == KeepLarger }

// Tool is the tool that returned a result.
type Tool struct {
	Server   string
	Original string // its name at the server
	Exposed  string // its name for callers
	Schema   []byte // its output schema; nil without one
	// Reader is the tool by which the caller reads kept results; empty where there is none.
	Reader string
}

// Notes record what was done with a result, for its _meta. The zero value means
// nothing.
type Notes struct {
	Problems []string // with structured content, see [CheckOutput]
	LeftOut  int      // bytes, see [Rules.Truncate]
	Changed  bool     // the server's own output schema does not hold for what was shaped

	notes  []byte   // what others say of it, as members of an object
	shaped []string // what changed the result, see [Shaping.Shape]
	failed string   // why it was not selected from
	from   int      // bytes before it was shaped
	bytes  int      // size of the whole result; 0 when nothing was cut
	limit  int
	uri    string // of the kept whole; empty when it is not kept
}

// Shaped reports whether a result was shaped, or failed to be.
func (n *Notes) Shaped() bool { return len(n.shaped) > 0 || n.failed != "" }

// Add adds what somebody says of the result. Each name may say one thing.
func (n *Notes) Add(by, text string) {
	n.notes = mcp.AppendQuote(append(n.notes, ','), by)
	n.notes = mcp.AppendQuote(append(n.notes, ':'), text)
}

// Member returns the member of _meta with the notes, nil without notes.
func (n *Notes) Member() []byte {
	if n.Problems == nil && n.bytes == 0 && len(n.shaped) == 0 && n.failed == "" && !n.Changed && n.notes == nil {
		return nil
	}
	var note []byte
	if n.notes != nil {
		note = append(append(append(note, `,"notes":{`...), n.notes[1:]...), '}')
	}
	if n.Problems != nil {
		note = append(note, `,"output":"invalid","problems":[`...)
		for i, p := range n.Problems {
			if i > 0 {
				note = append(note, ',')
			}
			note = mcp.AppendQuote(note, p)
		}
		note = append(note, ']')
	} else if n.Changed {
		note = append(note, `,"output":"changed"`...)
	}
	if len(n.shaped) > 0 {
		note = append(note, `,"shaped":[`...)
		for i, what := range n.shaped {
			if i > 0 {
				note = append(note, ',')
			}
			note = mcp.AppendQuote(note, what)
		}
		note = strconv.AppendInt(append(note, `],"whole_bytes":`...), int64(n.from), 10)
	}
	if n.failed != "" {
		note = mcp.AppendQuote(append(note, `,"select":`...), n.failed)
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
