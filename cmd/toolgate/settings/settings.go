// Package settings lists and explains the settings of a configuration for a person.
package settings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
)

// Setting is one value of the configuration in force.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"` // "[redacted]" for a secret that is set
	Origin string `json:"origin,omitempty"`
}

// Of returns the settings of a configuration that are not defaults, or all, sorted by path.
// Each server has a few lines that say what it is.
func Of(c *config.Config, all bool) []Setting {
	var out []Setting
	collect(reflect.ValueOf(c.Toolgate), "", &out)
	if !all {
		out = slices.DeleteFunc(out, func(s Setting) bool { return c.Origin(s.Path).Kind == tree.OriginDefault })
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		base := "servers." + s.Key
		target := hidden.URL(s.Written.URL)
		if s.Written.Command != "" {
			target = strings.Join(append([]string{s.Written.Command}, s.Written.Args...), " ")
		}
		for _, v := range [][2]string{
			{"namespace", fmt.Sprintf("%q", s.Namespace)},
			{"transport", string(s.Transport)},
			{"target", target},
			{"protocol", string(s.Protocol)},
			{"isolation", string(s.Isolation)},
			{"timeouts", fmt.Sprintf("start %v, list %v, call %v, hard %v", s.Timeouts.Start, s.Timeouts.List, s.Timeouts.Call, s.Timeouts.Hard)},
		} {
			out = append(out, Setting{Path: base + "." + v[0], Value: v[1]})
		}
	}
	slices.SortFunc(out, func(a, b Setting) int { return strings.Compare(a.Path, b.Path) })
	for i := range out {
		out[i].Origin = c.Origin(out[i].Path).String()
	}
	return out
}

// collect walks the structs of the toolgate section by their config tags.
func collect(v reflect.Value, path string, out *[]Setting) {
	for _, field := range decode.Fields(v.Type()) {
		name := field.Tag.Get("config")
		if name == "servers" {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		f := v.FieldByIndex(field.Index)
		if f.Kind() == reflect.Struct {
			collect(f, at, out)
			continue
		}
		value := render(f.Interface())
		if at == "store" || at == "redis" {
			value = hidden.URL(value) // with a password
		}
		*out = append(*out, Setting{Path: at, Value: value})
	}
}

// render returns a value as a line of text; empty where there is none.
func render(v any) string {
	if s, ok := v.(secret.Text); ok && s.Reveal() == "" {
		return ""
	}
	text, err := json.Marshal(decode.Value(v))
	if err != nil || string(text) == "null" {
		return ""
	}
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		return plain
	}
	return string(text)
}
