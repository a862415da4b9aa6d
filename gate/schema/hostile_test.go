package schema_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/schema"
)

// repeat writes n things that a format makes of their numbers, with commas.
func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// doubling is a schema whose value is held against 2^n subschemas.
func doubling(n int) string {
	return `{"$ref":"#/$defs/a0","$defs":{` + repeat(n, `"a%[1]d":{"allOf":[{"$ref":"#/$defs/b%[1]d"},{"$ref":"#/$defs/b%[1]d"}]}`) + `,` +
		func() string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `"b%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
			}
			return b.String()
		}() + fmt.Sprintf(`"a%d":{}}}`, n)
}

var hostile = []struct {
	name, schema string
	pointer      string // where the refusal points
	reason       string // what it says
}{
	{"reference to itself", `{"$ref":"#"}`, "", "never ends"},
	{"reference to itself below", `{"properties":{"a":{"$ref":"#/properties/a"}}}`, "/properties/a", "never ends"},
	{"loop of two", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[true,{"$ref":"#/$defs/a"}]}}}`, "/$defs/a", "never ends"},
	{"loop through not", `{"not":{"$ref":"#"}}`, "", "never ends"},
	{"loop through if", `{"if":true,"then":{"$ref":"#"}}`, "", "never ends"},
	{"loop through dependentSchemas", `{"dependentSchemas":{"a":{"$ref":"#"}}}`, "", "never ends"},
	{"loop through an anchor", `{"$anchor":"x","allOf":[{"$ref":"#x"}]}`, "", "never ends"},
	{"loop through a dynamic anchor", `{"$dynamicAnchor":"x","allOf":[{"$dynamicRef":"#x"}]}`, "", "never ends"},
	{"recursive reference", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"allOf":[{"$recursiveRef":"#"}]}`, "", "never ends"},
	{"doubling", doubling(40), "", "held against more than"},
	{"doubling deep", doubling(200), "", "held against more than"},
	{"long chain", `{"$ref":"#/$defs/a0","$defs":{` + func() string {
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
		}
		return b.String()
	}() + `"a300":{}}}`, "", "follow from one another"},
	{"remote reference", `{"$ref":"http://169.254.169.254/latest/meta-data"}`, "/$ref", "leaves the document"},
	{"relative reference", `{"properties":{"a":{"$ref":"other.json#/x"}}}`, "/properties/a/$ref", "leaves the document"},
	{"file reference", `{"$ref":"file:///etc/passwd"}`, "/$ref", "leaves the document"},
	{"reference to a metaschema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "/$ref", "leaves the document"},
	{"dynamic remote reference", `{"$dynamicRef":"http://example.com/x#y"}`, "/$dynamicRef", "leaves the document"},
	{"reference to nothing", `{"$ref":"#/$defs/none"}`, "/$ref", "leads nowhere"},
	{"reference to no anchor", `{"$ref":"#none"}`, "/$ref", "leads nowhere"},
	{"reference with a bad escape", `{"$ref":"#/a~2b"}`, "/$ref", "leads nowhere"},
	{"reference with bad percents", `{"$ref":"#%zz"}`, "/$ref", "cannot be read"},
	{"padded index", `{"allOf":[{},{"$ref":"#/allOf/00"}]}`, "/allOf/1/$ref", "leads nowhere"},
	{"5 MB", `{"description":"` + strings.Repeat("x", 5<<20) + `"}`, "", "bytes"},
	{"huge enum", `{"enum":[` + repeat(30_000, `%d`) + `]}`, "/enum", "30000 values"},
	{"huge pattern", `{"pattern":"` + strings.Repeat("a", 200_000) + `"}`, "/pattern", "bytes"},
	{"many patterns", `{"allOf":[` + repeat(100, `{"pattern":"`+strings.Repeat("a", 1000)+`%d"}`) + `]}`, "/allOf/16/pattern", "together"},
	{"patterns with many instructions", `{"allOf":[` + repeat(100, `{"pattern":"([a-z]{10}[0-9]{10}){50}%d"}`) + `]}`, "", "instructions"},
	{"Unicode classes", `{"pattern":"` + strings.Repeat(`(?i)\\pL`, 500) + `"}`, "/pattern", "classes"},
	{"many subschemas", `{"properties":{` + repeat(20_000, `"%d":{}`) + `}}`, "", "subschemas"},
	{"many booleans", `{"anyOf":[` + strings.TrimSuffix(strings.Repeat("true,", 40_000), ",") + `]}`, "", "subschemas"},
	{"minimum beyond arithmetic", `{"properties":{"a":{"minimum":1e999999999}}}`, "/properties/a/minimum", "larger exponent"},
	{"multipleOf beyond arithmetic", `{"multipleOf":1e-999999999}`, "/multipleOf", "larger exponent"},
	{"enum beyond arithmetic", `{"enum":[1,1E+99999]}`, "/enum/1", "larger exponent"},
	{"default beyond arithmetic", `{"default":` + strings.Repeat("9", 100_000) + `}`, "/default", "more digits"},
	{"multipleOf zero", `{"multipleOf":0}`, "/multipleOf", "not a valid schema"},
	{"deep nesting", strings.Repeat(`{"not":`, 20_000) + `{}` + strings.Repeat(`}`, 20_000), "", "at most 64 levels"},
	{"deep array", strings.Repeat(`[`, 100_000), "", "strict JSON"},
	{"duplicate definitions", `{"$defs":{"a":{"type":"string"},"a":{"type":"number"}}}`, "", "strict JSON"},
	{"duplicate in another spelling", `{"type":"object","t\u0079pe":"string"}`, "", "strict JSON"},
	{"duplicate anchors", `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`, "", "anchor"},
	{"identifier below with references", `{"properties":{"a":{"$id":"http://example.com/a","$ref":"#/x"}}}`, "/properties/a/$id", "identifier"},
	{"identifier of a metaschema", `{"$id":"https://json-schema.org/draft/2020-12/schema","$ref":"https://json-schema.org/draft/2020-12/schema"}`, "", "never ends"},
	{"identifier that is none", `{"$id":7}`, "/$id", "not a valid schema"},
	{"unknown dialect", `{"$schema":"http://evil.example/schema"}`, "/$schema", "dialect"},
	{"file as dialect", `{"$schema":"file:///etc/passwd"}`, "/$schema", "dialect"},
	{"dialect that is none", `{"$schema":{"a":1}}`, "/$schema", "must be a string"},
	{"not JSON", `{`, "", "strict JSON"},
	{"two values", `{}{}`, "", "strict JSON"},
	{"a string", `"object"`, "", "true or false"},
	{"an array", `[]`, "", "true or false"},
	{"no type", `{"type":"str"}`, "/type", "not a valid schema"},
	{"a number as a property", `{"properties":{"a":5}}`, "/properties/a", "not a valid schema"},
	{"required that is not a list", `{"required":true}`, "/required", "not a valid schema"},
	{"long names", `{"properties":{"` + strings.Repeat("n", 5000) + `":{}}}`, "", "names down to here"},
	{"many places that are not schemas", `{"x":[` + repeat(200, `{"y":%d}`) + `],"allOf":[` + repeat(200, `{"$ref":"#/x/%d"}`) + `]}`, "", "no schema is expected"},
}

func TestHostileSchemasAreQuarantined(t *testing.T) {
	c := schema.New(patient)
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // refused once, and from what is kept
				r, err := c.Check([]byte(tt.schema), []byte(`{"a":1}`))
				q, ok := errors.AsType[*schema.Quarantined](err)
				if !ok {
					t.Fatalf("result %+v, error %v; want quarantine", r, err)
				}
				if q.Busy || !strings.Contains(q.Reason, tt.reason) || tt.pointer != "" && q.Pointer != tt.pointer {
					t.Errorf("refused at %.80q: %.200s; want at %q: …%s…", q.Pointer, q.Reason, tt.pointer, tt.reason)
				}
				if len(err.Error()) > 500 {
					t.Errorf("the reason has %d bytes", len(err.Error()))
				}
			}
		})
	}
}

// BenchmarkHostile shows that every refusal stays below 50 ms.
func BenchmarkHostile(b *testing.B) {
	for _, tt := range hostile {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				_, _ = schema.New(patient).Compile([]byte(tt.schema))
			}
		})
	}
}

func TestExpensiveSchemasWithinTheLimitsStillWork(t *testing.T) {
	tests := []struct{ name, schema, good, bad string }{
		{"cost near the limit", doubling(9), `{}`, ``},
		{"many subschemas", `{"properties":{` + repeat(990, `"p%d":{"type":"string"}`) + `}}`, `{"p989":"x"}`, `{"p989":1}`},
		{
			"recursive tree", `{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}`,
			`{"next":{"next":{}}}`, `{"next":{"next":{"other":1}}}`,
		},
		{"old draft with new definitions", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` +
			repeat(300, `"d%d":{"type":"string"}`) + `}}`, `{"a":"x"}`, `{"a":1}`},
		{
			"reference to itself by its identifier", `{"$id":"https://example.com/s","properties":{"a":{"$ref":"https://example.com/s#/$defs/d"}},"$defs":{"d":{"type":"string"}}}`,
			`{"a":"x"}`, `{"a":1}`,
		},
		{"identifier below without references", `{"properties":{"a":{"$id":"http://example.com/a","type":"string"}}}`, `{"a":"x"}`, `{"a":1}`},
		{
			"property named as keywords", `{"properties":{"$ref":{"type":"string"},"$id":{"type":"string"},"pattern":{"type":"string"},"enum":{"type":"string"}}}`,
			`{"$ref":"http://x","$id":"y","pattern":"(?!","enum":"z"}`, `{"$ref":1}`,
		},
		{
			"keywords in values", `{"properties":{"a":{"const":{"$ref":"http://example.com","pattern":"(?!x)"}}}}`,
			`{"a":{"$ref":"http://example.com","pattern":"(?!x)"}}`, `{"a":1}`,
		},
		{
			"reference to where no schema is expected", `{"components":{"schemas":{"N":{"type":"string"}}},"properties":{"a":{"$ref":"#/components/schemas/N"}}}`,
			`{"a":"x"}`, `{"a":1}`,
		},
		{"maxLength beyond an int", `{"properties":{"a":{"maxLength":18446744073709551616}}}`, `{"a":"x"}`, ``},
		{"accepts everything", `true`, `[1]`, ``},
		{"accepts nothing", `false`, ``, `{}`},
		{"absent", ``, `{"a":1}`, `[1]`},
		{"null", `null`, `{"a":1}`, `"x"`},
		{"no arguments", `{"type":"object"}`, ``, ``},
		{"no arguments where some are needed", `{"required":["a"]}`, `{"a":1}`, `{}`},
	}
	c := schema.New(patient)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.Compile([]byte(tt.schema)); err != nil {
				t.Fatal(err)
			}
			if r, _ := c.Check([]byte(tt.schema), []byte(tt.good)); tt.name != "accepts nothing" && !r.Valid {
				t.Errorf("%s is refused: %s", tt.good, r.Text())
			}
			if r, _ := c.Check([]byte(tt.schema), []byte(tt.bad)); tt.bad != "" && r.Valid {
				t.Errorf("%s is accepted", tt.bad)
			}
		})
	}
}

