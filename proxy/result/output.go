package result

import (
	"bytes"

	"github.com/toolgate/toolgate/internal/mcp"
)

// CheckOutput holds the structured content of a result of a tool, as its server
// sent it, against the output schema, and returns what does not fit; nil when
// all does, or when there is nothing to check. The lines are of the clean form of
// the result, which holds no secrets. What cannot be checked does not fit. A nil
// checker checks nothing.
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
			problems = []string{"structuredContent: what does not fit is not shown here"}
		}
	}
	if err != nil {
		problems = []string{"structuredContent: it cannot be checked, because " + err.Error()}
	}
	return problems
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

func isError(result []byte) bool {
	return string(mcp.Lookup(result, "isError")) == "true"
}
