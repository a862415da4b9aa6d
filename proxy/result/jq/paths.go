package jq

import (
	"errors"
	"math"
	"reflect"

	"github.com/itchyny/gojq"
)

// maxSlices is how many slices a path may have. Each of them copies what is put there.
const maxSlices = 4

// path refuses a path with keys that search or copy, and charges to go along it.
func (m *meter) path(path []any) error {
	if len(path) > maxDepth {
		return m.stop("a path in it is too long")
	}
	slices := 0
	for _, key := range path {
		switch key := key.(type) {
		case []any:
			return errors.New("an array is no key of a path here")
		case map[string]any:
			if slices++; slices > maxSlices {
				return errors.New("a path has too many slices")
			}
			if len(key) > 2 || !isPlain(key["start"]) || !isPlain(key["end"]) {
				return errors.New("a slice in a path has a start and an end")
			}
		}
	}
	return m.charge(sizeMember*int64(len(path)), 2*int64(len(path)))
}

// isPlain reports whether a value holds no others.
func isPlain(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// container is an array or an object in memory. A slice that begins where its array does
// is another one.
type container struct {
	at     uintptr
	length int64
}

// modify charges a change at the paths that may delete: afterwards all of the value is
// walked, and what it shares as often as it is there.
func (m *meter) modify(v any, paths []any) error {
	if len(paths) > 0 {
		if _, _, err := m.measure(v); err != nil {
			return err
		}
	}
	return m.touch(v, paths)
}

// touch charges what a change at the paths copies: every container on the way, once.
func (m *meter) touch(v any, paths []any) error {
	seen := map[container]bool{}
	for _, p := range paths {
		path, ok := p.([]any)
		if !ok {
			continue // gojq refuses it
		}
		if err := m.path(path); err != nil {
			return err
		}
		at := v
		for _, key := range path {
			var err error
			if at, err = m.down(at, key, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// down charges the copy of a value in which the key is changed, and returns what is at
// the key.
func (m *meter) down(v, key any, seen map[container]bool) (next any, err error) {
	if n := length(v); n > 0 && !isPlain(v) {
		c := container{reflect.ValueOf(v).Pointer(), n}
		if slice, _ := key.(map[string]any); slice != nil || !seen[c] {
			seen[c] = true
			err = m.charge(shallow(v)+sizeMember, 2)
		}
	}
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	switch key := key.(type) {
	case string:
		object, _ := v.(map[string]any)
		return object[key], nil
	case map[string]any:
		return part(list, key), nil
	}
	i, whole := asIndex(key)
	switch {
	case !whole || i < 0:
		if i += len(list); !whole || i < 0 {
			return nil, nil
		}
		return list[i], nil
	case i < len(list):
		return list[i], nil
	case v == nil || list != nil:
		return nil, m.charge(sizeValue*int64(i+1), 0)
	}
	return nil, nil // gojq refuses it
}

// part returns what a slice in a path takes of a list.
func part(list []any, slice map[string]any) []any {
	bound := func(v any, rounded func(float64) float64, otherwise int) int {
		f, ok := gojq.ToFloat64(v)
		if !ok || math.IsNaN(f) {
			return otherwise
		}
		if f = rounded(f); f < 0 {
			f += float64(len(list))
		}
		return int(min(max(f, 0), float64(len(list))))
	}
	from := bound(slice["start"], math.Floor, 0)
	return list[from:max(from, bound(slice["end"], math.Ceil, len(list)))]
}
