package schemas_test

import (
	"bytes"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/schemas"
)

// most is the size of the largest schema that is read.
const most = 256 << 10

// repeated writes a member with growing numbers until the text has a size.
func repeated(size int, member string) string {
	var b strings.Builder
	for i := 0; ; i++ {
		one := strings.ReplaceAll(member, "%d", strconv.Itoa(i))
		if b.Len()+len(one)+1 > size {
			return b.String()
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one)
	}
}

// crossed are schemas of at most a size, at least 2 KiB, of which some parts could be
// compared with all others, or read again for each reference.
func crossed(size int) map[string]string {
	rest := size - 500
	half, few := rest/2, min(rest/2, 8000)
	large := rest - few
	argument := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	// some writes at most so many members, which fill the size with descriptions.
	some := func(n int, member string) string {
		return repeated(rest, strings.ReplaceAll(member, "#", strings.Repeat("x", max(rest/n-len(member)-3, 1))))
	}
	// lists writes enums, in each of which # is another number.
	lists := func(word string) string {
		list := repeated(min(rest/4, 800*len(word)), word)
		var all []string
		for n := 0; ; {
			one := `{"enum":[` + strings.ReplaceAll(list, "#", strconv.Itoa(len(all))) + `]}`
			if n += len(one) + 1; n > rest {
				return strings.Join(all, ",")
			}
			all = append(all, one)
		}
	}
	// to writes properties that refer to a definition, of writes alternatives that do.
	to := func(definition string) string {
		return `{"type":"object","properties":{` + repeated(few, `"p%d":{"$ref":"#/$defs/x"}`) + `},"$defs":{"x":` + definition + `}}`
	}
	of := func(keyword, definition string) string {
		return `{"type":"object","properties":{"a":{"` + keyword + `":[` + repeated(few, `{"$ref":"#/$defs/x"}`) + `]}},"$defs":{"x":` + definition + `}}`
	}
	return map[string]string{
		"enums together":              argument(`{"allOf":[{"enum":[` + repeated(half, `1`) + `]},{"enum":[` + repeated(half, `2`) + `]}]}`),
		"enums of numbers together":   argument(`{"allOf":[` + lists(`%d.0e0`) + `]}`),
		"enums of words together":     argument(`{"allOf":[` + lists(`"w%d"`) + `]}`),
		"enums far apart":             argument(`{"allOf":[` + lists(`1e%d`) + `]}`),
		"any of enums":                argument(`{"anyOf":[` + lists(`"%d-#"`) + `]}`),
		"one of enums":                argument(`{"oneOf":[` + lists(`"%d-#"`) + `]}`),
		"constants and their enum":    argument(`{"allOf":[` + repeated(half, `{"const":%d}`) + `],"enum":[` + repeated(min(half, 3000), `%d`) + `],"description":"` + strings.Repeat("x", max(half-3000, 1)) + `"}`),
		"any of constants":            argument(`{"anyOf":[` + some(900, `{"const":"w%d","description":"#"}`) + `]}`),
		"one of constants":            argument(`{"oneOf":[` + some(200, `{"const":%d.0,"description":"#"}`) + `]}`),
		"any of strings":              argument(`{"anyOf":[` + some(400, `{"type":"string","maxLength":%d,"description":"#"}`) + `]}`),
		"one of strings":              argument(`{"oneOf":[` + some(200, `{"type":"string","enum":["%d"],"description":"#"}`) + `]}`),
		"one of many":                 argument(`{"oneOf":[` + repeated(rest, `{"const":%d}`) + `]}`),
		"one of objects":              argument(`{"oneOf":[` + some(200, `{"type":"object","title":"t","properties":{"k":{"const":%d}},"required":["k"],"description":"#"}`) + `]}`),
		"one of large numbers":        argument(`{"oneOf":[` + some(200, `{"type":"object","minProperties":1e999,"maxProperties":1e-999,"properties":{"k":{"const":%d}},"required":["k"],"description":"#"}`) + `]}`),
		"alternatives of one title":   argument(`{"anyOf":[` + some(400, `{"type":"object","title":"t","maxProperties":%d,"description":"#"}`) + `]}`),
		"equal titles":                argument(`{"anyOf":[` + some(400, `{"type":"object","title":"#","maxProperties":%d}`) + `]}`),
		"any of one description":      of("anyOf", `{"const":1,"description":"`+strings.Repeat("x", large)+`"}`),
		"required many times":         of("allOf", `{"required":[`+repeated(large, `"a%d"`)+`]}`),
		"properties many times":       of("allOf", `{"properties":{`+repeated(large, `"a%d":[]`)+`}}`),
		"many types":                  argument(`{"type":[` + repeated(rest, `"t%d"`) + `]}`),
		"one type many times":         argument(`{"type":[` + repeated(rest, `"object"`) + `]}`),
		"required together":           `{"allOf":[{"required":[` + repeated(half, `"a%d"`) + `]},{"required":[` + repeated(half, `"b%d"`) + `]}]}`,
		"references to an enum":       to(`{"enum":[` + repeated(min(half, 4000), `"%d"`) + `],"description":"` + strings.Repeat("x", max(large-4000, 1)) + `"}`),
		"references to equal words":   to(`{"enum":[` + repeated(large, `1`) + `]}`),
		"references to required":      to(`{"type":"object","properties":{"a":{"type":"string"}},"required":[` + repeated(large, `"a%d"`) + `]}`),
		"references to types":         to(`{"type":[` + repeated(large, `"null"`) + `]}`),
		"references to odd keywords":  to(`{"properties":{},` + repeated(large, `"k%d":0`) + `}`),
		"references to a large value": to(`{"const":"` + strings.Repeat("x", large) + `"}`),
		"references to a default":     to(`{"const":1,"default":[` + repeated(large, `%d`) + `]}`),
		"references to alternatives":  to(`{"type":"string","anyOf":[` + repeated(large, `{"minLength":1}`) + `]}`),
		"a long reference":            to(`{"$ref":"#/$defs/` + strings.Repeat("y", large) + `"}`),
		"alternatives that require":   `{"anyOf":[` + repeated(rest, `{"required":["a%d"]}`) + `]}`,
		"the root and alternatives":   `{"allOf":[` + repeated(half, `{"$ref":"#"}`) + `],"anyOf":[` + repeated(half/2, `{"$ref":"#/$defs/x"}`) + `],"$defs":{"x":{"required":[` + repeated(half/2, `"a%d"`) + `]}}}`,
		"titles of a long name":       `{"type":"object","properties":{"` + strings.Repeat("_", large) + `":{"anyOf":[` + repeated(few, `{"title":"a%d"}`) + `]}}}`,
	}
}

