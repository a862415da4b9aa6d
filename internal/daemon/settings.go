package daemon

import (
	"reflect"
	"slices"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
)

// ChangedSettings are the paths of the settings that differ, sorted.
func ChangedSettings(a, b *config.Toolgate) []string {
	left, right := reflect.ValueOf(*a), reflect.ValueOf(*b)
	var out []string
	var compare func(x, y reflect.Value, path string)
	compare = func(x, y reflect.Value, path string) {
		for _, f := range decode.Fields(x.Type()) {
			at := tree.Join(path, f.Tag.Get("config"))
			left, right := x.FieldByIndex(f.Index), y.FieldByIndex(f.Index)
			switch {
			case at == "servers":
			case left.Kind() == reflect.Struct:
				compare(left, right, at)
			case config.Available(at) && !reflect.DeepEqual(left.Interface(), right.Interface()):
				out = append(out, at)
			}
		}
	}
	compare(left, right, "")
	slices.Sort(out)
	return out
}
