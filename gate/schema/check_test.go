package schema_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolgate/toolgate/gate/schema"
)

func TestProblemsLetAModelRepairItsCall(t *testing.T) {
	tests := []struct{ name, schema, arguments, want string }{
		{
			"all at once", issueSchema, `{"owner":"","repo":"a b","titel":"x","state":"opened","labels":"bug","milestone":"3","notify":1}`,
			`- arguments: "title" is missing; add "title" (string).
- arguments: "titel" is not known; remove it, or did you mean "title"?
- /labels: is a string and must be an array; send ["bug"], an array, even for one.
- /milestone: is a string and must be an integer; send 3, not "3".
- /notify: is a number and must be a boolean; send a boolean.
- /owner: has 0 characters; send at least 1.
- /repo: "a b" does not match the pattern "^[A-Za-z0-9_.-]+$"; send a text that matches it.
- /state: "opened" is not allowed; did you mean "open"? Send one of "open", "closed", "all".`,
		},
		{"not an object", issueSchema, `[]`, `- arguments: is an array and must be an object; send an object.`},
		{"number for a string", `{"properties":{"id":{"type":"string"}}}`, `{"id":12}`, `- /id: is a number and must be a string; send "12", not 12.`},
		{"text for a boolean", `{"properties":{"b":{"type":"boolean"}}}`, `{"b":"true"}`, `- /b: is a string and must be a boolean; send true, not "true".`},
		{"JSON in a text", `{"properties":{"o":{"type":"object"}}}`, `{"o":"{\"a\":1}"}`, `- /o: is a string and must be an object; send the object itself, not a string with it.`},
		{"fraction for an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1.5}`, `- /n: 1.5 is not an integer; send a whole number.`},
		{"null", `{"properties":{"n":{"type":"string"}}}`, `{"n":null}`, `- /n: is null and must be a string; send a string, or leave it out if it is optional.`},
		{"several types", `{"properties":{"n":{"type":["string","null"]}}}`, `{"n":{}}`, `- /n: is an object and must be null or a string; send null or a string.`},
		{"anyOf of types", `{"properties":{"n":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/z"}]}},"$defs":{"z":{"type":"null"}}}`, `{"n":{}}`, `- /n: is an object and must be a string or null; send a string or null.`},
		{
			"oneOf with a discriminator",
			`{"properties":{"s":{"oneOf":[{"properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},{"properties":{"kind":{"const":"box"},"w":{"type":"number"},"h":{"type":"number"}},"required":["kind","w","h"],"additionalProperties":false}]}}}`,
			`{"s":{"kind":"box","w":"1","height":2}}`,
			`- /s: "h" is missing; add "h" (number).
- /s: "height" is not known; remove it; known are "h", "kind", "w".
- /s/w: is a string and must be a number; send 1, not "1".`,
		},
		{"oneOf fits twice", `{"properties":{"n":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}`, `{"n":1}`, `- /n: fits several of the alternatives, of which it may fit one only; send what only one of them describes.`},
		{"not", `{"properties":{"n":{"not":{"const":1}}}}`, `{"n":1}`, `- /n: is one of the values that are not allowed; send another value.`},
		{"number for a text of the enum", `{"properties":{"n":{"enum":["1","2"]}}}`, `{"n":1}`, `- /n: 1 is not allowed; send one of "1", "2".`},
		{"text for a number of the enum", `{"properties":{"n":{"enum":[1,2]}}}`, `{"n":"1"}`, `- /n: "1" is not allowed; send 1, not "1".`},
		{"const", `{"properties":{"n":{"const":"x"}}}`, `{"n":"y"}`, `- /n: "y" is not allowed; send "x".`},
		{"exact bounds", `{"properties":{"n":{"maximum":9007199254740992},"m":{"minimum":-0.10}}}`, `{"n":9007199254740993,"m":-0.11}`, `- /m: -0.11 is too small; send at least -0.10.
- /n: 9007199254740993 is too large; send at most 9007199254740992.`},
		{"draft 4 bounds", `{"properties":{"n":{"maximum":5,"exclusiveMaximum":true}}}`, `{"n":5}`, `- /n: 5 is too large; send less than 5.`},
		{"beyond 64 bits", `{"properties":{"n":{"const":36893488147419103232}}}`, `{"n":36893488147419103233}`, `- /n: 36893488147419103233 is not allowed; send 36893488147419103232.`},
		{"multipleOf", `{"properties":{"n":{"multipleOf":0.01}}}`, `{"n":0.015}`, `- /n: 0.015 is not a multiple of 0.01; send one that is.`},
		{"elements", `{"properties":{"a":{"items":{"type":"integer"},"maxItems":11,"uniqueItems":true}}}`, `{"a":[1,1,"2",3,4,5,6,7,8,9,"10",11]}`, `- /a: has 12 elements; send at most 11.
- /a: the elements 0 and 1 are equal; send each only once.
- /a/2: is a string and must be an integer; send 2, not "2".
- /a/10: is a string and must be an integer; send 10, not "10".`},
		{"names", `{"propertyNames":{"pattern":"^[a-z]+$"}}`, `{"A b":1}`, `- arguments: the name "A b" is not allowed; remove or rename it.`},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `- arguments: "b" is missing, which "a" needs; add "b".`},
		{"pointers are escaped", `{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, `- /a~1b~0c: is a number and must be a string; send "1", not 1.`},
		{"false schema", `{"properties":{"a":false}}`, `{"a":1}`, `- /a: is not allowed here; leave it out.`},
		{"if and then", `{"properties":{"mode":{}},"if":{"properties":{"mode":{"const":"x"}}},"then":{"required":["why"]}}`, `{"mode":"x"}`, `- arguments: "why" is missing; add "why".`},
		{"tuple without a dialect", `{"properties":{"t":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"t":[1,2]}`, `- /t: has 1 element too many; leave out the last 1.
- /t/0: is a number and must be a string; send "1", not 1.`},
		{"what is hidden is shown", `{"properties":{"a":{"enum":["b"]}}}`, "{\"a\":\"x\u202ey\\u0007\"}", `- /a: "x\u202ey\a" is not allowed; send "b".`},
	}
	c := schema.New(patient)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := "The arguments do not fit the tool's input schema.\n" + tt.want
			for range 10 { // the library walks maps, whose order differs
				r, err := c.Check([]byte(tt.schema), []byte(tt.arguments))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Text(); got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}

func TestAtMostTenProblemsAreTold(t *testing.T) {
	c := schema.New(patient)
	r, err := c.Check([]byte(`{"items":{"type":"string"}}`), []byte(`[`+repeat(25, "%d")+`]`))
	if err != nil || r.Valid || len(r.Problems) != 10 || r.More != 15 || !strings.Contains(r.Text(), "15 more") {
		t.Errorf("%d problems and %d more, error %v: %s", len(r.Problems), r.More, err, r.Text())
	}
	for i, p := range r.Problems {
		if want := "/" + string(rune('0'+i)); p.Pointer != want {
			t.Errorf("problem %d is about %s, want %s", i, p.Pointer, want)
		}
	}
}

func TestLongValuesAreNotRepeated(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	schemas := []string{
		`{"properties":{"a":{"enum":["x","` + long + `"]}}}`,
		`{"properties":{"a":{"pattern":"^` + strings.Repeat("b", 3000) + `$"}}}`,
		`{"properties":{"a":{"const":"` + long + `y"}}}`,
		`{"additionalProperties":false}`,
		`{"required":["` + long + `"]}`,
		`{"properties":{"a":{"type":"number"}}}`,
	}
	c := schema.New(patient)
	for _, text := range schemas {
		for _, arguments := range []string{`{"a":"` + long + `"}`, `{"` + long + `":1,"a":"z"}`} {
			r, err := c.Check([]byte(text), []byte(arguments))
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Text(); utf8.RuneCountInString(got) > 600 {
				t.Errorf("%.60s: the text has %d characters", text, utf8.RuneCountInString(got))
			}
		}
	}
}

func TestPatternsThatRE2DoesNotKnowAreLeftOut(t *testing.T) {
	tests := []struct {
		name, schema, partial string
		good, bad             string
	}{
		{"look-ahead", `{"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}`, "/properties/a/pattern", `{"a":"x"}`, `{"a":1}`},
		{"long repetition", `{"properties":{"a":{"type":"string","pattern":"^.{0,5000}$"}}}`, "/properties/a/pattern", `{"a":"x"}`, `{"a":1}`},
		{"pattern of names", `{"patternProperties":{"^(?!x)":{"type":"string"}},"properties":{"n":{"type":"number"}},"additionalProperties":false}`, "/patternProperties/^(?!x)", `{"x":1}`, `{"n":"1"}`},
		{"under not", `{"not":{"properties":{"a":{"pattern":"(?=x)"}}},"required":["b"]}`, "/not/properties/a/pattern", `{"a":"y","b":1}`, `{}`},
		{"under not by reference", `{"not":{"$ref":"#/$defs/d"},"$defs":{"d":{"pattern":"(?=x)"}}, "type":"object"}`, "/$defs/d/pattern", `{}`, `[]`},
		{"under if", `{"if":{"properties":{"a":{"pattern":"(?=x)"}}},"then":{"required":["b"]},"type":"object"}`, "/if/properties/a/pattern", `{"a":"y"}`, `[]`},
		{"under oneOf", `{"oneOf":[{"properties":{"a":{"type":"string","pattern":"(?=x)"}}},{"properties":{"a":{"type":"string","pattern":"^y"}}}]}`, "/oneOf/0/properties/a/pattern", `{"a":"y"}`, `{"a":1}`},
		{"under contains", `{"items":{"type":"string"},"contains":{"pattern":"(?=x)"},"maxContains":1}`, "/contains/pattern", `["a","b","c"]`, `[1]`},
		{"unicode escapes are known", `{"properties":{"a":{"pattern":"^[\\u0041-\\u0043]+$"}}}`, "", `{"a":"ABC"}`, `{"a":"D"}`},
	}
	c := schema.New(patient)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := c.Compile([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Partial(), " "); got != tt.partial {
				t.Errorf("partial for %q, want %q", got, tt.partial)
			}
			if r := s.Check(schema.ReadArguments([]byte(tt.good))); !r.Valid || r.Partial != (tt.partial != "") {
				t.Errorf("%s: %+v", tt.good, r)
			}
			if r := s.Check(schema.ReadArguments([]byte(tt.bad))); r.Valid {
				t.Errorf("%s is accepted", tt.bad)
			}
		})
	}
}

func TestDraftsDiffer(t *testing.T) {
	const tuple = `"properties":{"t":{"items":[{"type":"string"}]}}`
	tests := []struct {
		name, schema, arguments string
		valid, compiles         bool
	}{
		{"4 exclusiveMaximum", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"maximum":5,"exclusiveMaximum":true}}}`, `{"n":5}`, false, true},
		{"4 has no const", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"const":5}}}`, `{"n":6}`, true, true},
		{"6 const", `{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"n":{"const":5}}}`, `{"n":6}`, false, true},
		{"6 has no if", `{"$schema":"http://json-schema.org/draft-06/schema","if":true,"then":false}`, `{}`, true, true},
		{"7 if", `{"$schema":"https://json-schema.org/draft-07/schema#","if":true,"then":false}`, `{}`, false, true},
		{"7 tuple", `{"$schema":"http://json-schema.org/draft-07/schema#",` + tuple + `}`, `{"t":[1]}`, false, true},
		{"7 ignores what is beside a reference", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"n":{"$ref":"#/definitions/x","type":"string"}},"definitions":{"x":{}}}`, `{"n":1}`, true, true},
		{"2019-09 does not", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"n":{"$ref":"#/$defs/x","type":"string"}},"$defs":{"x":{}}}`, `{"n":1}`, false, true},
		{"2019-09 dependentRequired", `{"$schema":"https://json-schema.org/draft/2019-09/schema","dependentRequired":{"a":["b"]}}`, `{"a":1}`, false, true},
		{"2020-12 has no tuple in items", `{"$schema":"https://json-schema.org/draft/2020-12/schema",` + tuple + `}`, ``, false, false},
		{"2020-12 prefixItems", `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"t":{"prefixItems":[{"type":"string"}]}}}`, `{"t":[1]}`, false, true},
		{"format is not checked", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"t":{"format":"date"}}}`, `{"t":"x"}`, true, true},
	}
	c := schema.New(patient)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := c.Check([]byte(tt.schema), []byte(tt.arguments))
			if (err == nil) != tt.compiles {
				t.Fatal(err)
			}
			if err == nil && r.Valid != tt.valid {
				t.Errorf("valid %v, want %v: %s", r.Valid, tt.valid, r.Text())
			}
		})
	}
}

func TestFormatIsCheckedWhereThatWasSaid(t *testing.T) {
	c := schema.New(schema.Options{AssertFormat: true, Wait: time.Minute})
	r, err := c.Check([]byte(`{"properties":{"t":{"format":"date"},"r":{"format":"regex"}}}`), []byte(`{"t":"x","r":"("}`))
	if err != nil || r.Valid || len(r.Problems) != 1 || r.Problems[0].Problem != "is not a valid date" {
		t.Errorf("%s, error %v", r.Text(), err)
	}
}

func TestZeroValuesRefuse(t *testing.T) {
	if (&schema.Result{}).Valid {
		t.Error("the zero result is valid")
	}
	for _, s := range []*schema.Schema{nil, {}} {
		if s.Check(schema.ReadArguments([]byte(`{}`))).Valid {
			t.Error("a schema that was not made accepts")
		}
	}
	for _, c := range []*schema.Checker{nil, {}} {
		if _, err := c.Check([]byte(`{}`), []byte(`{}`)); err == nil {
			t.Error("a checker that was not made accepts")
		}
	}
}
