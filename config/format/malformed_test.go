package format

import "testing"

// TestMalformed types what people mistype, and expects the line and what to write instead.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"indented.yaml", "a:\n  b: 1\n   c: 2\n", "x:3: a key cannot stand here; indent it like its neighbours, or put text with a colon into quotes"},
		{"outdented.yaml", "a:\n  b:\n    c: 1\n   d: 2\n", "x:4: this line does not continue the map above it; indent it like the other keys of that map, and check that quotes and brackets in it are closed"},
		{"comment.yaml", "# one\na:\n  b:\n    c: 1\n\n   # two\n   d: 2\n\n\ne: 3\n", "x:7: this line does not continue the map above it; indent it like the other keys of that map, and check that quotes and brackets in it are closed"},
		{"tab.yaml", "a: 1\nb:\n  d: 1\n\tc: 2\n", "x:4: a tab indents this line; indent with spaces"},
		{"colon.yaml", "a:\n  b 1\n  c: 2\n", "x:3: a key cannot stand here; indent it like its neighbours, or put text with a colon into quotes"},
		{"nocolon.yaml", "a: 1\nb 2\nc: 3\n", "x:2: this line is not a key with a value; write key: value, with a space after the colon"},
		{"two.yaml", "a: b: c\n", "x:1: a key cannot stand here; indent it like its neighbours, or put text with a colon into quotes"},
		{"quote.yaml", "a: 1\nb: \"two\nc: 3\n", "x:2: the quote that begins here is not closed; close it"},
		{"single.yaml", "a: 1\nb: 'two\nc: 3\n", "x:2: the quote that begins here is not closed; close it"},
		{"brace.yaml", "a: 1\nb: { c: 2\nd: 3\n", "x:2: expected ',' or '}'; separate entries with commas, and close { with }"},
		{"bracket.yaml", "a: [1, 2\n", "x:1: expected ',' or ']'; separate entries with commas, and close [ with ]"},
		{"list.yaml", "a:\n  - 1\n  b: 2\n", "x:3: this line does not continue the list above it; begin it with - at the indentation of the list, or indent it like the key that it belongs to"},
		{"inline.yaml", "a: - 1\n", "x:1: a list cannot begin here; begin it on a line of its own, with - in front of each entry"},
		{"at.yaml", "a: 1\nb: @scope/x\n", "x:2: no value begins with this character; put the value into quotes"},
		{"windows.yaml", "a: 1\nb: \"C:\\Data\"\n", `x:2: \ begins an escape in double quotes, and this is none; write \\ for a backslash, or use single quotes`},
		{"star.yaml", "a: 1\nb: *.example\n", "x:2: * and & need a name behind them; put text that begins with them into quotes"},
		{"alias.yaml", "a: 1\nb: *c\n", "x:2: an alias names nothing; define its anchor above it, or put text that begins with * into quotes"},
		{"open.toml", "a = 1\nb = \"x\nc = 2\n", `x:2: the quote on this line is not closed; close it, or use """ for a text of several lines`},
		{"end.toml", "a = 1\nb = \"x", "x:2: the quote on this line is not closed; close it"},
		{"single.toml", "a = 1\nb = 'x\n", `x:2: the quote on this line is not closed; close it, or use """ for a text of several lines`},
		{"long.toml", "a = 1\nb = \"\"\"x\ny\n", "x:3: a text of several lines is not closed; close it with the three quotes that it begins with"},
		{"bare.toml", "a = 1\nb = words\n", `x:2: text must be in quotes; write key = "text"`},
		{"table.toml", "[a\nb = 1\n", "x:1: the name of a table is not closed; write it as [name], or [[name]] for one of several"},
		{"list.toml", "b = [1 2]\n", "x:1: expected ',' or ']'; separate values with commas, and close [ with ]"},
		{"endless.toml", "a = 1\nb = [1, 2\n", "x:2: the list is not closed; close it with ]"},
		{"colon.toml", "a: 1\n", "x:1: this line is not a key with a value; write key = value"},
		{"empty.toml", "a =\n", `x:1: a value is missing; write one after =, such as "text"`},
		{"two.toml", "a = 1 b = 2\n", "x:1: there is more on this line than one key and its value; write each key on a line of its own"},
		{"windows.toml", "a = \"C:\\Data\"\n", `x:1: \ begins an escape in double quotes, and this is none; write \\ for a backslash, or use single quotes`},
		{"twice.toml", "[a]\nb = 1\n[a]\nc = 1\n", "x:3: a: this key is already on line 1; remove one of the two"},
		{"date.toml", "a = 2020-13-01\n", "x:1: this is not valid TOML: impossible date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseDocument(c.name, []byte(c.text))
			if err == nil {
				t.Fatal("it can be read")
			}
			if got := "x" + err.Error()[len(c.name):]; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
