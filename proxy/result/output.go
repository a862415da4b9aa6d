package result

import (
	"bytes"

	"github.com/toolgate/toolgate/internal/mcp"
)

// CheckOutput checks the structured content of a tool's result against the output
// schema and returns the problems; nil when there are none, or nothing to check. It
// checks what the server sent, but the returned lines are about clean, the result
// without secrets. Content that cannot be checked is a problem. A nil checker checks
// nothing.
func CheckOutput(checker OutputChecker, schema, sent, clean []byte) (problems []string) {
	if checker == nil || !mcp.IsObject(schema) || isError(sent) {
		return nil
	}
	problems, err := outputProblems(checker, schema, sent)
	if problems == nil && err == nil {
		return nil
	}
	if err == nil && !bytes.Equal(sent, clean) {
		if problems, _ = outputProblems(checker, schema, clean); problems == nil {
			problems = []string{"structuredContent: the problems are not shown here"}
		}
	}
	if err != nil {
		problems = []string{"structuredContent: it cannot be checked, because " + err.Error()}
	}
	return problems
}

// outputProblems returns the problems of a result. A tool that lists a schema must
// return structured content (2025-06-18 server/tools, Output Schema).
func outputProblems(checker OutputChecker, schema, result []byte) ([]string, error) {
	value := mcp.Lookup(result, "structuredContent")
	if value == nil {
		return []string{"structuredContent: is missing, and the tool lists an output schema"}, nil
	}
	return checker.CheckOutput(schema, value)
}

func isError(result []byte) bool {
	return string(mcp.Lookup(result, "isError")) == "true"
}
