package jq

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/itchyny/gojq"
)

// errStopped ends a function of a run that was stopped. The meter knows why.
var errStopped = errors.New("stopped")

// cost says how the costs of a built-in function are charged before it runs. The zero
// cost is that of a function that neither copies nor walks anything.
type cost struct {
	input string   // guard of the input, see guards; empty for none
	args  []string // guards of the arguments; nil for none
	// rest guards the first argument, and knows the input as well.
	rest   string
	result string // guard of every result; empty for none
	own    bool   // only the prelude may call it
}

// functions are the built-in functions of gojq that may be called, by name and number of
// arguments. Those of the prelude may be called, too, and nothing else: a function that
// is not here can cost anything.
var functions = map[string]cost{
	"empty/0": {}, "path/1": {result: guardCopy}, "type/0": {}, "has/1": {}, "utf8bytelength/0": {},
	"infinite/0": {}, "nan/0": {}, "isfinite/0": {}, "isinfinite/0": {}, "isnan/0": {}, "isnormal/0": {}, "toboolean/0": {},
	"floor/0": {}, "sqrt/0": {}, "ceil/0": {}, "round/0": {}, "trunc/0": {}, "fabs/0": {}, "exp/0": {}, "exp2/0": {}, "exp10/0": {},
	"log/0": {}, "log2/0": {}, "log10/0": {}, "pow/2": {}, "fmin/2": {}, "fmax/2": {}, "fmod/2": {},
	"gmtime/0": {}, "mktime/0": {},
	"startswith/1": {}, "endswith/1": {}, "ltrimstr/1": {}, "rtrimstr/1": {}, "trimstr/1": {},
	"ltrim/0": {input: guardScan}, "rtrim/0": {input: guardScan}, "trim/0": {input: guardScan}, "length/0": {input: guardScan},
	"keys/0": {input: guardCopy}, "reverse/0": {input: guardCopy}, "ascii_downcase/0": {input: guardCopy}, "ascii_upcase/0": {input: guardCopy},
	"explode/0": {input: guardParts}, "implode/0": {input: guardParts}, "split/1": {input: guardParts},
	"tonumber/0": {input: guardNumber}, "tostring/0": {input: guardText}, "tojson/0": {input: guardText}, "fromjson/0": {input: guardParse},
	"error/0": {input: guardText}, "error/1": {args: []string{guardText}},
	"add/0": {input: guardText}, "flatten/0": {input: guardFlat}, "flatten/1": {input: guardFlat}, "join/1": {rest: guardJoin},
	"min/0": {input: guardSort}, "max/0": {input: guardSort}, "sort/0": {input: guardSort}, "unique/0": {input: guardSort},
	"contains/1": {rest: guardPairs}, "inside/1": {rest: guardPairs},
	"indices/1": {rest: guardFind}, "index/1": {rest: guardFind}, "rindex/1": {rest: guardFind},
	"transpose/0": {input: guardTranspose},
	"getpath/1":   {args: []string{guardPath}}, "setpath/2": {rest: guardOnePath, args: []string{"", guardCopy}}, "delpaths/1": {rest: guardPaths},

	"_range/3": {own: true}, "strptime/1": {own: true}, "strftime/1": {own: true}, "_tg_match/3": {own: true},
	"_min_by/1": {input: guardSort, args: []string{guardSort}, own: true}, "_max_by/1": {input: guardSort, args: []string{guardSort}, own: true},
	"_sort_by/1": {input: guardSort, args: []string{guardSort}, own: true}, "_group_by/1": {input: guardSort, args: []string{guardSort}, own: true},
	"_unique_by/1": {input: guardSort, args: []string{guardSort}, own: true},
}

// refused are functions of jq that are not there for a reason, by name.
var refused = map[string]string{
	"env": "there is no environment", "$ENV": "there is no environment", "input": "there is no other input", "inputs": "there is no other input",
	"input_filename": "there is no other input", "input_line_number": "there is no other input", "debug": "there is no output beside the results",
	"stderr": "there is no output beside the results", "now": "there is no clock", "localtime": "there is no clock", "halt": "a program ends with its results",
	"halt_error": "a program ends with its results", "modulemeta": "there are no modules", "get_search_list": "there are no modules",
}

