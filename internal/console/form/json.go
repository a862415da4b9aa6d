package form

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// JSON returns the object that was written into a form. What cannot be read, and what is
// missing, is put beside its field; ok is false then.
func (f *Form) JSON() (object []byte, ok bool) {
	m := &maker{ok: true}
	object = m.members(f.Fields, "")
	return object, m.ok
}

// maker makes JSON of fields.
type maker struct{ ok bool }

// wrong puts a problem beside a field.
func (m *maker) wrong(f *Field, problem string) {
	m.ok = false
	f.Problems = append(f.Problems, problem)
}

// members returns the object of some fields.
func (m *maker) members(fields []Field, at string) []byte {
	object := []byte("{")
	for i := range fields {
		f := &fields[i]
		token := f.pointer[strings.LastIndexByte(f.pointer, '/')+1:]
		value := m.value(f, at+"/"+token)
		switch {
		case value == nil && f.Required && len(f.Problems) == 0:
			m.wrong(f, "this has to be filled in")
		case value != nil:
			if len(object) > 1 {
				object = append(object, ',')
			}
			name := mcp.PointerName(token)
			object = append(append(append(object, mcp.Quote(name)...), ':'), value...)
		}
	}
	return append(object, '}')
}

// value returns the JSON of a field; nil for one that is left empty.
func (m *maker) value(f *Field, at string) []byte {
	f.at = at
	switch f.Kind {
	case File:
		return m.file(f)
	case Text, Long:
		if f.Text == "" {
			return nil
		}
		return mcp.Quote(strings.ReplaceAll(strings.ToValidUTF8(f.Text, "\uFFFD"), "\r\n", "\n")) // a form sends line breaks as CR LF
	case Number, JSON:
		return m.written(f)
	case Choice, Choices:
		return chosen(f)
	case Object:
		if !f.Required && untouched(f.Fields) {
			return nil
		}
		return m.members(f.Fields, at)
	case List:
		var all [][]byte
		for i := range f.Fields {
			if row := &f.Fields[i]; !untouched([]Field{*row}) {
				if value := m.value(row, at+"/"+strconv.Itoa(len(all))); value != nil {
					all = append(all, value)
				}
			}
		}
		if len(all) == 0 && !f.Required {
			return nil
		}
		return slices.Concat([]byte("["), slices.Concat(joined(all)...), []byte("]"))
	}
	return nil
}

// file returns the text of a file as it was sent, or its base64.
func (m *maker) file(f *Field) []byte {
	if f.Text == "" {
		return nil
	}
	if f.base64 {
		return mcp.Quote(f.Text)
	}
	content, err := base64.StdEncoding.DecodeString(f.Text)
	if err != nil {
		m.wrong(f, "choose the file again")
		return nil
	}
	return mcp.Quote(strings.ToValidUTF8(string(content), "\uFFFD"))
}

// joined returns values with commas between them.
func joined(values [][]byte) [][]byte {
	var all [][]byte
	for i, v := range values {
		if i > 0 {
			all = append(all, []byte(","))
		}
		all = append(all, v)
	}
	return all
}

// written returns what was written as JSON.
func (m *maker) written(f *Field) []byte {
	text := []byte(strings.TrimSpace(f.Text))
	switch {
	case len(text) == 0:
		return nil
	case mcp.Validate(text, mcp.Limits{}) != nil && f.Kind == JSON:
		m.wrong(f, `write JSON, such as {"name": "value"}, ["a", "b"] or "text"`)
		return nil
	case f.Kind == Number && (mcp.Validate(text, mcp.Limits{}) != nil || text[0] != '-' && (text[0] < '0' || text[0] > '9')):
		m.wrong(f, "write a number, such as 3")
		return nil
	}
	return text
}

// chosen returns the options that were chosen.
func chosen(f *Field) []byte {
	var all [][]byte
	for i := range f.Options {
		if f.Options[i].Chosen {
			all = append(all, f.Options[i].raw)
		}
	}
	switch {
	case f.Kind == Choice && len(all) > 0:
		return all[0]
	case f.Kind == Choices && (len(all) > 0 || f.Required):
		return slices.Concat([]byte("["), slices.Concat(joined(all)...), []byte("]"))
	}
	return nil
}

// untouched tells whether nothing was written into any of some fields.
func untouched(fields []Field) bool {
	return !slices.ContainsFunc(fields, func(f Field) bool {
		return f.Text != "" || slices.ContainsFunc(f.Options, func(o Option) bool { return o.Chosen }) || !untouched(f.Fields)
	})
}

// Mark puts a problem beside the field of a value in the JSON that was made, or the nearest
// one around it.
func (f *Form) Mark(pointer, problem string) {
	if !mark(f.Fields, pointer, problem) {
		f.Problems = append(f.Problems, problem)
	}
}

func mark(fields []Field, pointer, problem string) bool {
	for i := range fields {
		f := &fields[i]
		if f.at == "" || pointer != f.at && !strings.HasPrefix(pointer, f.at+"/") {
			continue
		}
		if !mark(f.Fields, pointer, problem) {
			f.Problems = append(f.Problems, problem)
		}
		return true
	}
	return false
}

// Uploads are the fields that take files, with the names of their inputs.
func (f *Form) Uploads() []*Field {
	var all []*Field
	var walk func(fields []Field)
	walk = func(fields []Field) {
		for i := range fields {
			if fields[i].Kind == File {
				all = append(all, &fields[i])
			}
			walk(fields[i].Fields)
		}
	}
	walk(f.Fields)
	return all
}

// Lists are the lists of a form.
func (f *Form) Lists() []*Field {
	var all []*Field
	var walk func(fields []Field)
	walk = func(fields []Field) {
		for i := range fields {
			if fields[i].Kind == List {
				all = append(all, &fields[i])
			}
			walk(fields[i].Fields)
		}
	}
	walk(f.Fields)
	return all
}

// SetFile writes the content of a file into a field.
func (f *Field) SetFile(content []byte) { f.Text = base64.StdEncoding.EncodeToString(content) }

// Size is about how many bytes a file has.
func (f *Field) Size() int64 { return int64(base64.StdEncoding.DecodedLen(len(f.Text))) }

// Holds reports whether a form of a schema has all of a JSON object: the members that the
// schema does not list, and empty values, have no place in it.
func Holds(schema, object []byte) bool {
	again, ok := New(schema, "", nil, object).JSON()
	return ok && mcp.Hash(again) == mcp.Hash(object)
}
