package retrieval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Case is a query with the tools that answer it. A tool is named as clients see it, or
// as SERVER/NAME.
type Case struct {
	ID    string `json:"id,omitempty"`
	Query string `json:"query"`
	// Relevant are all tools that help.
	Relevant []string `json:"relevant"`
	// Needs are what the query needs. One tool of each need is enough. Without needs,
	// each relevant tool is one of its own.
	Needs [][]string `json:"needs,omitempty"`
	// Kind groups the cases that are reported together.
	Kind string `json:"kind,omitempty"`
	// Held cases are never used to choose weights.
	Held bool `json:"held,omitempty"`
}

// AllNeeds returns the needs of the case.
func (c *Case) AllNeeds() [][]string {
	if len(c.Needs) > 0 {
		return c.Needs
	}
	all := make([][]string, len(c.Relevant))
	for i, name := range c.Relevant {
		all[i] = []string{name}
	}
	return all
}

// Limits of the files that are read.
const (
	maxLine  = 4 << 20
	maxLines = 200_000
)

// ReadCases reads a file with a case on each line, as JSON. The error names the file and
// the line.
func ReadCases(path string) ([]Case, error) {
	var all []Case
	ids := map[string]bool{}
	err := lines(path, func(line []byte) error {
		var c Case
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		switch {
		case strings.TrimSpace(c.Query) == "":
			return errors.New(`"query" is missing`)
		case len(c.Relevant) == 0 && len(c.Needs) == 0:
			return errors.New(`"relevant" must name the tools that answer the query`)
		case slices.ContainsFunc(c.Needs, func(need []string) bool { return len(need) == 0 }):
			return errors.New(`each of "needs" must name at least one tool`)
		case c.ID != "" && ids[c.ID]:
			return fmt.Errorf("the id %q is used by an earlier line", c.ID)
		}
		ids[c.ID] = true
		all = append(all, c)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no cases; write one JSON object a line, such as "+
			`{"query":"list open bugs","relevant":["github__list_issues"]}`, path)
	}
	return all, err
}

// Pair is a past search and the tool that was called after it.
type Pair struct {
	Query string `json:"query"`
	// Tool is named as in a [Case].
	Tool string `json:"tool"`
	// Caller tells callers apart; empty is a caller as well.
	Caller string `json:"caller,omitempty"`
}

// ReadPairs reads a file with a pair on each line, as JSON. The error names the file and
// the line.
func ReadPairs(path string) ([]Pair, error) {
	var all []Pair
	err := lines(path, func(line []byte) error {
		var p Pair
		if err := json.Unmarshal(line, &p); err != nil {
			return err
		}
		if strings.TrimSpace(p.Query) == "" || p.Tool == "" {
			return errors.New(`a past search must have a "query" and the "tool" that was called`)
		}
		all = append(all, p)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf(`%s has no past searches; write one JSON object a line, such as {"query":"list open bugs","tool":"github__list_issues","caller":"ci"}`, path)
	}
	return all, err
}

// Tool is a tool of a catalog.
type Tool struct {
	Server      string          `json:"server"`
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Annotations *Annotations    `json:"annotations,omitempty"`
}

// Annotations are the hints of a tool. Hints that are not given are nil.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
}

// Key is the name of the tool in cases: SERVER/NAME.
func (t *Tool) Key() string { return t.Server + "/" + t.Name }

// ReadCatalog reads a file with a tool on each line, as JSON. The error names the file and
// the line.
func ReadCatalog(path string) ([]Tool, error) {
	var all []Tool
	keys := map[string]bool{}
	err := lines(path, func(line []byte) error {
		var t Tool
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		if t.Server == "" || t.Name == "" {
			return errors.New(`a tool must have a "server" and a "name"`)
		}
		if keys[t.Key()] {
			return fmt.Errorf("%s is on an earlier line", t.Key())
		}
		keys[t.Key()] = true
		all = append(all, t)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no tools", path)
	}
	return all, err
}

// lines calls use with each line of a file that is not empty.
func lines(path string, use func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for in.Scan() {
		if n++; n > maxLines {
			return fmt.Errorf("%s has more than %d lines", path, maxLines)
		}
		line := in.Bytes()
		if len(strings.TrimSpace(string(line))) == 0 {
			continue
		}
		if err := use(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", path, n+1, err)
	}
	return nil
}
