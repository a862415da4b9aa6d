package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
)

// setting is one value of the configuration in force.
type setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin,omitempty"`
}

// settingsTable lists every setting of this version. Secrets print as "[redacted]".
func settingsTable(c *config.Config, origin bool) table {
	var all []setting
	collect(reflect.ValueOf(c.Toolgate), "", &all)
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
			all = append(all, setting{Path: base + "." + v[0], Value: v[1]})
		}
	}
	slices.SortFunc(all, func(a, b setting) int { return strings.Compare(a.Path, b.Path) })
	t := table{header: []string{"SETTING", "VALUE"}}
	if origin {
		t.header = append(t.header, "ORIGIN")
	}
	for i := range all {
		row := []string{all[i].Path, all[i].Value}
		if origin {
			all[i].Origin = c.Origin(all[i].Path).String()
			row = append(row, all[i].Origin)
		}
		t.rows = append(t.rows, row)
		t.names = append(t.names, all[i].Path)
	}
	t.data = map[string]any{"file": c.Path, "settings": all}
	return t
}

// collect walks the structs of the toolgate section by their config tags.
func collect(v reflect.Value, path string, out *[]setting) {
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
		if config.Available(at) {
			value := render(f.Interface())
			if at == "store" || at == "redis" {
				value = hidden.URL(value) // with a password
			}
			*out = append(*out, setting{Path: at, Value: value})
		}
	}
}

func render(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case time.Duration:
		return v.String()
	case fmt.Stringer:
		return v.String()
	}
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return ""
	}
	return string(text)
}