// The guards: functions that return their input, and charge what comes after them. Their
// names cannot be written in a program.
const (
	guardEnter     = "_tg_enter"     // a function is called
	guardElement   = "_tg_element"   // becomes an element of a new array
	guardObject    = "_tg_object"    // is a new object
	guardEach      = "_tg_each"      // its elements are returned one by one
	guardCopy      = "_tg_copy"      // is copied, without what it refers to
	guardWhole     = "_tg_whole"     // becomes part of a value that is walked
	guardScan      = "_tg_scan"      // a text is read
	guardText      = "_tg_text"      // becomes a text
	guardParts     = "_tg_parts"     // becomes an array of parts
	guardParse     = "_tg_parse"     // a text becomes a value
	guardNumber    = "_tg_number"    // a text becomes a number
	guardFlat      = "_tg_flat"      // all values in it become elements
	guardSort      = "_tg_sort"      // its elements are compared with one another
	guardCompare   = "_tg_compare"   // is compared with another value
	guardTranspose = "_tg_transpose" // rows become columns
	guardIndex     = "_tg_index"     // is an index
	guardPath      = "_tg_path"      // is a path to look at
	// These have an argument, too.
	guardJoin     = "_tg_join"    // joined by the argument, which is returned
	guardPairs    = "_tg_pairs"   // compared with all of the argument, which is returned
	guardFind     = "_tg_find"    // searched for the argument, which is returned
	guardOnePath  = "_tg_onepath" // changed at the argument, which is returned
	guardPaths    = "_tg_paths"   // changed at all of the argument, which is returned
	guardTouch    = "_tg_touch"   // changed at all of the argument
	guardModify   = "_tg_modify"  // the same, and walked for what is deleted
	guardMultiply = "_tg_multiply"
	guardSubtract = "_tg_subtract"
)

// options are the guards of a meter for the compiler.
func (m *meter) options() []gojq.CompilerOption {
	var out []gojq.CompilerOption
	alone := func(name string, charge func(v any) error) {
		out = append(out, gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			if err := charge(v); err != nil {
				return err
			}
			return v
		}))
	}
	alone(guardEnter, func(any) error { return m.charge(m.enter, 0) })
	alone(guardElement, func(any) error { return m.charge(sizeElement, 0) })
	alone(guardObject, func(v any) error { return m.charge(sizeMember*(length(v)+1), 0) })
	alone(guardEach, func(v any) error {
		if _, text := v.(string); text {
			return nil // refused
		}
		return m.charge(sizeElement*length(v), 0)
	})
	alone(guardCopy, func(v any) error { return m.charge(shallow(v), length(v)/64) })
	alone(guardWhole, func(v any) error { return m.walked(v, func(_, _ int64) (int64, int64) { return shallow(v), 0 }) })
	alone(guardScan, func(v any) error {
		if text, ok := v.(string); ok {
			return m.charge(0, int64(len(text)/64))
		}
		return nil
	})
	alone(guardParts, func(v any) error { return m.charge(sizeElement*length(v), length(v)/8) })
	alone(guardParse, func(v any) error {
		if text, ok := v.(string); ok && longNumber(text) {
			return fmt.Errorf("there is a number of more than %d digits", maxDigits)
		}
		return m.charge(32*length(v), length(v))
	})
	alone(guardNumber, func(v any) error {
		if text, ok := v.(string); ok && len(text) > maxDigits {
			return errors.New("the number has too many digits")
		}
		return nil
	})
	alone(guardText, func(v any) error { return m.walked(v, func(_, bytes int64) (int64, int64) { return 6 * bytes, 0 }) })
	alone(guardFlat, func(v any) error {
		return m.walked(v, func(values, _ int64) (int64, int64) { return sizeElement * values, values })
	})
	alone(guardSort, func(v any) error {
		return m.walked(v, func(values, bytes int64) (int64, int64) { return sizeMember * length(v), 8*values + bytes/16 })
	})
	alone(guardCompare, func(v any) error {
		return m.walked(v, func(values, bytes int64) (int64, int64) { return 0, values + bytes/16 })
	})
	alone(guardTranspose, func(v any) error {
		rows, _ := v.([]any)
		longest := int64(0)
		for _, row := range rows {
			longest = max(longest, length(row))
		}
		return m.charge(sizeElement*longest*int64(len(rows)), int64(len(rows)))
	})
	alone(guardIndex, func(v any) error {
		if _, list := v.([]any); list {
			return errors.New("an array is no index here; use indices")
		}
		return nil
	})
	alone(guardPath, func(v any) error {
		path, _ := v.([]any)
		return m.path(path)
	})
	return append(out, m.optionsOfTwo()...)
}