func TestArgumentsThatMultiplyAreRefusedBeforeTheyAreChecked(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + "1" + strings.Repeat("]", n) }
	tree := `{"$defs":{"n":{"%s":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}},"items":{"$ref":"#/$defs/n"}}`
	tests := []struct{ name, schema, arguments string }{
		{"anyOf", fmt.Sprintf(tree, "anyOf"), nested(200)},
		{"allOf", fmt.Sprintf(tree, "allOf"), nested(60)},
		{"not", `{"$defs":{"n":{"not":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}}},"items":{"$ref":"#/$defs/n"}}`, nested(60)},
		{"properties", `{"allOf":[{"additionalProperties":{"$ref":"#"}},{"additionalProperties":{"$ref":"#"}}]}`, strings.Repeat(`{"a":`, 50) + `1` + strings.Repeat(`}`, 50)},
		{"contains", `{"contains":{"$ref":"#"},"items":{"$ref":"#"}}`, nested(60)},
		{"pattern on long text", `{"items":{"allOf":[` + repeat(100, `{"pattern":"(x+x+)+%d"}`) + `]}}`, `["` + strings.Repeat("x", 1<<20) + `"]`},
		{"unique arrays in arrays", `{"uniqueItems":true,"items":{"$ref":"#"}}`, `[` + strings.TrimSuffix(strings.Repeat(nested(250)+",", 300), ",") + `]`},
		{"unique elements of one hash", `{"items":{"type":"string"},"uniqueItems":true}`, alikeElements(12)},
		{"unique numbers of one hash", `{"uniqueItems":true}`, alikeNumbers(13)},
		{"too many values", `{}`, `[` + strings.TrimSuffix(strings.Repeat("1,", schema.MaxValues), ",") + `]`},
		{"number beyond arithmetic", `{"items":{"maximum":3}}`, `[1e999999999]`},
		{"long number", `{"items":{"type":"integer"}}`, `[` + strings.Repeat("1", 100_000) + `]`},
	}
	c := schema.New(patient)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := c.Check([]byte(tt.schema), []byte(tt.arguments))
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid || len(r.Problems) != 1 || r.Problems[0].Fix == "" {
				t.Errorf("result %+v, want one problem with its fix", r)
			}
		})
	}
}

