package form

import (
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// typeOf returns the one type that a value may have besides null, in the words of JSON
// Schema; empty where there are several or any.
func typeOf(parts [][]byte) string {
	raw := keyword(parts, "type")
	if one, err := mcp.Unquote(raw); err == nil {
		return one
	}
	found := ""
	for e := range mcp.Elements(raw) {
		name, err := mcp.Unquote(e.Of(raw))
		switch {
		case err != nil, found != "" && name != "null":
			return ""
		case name != "null":
			found = name
		}
	}
	if found == "" && raw == nil && mcp.IsObject(keyword(parts, "properties")) {
		return "object"
	}
	return found
}

// onlyBranch returns the only alternative of a value that is not null; nil for none.
func (b *builder) onlyBranch(parts [][]byte) []byte {
	for _, key := range []string{"anyOf", "oneOf"} {
		list := keyword(parts, key)
		var only []byte
		n := 0
		for e := range mcp.Elements(list) {
			branch := e.Of(list)
			if name, _ := mcp.LookupString(branch, "type"); name != "null" {
				only, n = branch, n+1
			}
		}
		if n == 1 {
			return only
		}
	}
	return nil
}

// optionsOf returns the values of which one is to be chosen; nil where there are none, or
// too many. branches tells that each alternative may be one of the values.
func optionsOf(parts [][]byte, kind string, branches bool) []Option {
	var all []Option
	add := func(raw []byte, title string) {
		label, err := mcp.Unquote(raw)
		if err != nil {
			label = string(raw)
		}
		if title != "" && title != label {
			label = title + " (" + label + ")"
		}
		all = append(all, Option{Label: label, Index: strconv.Itoa(len(all)), raw: raw})
	}
	titles := keyword(parts, "enumNames")
	var named []string
	for e := range mcp.Elements(titles) {
		title, _ := mcp.Unquote(e.Of(titles))
		named = append(named, title)
	}
	values := keyword(parts, "enum")
	for e := range mcp.Elements(values) {
		title := ""
		if len(all) < len(named) {
			title = named[len(all)]
		}
		add(e.Of(values), title)
	}
	if only := keyword(parts, "const"); only != nil && values == nil {
		add(only, "")
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		list := keyword(parts, key)
		for e := range mcp.Elements(list) {
			value := mcp.Lookup(e.Of(list), "const")
			if name, _ := mcp.LookupString(e.Of(list), "type"); !branches || value == nil && name == "null" {
				continue
			}
			if value == nil { // an alternative that is not one value
				return nil
			}
			title, _ := mcp.LookupString(e.Of(list), "title")
			add(value, title)
		}
	}
	if kind == "boolean" && len(all) == 0 {
		add([]byte("true"), "")
		add([]byte("false"), "")
	}
	if len(all) > maxOptions {
		return nil
	}
	return all
}

// wants says in words what is to be written.
func wants(f *Field, kind string, parts [][]byte) string {
	number := func(name string) string {
		const most = 30
		raw := keyword(parts, name)
		if len(raw) == 0 || len(raw) > most || raw[0] == '"' {
			return ""
		}
		return string(raw)
	}
	var words []string
	switch f.Kind {
	case Number:
		words = append(words, map[string]string{"integer": "a whole number"}[kind])
		if words[0] == "" {
			words[0] = "a number"
		}
		for _, of := range []struct{ name, text string }{{"minimum", "at least"}, {"maximum", "at most"}} {
			if n := number(of.name); n != "" {
				words = append(words, of.text+" "+n)
			}
		}
	case Text, Long:
		if format := word(parts, "format"); format != "" {
			words = append(words, format)
		}
		for _, of := range []struct{ name, text string }{{"minLength", "characters at least"}, {"maxLength", "characters at most"}} {
			if n := number(of.name); n != "" {
				words = append(words, n+" "+of.text)
			}
		}
		if pattern := word(parts, "pattern"); pattern != "" {
			words = append(words, "pattern "+pattern)
		}
	case File:
		words = append(words, "the content of a file")
	case JSON:
		words = append(words, "JSON")
		if kind != "" {
			words = append(words, kind)
		}
	case Choice, Choices, Object, List:
		for _, of := range []struct{ name, text string }{{"minItems", "at least"}, {"maxItems", "at most"}} {
			if n := number(of.name); n != "" {
				words = append(words, of.text+" "+n)
			}
		}
	}
	return strings.Join(words, ", ")
}