// optionsOfTwo are the guards with an argument.
func (m *meter) optionsOfTwo() []gojq.CompilerOption {
	first := func(charge func(v, arg any) error) func(any, []any) any {
		return func(v any, args []any) any {
			if err := charge(v, args[0]); err != nil {
				return err
			}
			return args[0]
		}
	}
	pair := func(charge func(a, b any) error) func(any, []any) any {
		return func(_ any, args []any) any {
			if err := charge(args[0], args[1]); err != nil {
				return err
			}
			return []any{args[0], args[1]}
		}
	}
	changed := func(charge func(v any, paths []any) error) func(any, []any) any {
		return func(v any, args []any) any {
			paths, _ := args[0].([]any)
			if err := charge(v, paths); err != nil {
				return err
			}
			return v
		}
	}
	return []gojq.CompilerOption{
		gojq.WithFunction(guardJoin, 1, 1, first(func(v, arg any) error {
			return m.walked(v, func(_, bytes int64) (int64, int64) { return bytes + length(v)*length(arg), 0 })
		})),
		gojq.WithFunction(guardPairs, 1, 1, first(m.pairs)),
		gojq.WithFunction(guardFind, 1, 1, first(m.find)),
		gojq.WithFunction(guardOnePath, 1, 1, first(func(v, arg any) error { return m.touch(v, []any{arg}) })),
		gojq.WithFunction(guardPaths, 1, 1, first(func(v, arg any) error {
			paths, _ := arg.([]any)
			if err := m.modify(v, paths); err != nil {
				return err
			}
			return m.walked(arg, func(values, bytes int64) (int64, int64) { // they are sorted
				return sizeElement * length(arg), 2*values + bytes/16
			})
		})),
		gojq.WithFunction(guardTouch, 1, 1, changed(m.touch)),
		gojq.WithFunction(guardModify, 1, 1, changed(m.modify)),
		gojq.WithFunction(guardMultiply, 2, 2, pair(m.multiply)),
		gojq.WithFunction(guardSubtract, 2, 2, pair(func(a, b any) error {
			if _, list := a.([]any); list {
				return m.pairs(a, b)
			}
			return m.charge(shallow(a), 0)
		})),
		gojq.WithFunction("_tg_match", 3, 3, func(v any, args []any) any {
			re, ok := args[0].(string)
			flags, told := args[1].(string)
			if !ok || !told && args[1] != nil {
				return errors.New("a regular expression and its flags are texts")
			}
			return m.match(v, re, flags, args[2] == true)
		}),
	}
}

// walked measures a value and charges what follows from that. A value that holds no
// others is not measured, unless it is a text.
func (m *meter) walked(v any, charges func(values, bytes int64) (memory, steps int64)) error {
	values, bytes, err := m.measure(v)
	if err != nil {
		return err
	}
	return m.charge(charges(values, bytes))
}

// pairs charges the comparison of all values of a with all of b.
func (m *meter) pairs(a, b any) error {
	values, bytes, err := m.measure(a)
	if err != nil {
		return err
	}
	others, otherBytes, err := m.measure(b)
	if err != nil {
		return err
	}
	if err := m.charge(sizeElement*length(a), (bytes+otherBytes)/64); err != nil { // which bounds the products
		return err
	}
	return m.charge(0, values*others+(values*otherBytes+others*bytes)/512)
}

// find charges the search for b in a, at every place of it. Texts become arrays for that.
func (m *meter) find(a, b any) error {
	text, ok := a.(string)
	part, both := b.(string)
	if !ok || !both {
		return m.pairs(a, b)
	}
	if err := m.charge(sizeElement*int64(len(text)+len(part)), 0); err != nil { // which bounds the product
		return err
	}
	return m.charge(0, int64(max(len(text)-len(part)+1, 0))*int64(len(part))/16)
}

// maxBits is the size of a whole number that a multiplication may make.
const maxBits = 100_000

// multiply charges a * b: a text that is repeated, objects that are merged, large
// numbers.
func (m *meter) multiply(a, b any) error {
	if _, text := b.(string); text {
		a, b = b, a
	}
	switch a := a.(type) {
	case string:
		times, ok := gojq.ToFloat64(b)
		if !ok || math.IsNaN(times) || times <= 0 {
			return nil
		}
		if size := times * float64(len(a)); size > maxMemory {
			return m.charge(maxMemory+1, 0)
		}
		return m.charge(int64(times+1)*int64(len(a)), 0)
	case map[string]any:
		return errors.Join(m.merged(a), m.merged(b))
	}
	if bits(a)+bits(b) > maxBits {
		return m.stop("a number in it is too large")
	}
	return nil
}

func (m *meter) merged(v any) error {
	return m.walked(v, func(values, _ int64) (int64, int64) { return sizeMember * values, 0 })
}

func bits(v any) int {
	if n, ok := v.(*big.Int); ok {
		return n.BitLen()
	}
	return 0
}

// asIndex returns a number as an index of an array.
func asIndex(v any) (i int, ok bool) { return gojq.ToInt(v) }
