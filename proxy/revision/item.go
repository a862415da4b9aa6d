package revision

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
)

// Index numbers the revisions whose lists differ, oldest first.
type Index uint8

const (
	rev20241105 Index = iota
	rev20250326
	rev20250618
	rev20251125
	revModern
	Count // number of revisions
)

// Versions are the revisions by index.
var Versions = [Count]mcp.Version{
	mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728,
}

// Of returns the revision of the lists for a version. Versions are ordered by date,
// unknown ones included.
func Of(version mcp.Version) Index {
	for rev := range revModern {
		if version < Versions[rev+1] {
			return rev
		}
	}
	return revModern
}

// Item returns a listed item as a client of a revision can take it. A client that
// validates lists against the schema of its revision loses the whole list for one
// invalid item. A member that the revision defines with another type is converted if
// possible, else left out. A member of a later revision is left out, because clients of
// the first revisions refuse unknown members. The annotations of a tool, _meta, and
// members that no revision defines stay.
//
// A modern client gets the bytes of the server without execution.taskSupport: that
// belongs to 2025-11-25 alone, like the tasks that it is about. The item is not
// modified; if nothing changes, the same bytes are returned. Item is idempotent.
func Item(version mcp.Version, kind mcp.Kind, item []byte) []byte {
	if version.Era() == mcp.Modern {
		if kind == mcp.Tool {
			return WithoutTaskSupport(item)
		}
		return item
	}
	out := item
	switch kind {
	case mcp.Tool:
		if mcp.LookupSpan(out, "inputSchema").Absent() {
			out = mcp.SetMember(out, "inputSchema", anyObject)
		}
		if version >= mcp.V20250326 && version < mcp.V20250618 {
			out = titleAsAnnotation(out)
		}
	case mcp.NoKind:
		return item
	case mcp.Prompt: // has nothing to add
	case mcp.Resource, mcp.Template:
		if key := mcp.Lookup(out, kind.KeyMember()); isString(key) && !isString(mcp.Lookup(out, "name")) {
			out = mcp.SetMember(out, "name", key)
		}
	}
	if out = itemForms[kind](version, out); out == nil {
		return item // not an object
	}
	return out
}

// WithoutTaskSupport returns a tool without its execution.taskSupport.
func WithoutTaskSupport(tool []byte) []byte {
	execution := mcp.Lookup(tool, "execution")
	left := mcp.RemoveMember(execution, "taskSupport")
	if len(left) == len(execution) {
		return tool
	}
	for range mcp.Members(left) {
		return mcp.SetMember(tool, "execution", left)
	}
	return mcp.RemoveMember(tool, "execution")
}

// titleAsAnnotation moves the title of a tool to where 2025-03-26 has it.
func titleAsAnnotation(tool []byte) []byte {
	title, annotations := mcp.Lookup(tool, "title"), mcp.Lookup(tool, "annotations")
	if !mcp.IsObject(annotations) {
		annotations = nil
	}
	if !isString(title) || isString(mcp.Lookup(annotations, "title")) {
		return tool
	}
	return mcp.SetMember(tool, "annotations", mcp.SetMember(annotations, "title", title))
}

// form converts a value to a revision: it returns the same bytes when nothing changes,
// nil when the value cannot be converted.
type form func(version mcp.Version, value []byte) []byte

// formMember is a member of an object, with the first legacy revision that defines it,
// empty for all, and its form.
type formMember struct {
	name     string
	since    mcp.Version
	form     form
	required bool
}

// objectForm is the form of an object that may have other members too. Members that
// cannot be converted are left out, unless they are required.
func objectForm(members ...formMember) form {
	return func(version mcp.Version, value []byte) []byte {
		if !mcp.IsObject(value) {
			return nil
		}
		for i := range members {
			m := &members[i]
			was := mcp.Lookup(value, m.name)
			var is []byte
			if was != nil && version >= m.since {
				is = m.form(version, was)
			}
			switch {
			case is == nil && m.required:
				return nil
			case is == nil && was != nil:
				value = mcp.RemoveMember(value, m.name)
			case !bytes.Equal(is, was):
				value = mcp.SetMember(value, m.name, is)
			}
		}
		return value
	}
}

// listForm is the form of an array. Elements that cannot be converted are left out.
func listForm(element form) form {
	return func(version mcp.Version, value []byte) []byte {
		if !mcp.IsArray(value) {
			return nil
		}
		out, same := []byte{'['}, true
		for e := range mcp.Elements(value) {
			was := e.Of(value)
			is := element(version, was)
			same = same && is != nil && bytes.Equal(is, was)
			if is == nil {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, is...)
		}
		if same {
			return value
		}
		return append(out, ']')
	}
}

// scalarForm is the form of a value that is either valid or left out.
func scalarForm(fits func(value []byte) bool) form {
	return func(_ mcp.Version, value []byte) []byte {
		if fits(value) {
			return value
		}
		return nil
	}
}

func wordForm(words ...string) form {
	return scalarForm(func(value []byte) bool {
		word, err := mcp.Unquote(value)
		return err == nil && slices.Contains(words, word)
	})
}

func isString(value []byte) bool  { return len(value) > 0 && value[0] == '"' }
func isBoolean(value []byte) bool { return string(value) == "true" || string(value) == "false" }