// alikeElements are 2^k lists of texts that differ in where one text ends and the next
// begins.
func alikeElements(k int) string {
	var b strings.Builder
	for i := range 1 << k {
		b.WriteString(`,["x`)
		for j := range k {
			b.WriteString([]string{`\u0004x`, `","x`}[i>>j&1])
		}
		b.WriteString(`"]`)
	}
	return "[" + b.String()[1:] + "]"
}

// alikeNumbers are the same of numbers.
func alikeNumbers(k int) string {
	var b strings.Builder
	for i := range 1 << k {
		b.WriteString(",[")
		number := big.NewInt(7)
		for j := range k {
			if i>>j&1 == 1 {
				b.WriteString(number.String() + ",")
				number = big.NewInt(7)
				continue
			}
			number.Lsh(number, 24).Or(number, big.NewInt(0x010507)) // the denominator 1, and the next number
		}
		b.WriteString(number.String() + "]")
	}
	return "[" + b.String()[1:] + "]"
}

// Elements that have to be unique, and are, pass however many they are.
func TestManyUniqueElements(t *testing.T) {
	c := schema.New(patient)
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `,{"id":%d,"at":[%d,%d]}`, i, i%7, i/7)
	}
	unique := `{"properties":{"a":{"uniqueItems":true,"items":{"type":"object"}}}}`
	if r, err := c.Check([]byte(unique), []byte(`{"a":[`+b.String()[1:]+`]}`)); err != nil || !r.Valid {
		t.Errorf("result %s, error %v", r.Text(), err)
	}
	if r, err := c.Check([]byte(unique), []byte(`{"a":[`+b.String()[1:]+`,{"id":1,"at":[1,0]}]}`)); err != nil || r.Valid {
		t.Errorf("two equal ones: %s, error %v", r.Text(), err)
	}
}

func TestLargeArgumentsAreChecked(t *testing.T) {
	c := schema.New(patient)
	numbers := `{"type":"object","properties":{"v":{"type":"array","items":{"type":"number","minimum":-1,"maximum":1}},"content":{"type":"string"},"path":{"type":"string","pattern":"^[^:]+$"}}}`
	arguments := `{"v":[` + strings.TrimSuffix(strings.Repeat("0.5,", 50_000), ",") + `],"path":"a","content":"` + strings.Repeat("x", 4<<20) + `"}`
	r, err := c.Check([]byte(numbers), []byte(arguments))
	if err != nil || !r.Valid {
		t.Errorf("result %s, error %v", r.Text(), err)
	}
}
