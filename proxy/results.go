package proxy

import (
	"bytes"
	"strconv"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
	"github.com/toolgate/toolgate/proxy/redact"
	"github.com/toolgate/toolgate/proxy/refusal"
)

// This file is the result phases (DESIGN 8): what an operator wants done with
// the answer of a server before its client gets it. Without rules nothing is
// done and the bytes stay as they are.

// ResultRules say what is done with what a server answers. The zero value does
// nothing.
type ResultRules struct {
	// Output is what happens to the structuredContent of a tool that does not
	// fit the outputSchema which its server lists.
	Output OutputCheck
	// Redact takes secrets out of results, errors, progress and log messages of
	// calls.
	Redact redact.Messages
	// MaxBytes is the largest result of a tool; 0 is any.
	MaxBytes int
	// Larger is what happens to larger ones.
	Larger LargerResult
}

// OutputCheck is what a check of structured content leads to.
type OutputCheck uint8

// The checks.
const (
	OutputUnchecked OutputCheck = iota
	OutputWarn                  // it is passed on, marked, logged and counted
	OutputEnforce               // it is refused
)

// LargerResult is what happens to a result that is too large.
type LargerResult uint8

// The ways.
const (
	CutLarger    LargerResult = iota // what fits is passed on
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

// ResultKey is the member of _meta that says what was done with a result.
const ResultKey = "dev.toolgate/result"

// results are the rules for what the route leads to.
func (r *Route) results() *ResultRules {
	if r.shape != nil && r.shape.Results != nil {
		return r.shape.Results
	}
	return &r.to.mount.Results
}

// keeps tells whether results of the mount may be kept as resources.
func (m *Mount) keeps() bool {
	keeps := func(r *ResultRules) bool { return r.MaxBytes > 0 && r.Larger == KeepLarger }
	if keeps(&m.Results) {
		return true
	}
	for _, shape := range m.Tools {
		if shape.Results != nil && keeps(shape.Results) {
			return true
		}
	}
	return false
}

// treat returns a complete result of a method as it may be delivered, with its
// URIs exposed: held against the output schema as the server sent it, without
// secrets, and not larger than it may be. What was done is noted in the entry of its
// call, and in note, the member of _meta that tells the client; nil for nothing.
func (g *Gateway) treat(x *Exchange, r *Route, entry *audit.Entry, method string, result []byte) (_, note []byte, _ error) {
	rules := r.results()
	clean, err := g.redaction(r, entry).result(method, result)
	if err != nil {
		return nil, nil, err
	}
	var notes resultNotes
	if rules.Output != OutputUnchecked && method == mcp.MethodToolsCall {
		if notes.problems, err = g.checkOutput(r, entry, rules, result, clean); err != nil {
			return nil, nil, err
		}
	}
	clean = names.ExposeURIs(r.to.mount.Namespace, method, clean)
	if rules.MaxBytes > 0 && len(clean) > rules.MaxBytes && method == mcp.MethodToolsCall {
		if clean, err = g.fit(x, r, entry, rules, clean, &notes); err != nil {
			return nil, nil, err
		}
	}
	return clean, notes.member(), nil
}

// outputReady refuses a call of a tool whose answer could not be passed on,
// because it cannot be held against its output schema.
func (s *Snapshot) outputReady(r *Route, method string) error {
	if method != mcp.MethodToolsCall || s.outputs == nil || r.results().Output != OutputEnforce {
		return nil
	}
	schema := mcp.Lookup(r.item, "outputSchema")
	if !mcp.IsObject(schema) {
		return nil
	}
	if err := s.outputs.Ready(schema); err != nil {
		return refusal.UncheckedOutput(r.Exposed, err)
	}
	return nil
}

// checkOutput holds the structured content of a result against the schema that
// is listed for it, and returns what does not fit. The words are of the clean
// form, which holds no secrets.
func (g *Gateway) checkOutput(r *Route, entry *audit.Entry, rules *ResultRules, result, clean []byte) ([]string, error) {
	schema := mcp.Lookup(r.item, "outputSchema")
	checker := g.snapshot.Load().outputs
	if checker == nil || !mcp.IsObject(schema) || isError(result) {
		return nil, nil
	}
	problems, err := outputProblems(checker, schema, result)
	if problems == nil && err == nil {
		return nil, nil
	}
	if err == nil && !bytes.Equal(result, clean) {
		if problems, _ = outputProblems(checker, schema, clean); problems == nil {
			problems = []string{"structuredContent: what does not fit is not shown here"}
		}
	}
	if err != nil {
		problems = []string{"structuredContent: it cannot be checked, because " + err.Error()}
	}
	entry.OutputInvalid = true
	if rules.Output == OutputEnforce {
		return nil, refusal.InvalidOutput(r.Exposed, problems)
	}
	g.log.Warn("a tool answered with data that does not fit its own output schema",
		"server", r.Server, "tool", r.Original, "call", entry.CallID, "problems", len(problems))
	return problems, nil
}

// outputProblems returns what does not fit. A tool that lists a schema has to
// answer with something (2025-06-18 server/tools, Output Schema).
func outputProblems(checker OutputChecker, schema, result []byte) ([]string, error) {
	value := mcp.Lookup(result, "structuredContent")
	if value == nil {
		return []string{"structuredContent: is missing, and the tool lists an output schema"}, nil
	}
	return checker.CheckOutput(schema, value)
}

// resultNotes are what was done with a result, for its _meta.
type resultNotes struct {
	problems []string // of structured content
	bytes    int      // that the whole had; 0 for one that is whole
	limit    int
	leftOut  int    // bytes
	uri      string // where the whole is kept; empty for nowhere
}

// member returns the member of _meta that has the notes, nil without notes.
func (n *resultNotes) member() []byte {
	if n.problems == nil && n.bytes == 0 {
		return nil
	}
	var note []byte
	if n.problems != nil {
		note = append(note, `,"output":"invalid","problems":[`...)
		for i, p := range n.problems {
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
		note = strconv.AppendInt(append(note, `,"left_out":`...), int64(n.leftOut), 10)
	}
	if n.uri != "" {
		note = mcp.AppendQuote(append(note, `,"resource":`...), n.uri)
	}
	note[0] = '{'
	return append(append([]byte(`"`+ResultKey+`":`), note...), '}')
}