func isInteger(value []byte) bool {
	digits := bytes.TrimPrefix(value, []byte("-"))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0
}

// isShare reports whether a value is a number from 0 to 1.
func isShare(value []byte) bool {
	n, err := strconv.ParseFloat(string(value), 64)
	return err == nil && n >= 0 && n <= 1
}

// The forms of the legacy revisions. Comments give their names in the schemas.
var (
	textForm    = scalarForm(isString)
	booleanForm = scalarForm(isBoolean)
	metaMember  = formMember{name: "_meta", form: scalarForm(mcp.IsObject)}
	iconsMember = formMember{name: "icons", since: mcp.V20251125, form: listForm(objectForm( // Icon
		formMember{name: "src", form: textForm, required: true},
		formMember{name: "mimeType", form: textForm},
		formMember{name: "sizes", form: listForm(textForm)},
		formMember{name: "theme", form: wordForm("light", "dark")},
	))}
	titleMember       = formMember{name: "title", since: mcp.V20250618, form: textForm}
	descriptionMember = formMember{name: "description", form: textForm}
	mimeTypeMember    = formMember{name: "mimeType", form: textForm}
	annotationsMember = formMember{name: "annotations", form: objectForm( // Annotations
		formMember{name: "audience", form: listForm(wordForm("user", "assistant"))},
		formMember{name: "priority", form: scalarForm(isShare)},
		formMember{name: "lastModified", since: mcp.V20250618, form: textForm},
	)}
	nameMember = formMember{name: "name", form: textForm}
)

var itemForms = map[mcp.Kind]form{
	mcp.Tool: objectForm( // Tool
		nameMember, titleMember, descriptionMember, iconsMember, metaMember,
		// From 2025-03-26. Servers send them to clients of every revision, and earlier
		// clients do not decide by them.
		formMember{name: "annotations", form: objectForm( // ToolAnnotations
			formMember{name: "title", form: textForm},
			formMember{name: "readOnlyHint", form: booleanForm},
			formMember{name: "destructiveHint", form: booleanForm},
			formMember{name: "idempotentHint", form: booleanForm},
			formMember{name: "openWorldHint", form: booleanForm},
		)},
		formMember{name: "inputSchema", form: inputSchemaForm},
		formMember{name: "outputSchema", since: mcp.V20250618, form: outputSchemaForm},
		formMember{name: "execution", since: mcp.V20251125, form: objectForm( // ToolExecution
			formMember{name: "taskSupport", form: wordForm("forbidden", "optional", "required")},
		)},
	),
	mcp.Prompt: objectForm( // Prompt
		nameMember, titleMember, descriptionMember, iconsMember, metaMember,
		formMember{name: "arguments", form: listForm(objectForm( // PromptArgument
			formMember{name: "name", form: textForm, required: true},
			titleMember, descriptionMember,
			formMember{name: "required", form: booleanForm},
		))},
	),
	mcp.Resource: objectForm( // Resource
		nameMember, titleMember, descriptionMember, iconsMember, metaMember, mimeTypeMember, annotationsMember,
		formMember{name: "uri", form: textForm},
		formMember{name: "size", form: scalarForm(isInteger)},
	),
	mcp.Template: objectForm( // ResourceTemplate
		nameMember, titleMember, descriptionMember, iconsMember, metaMember, mimeTypeMember, annotationsMember,
		formMember{name: "uriTemplate", form: textForm},
	),
}

var (
	anyObject = []byte(`{"type":"object"}`)
	// A legacy schema is an object of type "object" whose properties are objects too:
	// JSON Schema's true and false are not allowed.
	schemaForm = objectForm(
		formMember{name: "properties", form: propertiesForm},
		formMember{name: "required", form: listForm(textForm)},
		formMember{name: "$schema", form: textForm},
	)
)

// inputSchemaForm makes the schema of arguments one of an object, which arguments
// always are.
func inputSchemaForm(version mcp.Version, schema []byte) []byte {
	if !mcp.IsObject(schema) {
		return anyObject
	}
	if kind, _ := mcp.LookupString(schema, "type"); kind != "object" {
		schema = mcp.SetMember(schema, "type", []byte(`"object"`))
	}
	return schemaForm(version, schema)
}

// outputSchemaForm drops schemas of results that are not objects. A tool can be called
// without one.
func outputSchemaForm(version mcp.Version, schema []byte) []byte {
	if kind, _ := mcp.LookupString(schema, "type"); kind != "object" {
		return nil
	}
	return schemaForm(version, schema)
}

// propertiesForm replaces boolean schemas by equivalent objects.
func propertiesForm(_ mcp.Version, value []byte) []byte {
	if !mcp.IsObject(value) {
		return nil
	}
	var edits []mcp.Edit
	for m := range mcp.Members(value) {
		switch schema := m.Value.Of(value); {
		case mcp.IsObject(schema):
		case string(schema) == "false":
			edits = append(edits, mcp.Edit{Span: m.Value, New: []byte(`{"not":{}}`)})
		default:
			edits = append(edits, mcp.Edit{Span: m.Value, New: []byte("{}")})
		}
	}
	if len(edits) == 0 {
		return value
	}
	return mcp.Splice(value, edits...)
}
