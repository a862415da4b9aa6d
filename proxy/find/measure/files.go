package measure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/find"
)

// maxLine is the longest line of a file in bytes.
const maxLine = 4 << 20

// tool is a line of a catalog.
type tool struct {
	Server      string          `json:"server"`
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations struct {
		Title        string `json:"title"`
		ReadOnlyHint bool   `json:"readOnlyHint"`
	} `json:"annotations"`
}

// ReadTools reads a catalog, one tool a line:
//
//	{"server": "whois", "name": "whois_domain", "title": "...", "description": "...",
//	 "inputSchema": {...}, "annotations": {...}}
//
// Empty lines are skipped. An error names the line.
func ReadTools(r io.Reader) ([]find.Item, error) {
	var items []find.Item
	err := lines(r, func(line []byte) error {
		var t tool
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		if t.Name == "" {
			return errors.New("a tool needs a name")
		}
		if t.Title == "" {
			t.Title = t.Annotations.Title
		}
		items = append(items, find.Item{
			Kind: mcp.Tool, Name: t.Name, Server: t.Server, Title: t.Title, Description: t.Description,
			Schema: t.InputSchema, ReadOnly: t.Annotations.ReadOnlyHint,
		})
		return nil
	})
	return items, err
}

// ReadQueries reads queries, one [Query] a line. Empty lines are skipped. An error names
// the line.
func ReadQueries(r io.Reader) ([]Query, error) {
	var queries []Query
	err := lines(r, func(line []byte) error {
		var q Query
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		if q.Query == "" || len(q.Relevant) == 0 && len(q.Needs) == 0 {
			return errors.New(`a case needs "query" and "relevant"`)
		}
		queries = append(queries, q)
		return nil
	})
	return queries, err
}

// lines calls read with each line that is not empty.
func lines(r io.Reader, read func(line []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		if len(s.Bytes()) == 0 {
			continue
		}
		if err := read(s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}
