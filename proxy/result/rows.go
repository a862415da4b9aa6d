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
		o := tabledObject(value)
		return o.whole, o.some
	case mcp.IsArray(value):
		return tabledList(value)
	}
	return value, false
}

// tabledList is [tabled] for a list. Every element is looked at once, for the table and
// for the list that it stays otherwise.
func tabledList(list []byte) (out []byte, some bool) {
	var objects []object
	var elements [][]byte
	for e := range mcp.Elements(list) {
		element := e.Of(list)
		if mcp.IsObject(element) {
			o := tabledObject(element)
			objects, elements, some = append(objects, o), append(elements, o.whole), some || o.some
			continue
		}
		inner, changed := tabled(element)
		elements, some = append(elements, inner), some || changed
	}
	if len(objects) == len(elements) {
		if table := table(objects, len(list)); table != nil {
			return table, true
		}
	}
	if !some {
		return list, false
	}
	return append(join([]byte{'['}, elements), ']'), true
}

// object is an object with tables inside.
type object struct {
	keys, values [][]byte
	whole        []byte // it itself
	some         bool   // there are tables
}

func tabledObject(value []byte) (o object) {
	for m := range mcp.Members(value) {
		inner, changed := tabled(m.Value.Of(value))
		o.keys, o.values, o.some = append(o.keys, m.Key(value)), append(o.values, inner), o.some || changed
	}
	if o.whole = value; o.some {
		out := []byte{'{'}
		for i, key := range o.keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, key...), ':'), o.values[i]...)
		}
		o.whole = append(out, '}')
	}
	return o
}

// table returns objects as a table; nil where they do not have the same members, or a
// table is not smaller enough than the list of them, which has size bytes.
func table(objects []object, size int) []byte {
	if len(objects) < 2 || len(objects[0].keys) == 0 {
		return nil
	}
	columns := objects[0].keys
	out := append(join([]byte(`{"columns":[`), columns), `],"rows":[`...)
	for count, o := range objects {
		if len(o.keys) != len(columns) {
			return nil
		}
		cells := make([][]byte, len(columns))
		for i, key := range o.keys {
			at := i
			if string(columns[at]) != string(key) {
				at = slices.IndexFunc(columns, func(c []byte) bool { return string(c) == string(key) })
			}
			if at < 0 || cells[at] != nil {
				return nil
			}
			cells[at] = o.values[i]
		}
		if count > 0 {
			out = append(out, ',')
		}
		out = append(join(append(out, '['), cells), ']')
	}
	if out = append(out, "]}"...); len(out)*100 > size*rowsAt {
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
