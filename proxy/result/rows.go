package result

import (
	"slices"

	"github.com/toolgate/toolgate/internal/mcp"
)

// rowsAt most percent of the bytes of a list may be those of its table.
const rowsAt = 85

// tabled returns a value with its lists of equal objects as tables, {"columns": [...],
// "rows": [[...], ...]}, wherever a table is at least 15 % smaller. some is false where
// there is no such list. A nil value stays nil.
func tabled(value []byte) (out []byte, some bool) {
	switch {
	case mcp.IsObject(value):
		out = append(out, '{')
		for m := range mcp.Members(value) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			inner, changed := tabled(m.Value.Of(value))
			some = some || changed
			out = append(append(append(out, m.Key(value)...), ':'), inner...)
		}
		out = append(out, '}')
	case mcp.IsArray(value):
		if table := table(value); table != nil {
			return table, true
		}
		out = append(out, '[')
		for e := range mcp.Elements(value) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			inner, changed := tabled(e.Of(value))
			some = some || changed
			out = append(out, inner...)
		}
		out = append(out, ']')
	}
	if !some {
		return value, false
	}
	return out, true
}

// table returns a list as a table; nil where its elements are no objects with the same
// members, or a table is not smaller enough.
func table(list []byte) []byte {
	var columns [][]byte
	out := []byte(`{"columns":[`)
	count := 0
	for e := range mcp.Elements(list) {
		object := e.Of(list)
		if !mcp.IsObject(object) {
			return nil
		}
		var cells [][]byte
		for m := range mcp.Members(object) {
			key := m.Key(object)
			at := len(cells)
			if count == 0 {
				columns = append(columns, key)
			} else if at >= len(columns) || string(columns[at]) != string(key) {
				at = slices.IndexFunc(columns, func(c []byte) bool { return string(c) == string(key) })
			}
			if at < 0 {
				return nil
			}
			for len(cells) <= at {
				cells = append(cells, nil)
			}
			cells[at], _ = tabled(m.Value.Of(object))
		}
		if len(columns) == 0 || len(cells) != len(columns) || slices.ContainsFunc(cells, func(c []byte) bool { return c == nil }) {
			return nil
		}
		if count == 0 {
			out = append(join(out, columns), `],"rows":[`...)
		} else {
			out = append(out, ',')
		}
		out = append(join(append(out, '['), cells), ']')
		count++
	}
	if out = append(out, "]}"...); count < 2 || len(out)*100 > len(list)*rowsAt {
		return nil
	}
	return out
}

func join(out []byte, values [][]byte) []byte {
	for i, value := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return out
}
