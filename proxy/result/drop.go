package result

import (
	"errors"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Path leads to members of a value: names, * for any member or element, and ** for any
// number of those.
type Path []string

// maxPath is how many parts a path may have.
const maxPath = 16

// ParsePath reads a path such as items.*.url or **.avatar_url.
func ParsePath(text string) (Path, error) {
	path := Path(strings.Split(text, "."))
	switch {
	case len(path) > maxPath:
		return nil, errors.New("it has too many parts")
	case slices.Contains(path, ""):
		return nil, errors.New("a part of it is empty")
	case path[len(path)-1] == "**":
		return nil, errors.New("after ** comes the name of a member")
	}
	return path, nil
}

// without returns a value without the members at the paths. some is false where it has
// none of them. A nil value stays nil.
func without(value []byte, paths []Path) (out []byte, some bool) {
	if value == nil {
		return nil, false
	}
	d := dropper{out: make([]byte, 0, len(value))}
	d.value(value, paths)
	if !d.some {
		return value, false
	}
	return d.out, true
}

// dropper copies a value without some of its members.
type dropper struct {
	out  []byte
	some bool // was left out
}

func (d *dropper) value(value []byte, paths []Path) {
	open := byte('{')
	switch {
	case len(paths) == 0:
		d.out = append(d.out, value...)
		return
	case mcp.IsObject(value):
		d.out = append(d.out, open)
		for m := range mcp.Members(value) {
			key, _ := mcp.Unquote(m.Key(value))
			d.part(append(slices.Clone(m.Key(value)), ':'), m.Value.Of(value), key, paths, open)
		}
		d.out = append(d.out, '}')
	case mcp.IsArray(value):
		open = '['
		d.out = append(d.out, open)
		for e := range mcp.Elements(value) {
			d.part(nil, e.Of(value), "", paths, open)
		}
		d.out = append(d.out, ']')
	default:
		d.out = append(d.out, value...)
	}
}

// part copies a member or an element, unless a path ends at it.
func (d *dropper) part(before, value []byte, key string, paths []Path, open byte) {
	var below []Path
	for _, path := range paths {
		if path[0] == "**" {
			for path[1] == "**" { // another says the same
				path = path[1:]
			}
			below = append(below, path)
			path = path[1:]
		}
		if path[0] != "*" && (path[0] != key || open == '[') {
			continue
		}
		if len(path) == 1 {
			d.some = true
			return
		}
		below = append(below, path[1:])
	}
	if d.out[len(d.out)-1] != open {
		d.out = append(d.out, ',')
	}
	d.out = append(d.out, before...)
	d.value(value, below)
}