// largest are the crossed schemas of the largest size. They are made once.
var largest = sync.OnceValue(func() map[string]string { return crossed(most) })

// Schemas of the largest size end within the budget, whatever they cross.
func TestStepsOfCrossedSchemas(t *testing.T) {
	t.Parallel()
	for name, schema := range largest() {
		if len(schema) > most || len(schema) < most*9/10 || mcp.Validate([]byte(schema), mcp.Limits{Depth: 64}) != nil {
			t.Errorf("%s: %d bytes: %.200s", name, len(schema), schema)
		}
		strict := schemas.Strict([]byte(schema))
		steps, read := schemas.Steps([]byte(schema))
		t.Logf("%-28s %d bytes, %d and %d steps: %s", name, len(schema), steps, read, strict.Why)
		// The last part may be over the budget, and nothing is done for it.
		if steps > schemas.MostSteps && strict.Why == "" || max(steps, read) > schemas.MostSteps+len(schema) {
			t.Errorf("%s: %d and %d steps, %s", name, steps, read, strict.Why)
		}
		if len(strict.Schema) > most || strict.Why == "" && mcp.Validate(strict.Schema, mcp.Limits{}) != nil {
			t.Errorf("%s: %d bytes: %.200s", name, len(strict.Schema), strict.Schema)
		}
	}
}

