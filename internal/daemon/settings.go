package daemon

import (
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
)

// ChangedSettings are the paths of the settings that differ, sorted.
func ChangedSettings(a, b *config.Toolgate) []string {
	left, right := reflect.ValueOf(*a), reflect.ValueOf(*b)
	var out []string
	var compare func(x, y reflect.Value, path string)
	compare = func(x, y reflect.Value, path string) {
		for i := range x.NumField() {
			name := x.Type().Field(i).Tag.Get("config")
			at := strings.TrimPrefix(path+"."+name, ".")
			switch {
			case name == "" || at == "servers":
			case x.Field(i).Kind() == reflect.Struct:
				compare(x.Field(i), y.Field(i), at)
			case config.Available(at) && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()):
				out = append(out, at)
			}
		}
	}
	compare(left, right, "")
	slices.Sort(out)
	return out
}