// FuzzRewrite rewrites any bytes: within the budget, the same twice, and nothing more the
// second time.
func FuzzRewrite(f *testing.F) {
	for _, shapes := range []map[string]string{crossed(2 << 10), hostile()} {
		for _, name := range slices.Sorted(maps.Keys(shapes)) {
			if len(shapes[name]) < 4096 {
				f.Add([]byte(shapes[name]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		strict := schemas.Strict(schema)
		if again := schemas.Strict(schema); !bytes.Equal(again.Schema, strict.Schema) || again.Why != strict.Why {
			t.Fatalf("%s %s\nthen %s %s", strict.Schema, strict.Why, again.Schema, again.Why)
		}
		if strict.Why != "" {
			if !bytes.Equal(strict.Schema, schema) {
				t.Fatalf("%s\nbut stays: %s", strict.Schema, strict.Why)
			}
		} else if again := schemas.Strict(strict.Schema); again.Why != "" || !bytes.Equal(again.Schema, strict.Schema) {
			t.Fatalf("%s\nagain: %s %s", strict.Schema, again.Schema, again.Why)
		}
		if mcp.Validate(schema, mcp.Limits{Depth: 64}) != nil {
			return
		}
		compact := schemas.Compact(schema)
		if again := schemas.Compact(compact); !bytes.Equal(again, compact) {
			t.Fatalf("%s\nand again %s", compact, again)
		}
		if strict, arguments := schemas.Steps(schema); max(strict, arguments) > schemas.MostSteps+len(schema) {
			t.Fatalf("%d and %d steps", strict, arguments)
		}
	})
}

// Two numbers have one form if they are equal.
func TestFormsOfNumbers(t *testing.T) {
	t.Parallel()
	numbers := []string{
		"0", "-0", "0.0", "0e5", "-0.00e-3", "1", "1.0", "10e-1", "0.1e1", "100E-2", "-1", "-1.0", "-10e-1", "10", "1e1", "1E+1", "100e-1",
		"0.5", "5e-1", "50e-2", "-0.5", "123.456", "123456e-3", "0.00123456e5", "1e1000", "10e999", "1e-1000", "0.1e-999", "9007199254740993",
		"9007199254740993.0", "9007199254740992", "1.00000000000000000000000000000000001",
	}
	for _, one := range numbers {
		form, whole := schemas.Decimal(one)
		x, _ := new(big.Rat).SetString(one)
		if whole != x.IsInt() {
			t.Errorf("%s is whole: %v", one, whole)
		}
		for _, other := range numbers {
			y, _ := new(big.Rat).SetString(other)
			if also, _ := schemas.Decimal(other); (form == also) != (x.Cmp(y) == 0) {
				t.Errorf("%s is %s, %s is %s", one, form, other, also)
			}
		}
	}
	for _, one := range []string{"1e1001", "1e99999999999999999999", strings.Repeat("1", 1001)} {
		if form, whole := schemas.Decimal(one); form != one || whole {
			t.Errorf("%s: %s %v", one, form, whole)
		}
	}
}

// The needs of a translation are told for many members as for few.
func TestTranslateManyMembers(t *testing.T) {
	t.Parallel()
	strict := schemas.Strict([]byte(`{"type":"object","anyOf":[{"required":["a1","a2"]},{"required":["` + strings.Repeat("z", 100) + `"]}]}`))
	if !strict.Translates() {
		t.Fatal(strict.Why)
	}
	for _, from := range []int{0, 2} {
		arguments := `{"b":0,` + strings.ReplaceAll(repeated(5000, `"a%d":1`), `"a1"`, `"a`+strconv.Itoa(from+1_000_000)+`"`) + `}`
		if from == 0 {
			arguments = `{` + repeated(5000, `"a%d":1`) + `}`
		}
		got, err := strict.Translate([]byte(arguments))
		if (err == nil) != (from == 0) || err == nil && string(got) != arguments {
			t.Errorf("%.100s: %.100s %v", arguments, got, err)
		}
	}
}
