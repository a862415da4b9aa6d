package config

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// The struct tags that the decoder, the schema and the overrides all read:
//
//	config:"name"     the key in the file
//	default:"text"    the value of an absent key, as it would be written
//	enum:"a|b"        the allowed texts
//	min:"…" max:"…"   the allowed range, in the notation of the type
//	format:"name"     a further check, by name in formats
//	required:"true"   an absent or empty value is an error
//	list:"one"        a list of one may be written as its element alone
var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[units.Size]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// decoder fills structs from a tree, strictly, noting every fault and the
// origin of every value.
type decoder struct {
	*tree.Problems
	dir     string // relative paths are relative to it
	vars    *expander
	origins map[string]tree.Origin
}

// setDefaults gives every field with a default tag its default, through nested
// structs but not into maps and lists, whose elements get theirs when they are
// read.
func setDefaults(v reflect.Value) {
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		if fv.Kind() == reflect.Struct {
			setDefaults(fv)
			continue
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			if _, err := setScalar(fv, &tree.Node{Kind: tree.KindString, Value: text}, true); err != nil {
				panic("config: the default of " + f.Name + " " + err.Error()) // a mistake in this package's own tags
			}
		}
	}
}

// decode reads n into v. The path is the value's own; the pattern is the same
// with "*" for chosen names.
func (d *decoder) decode(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
	if n.IsNull() {
		return
	}
	switch t := v.Type(); {
	case t == rawType:
		d.raw(n, v, tag, path)
	case t.Kind() == reflect.Struct:
		d.object(n, v, path, pattern)
	case t.Kind() == reflect.Map:
		d.mapping(n, v, tag, path, pattern)
	case t.Kind() == reflect.Slice:
		d.list(n, v, tag, path, pattern)
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		before := len(d.Problems.List)
		d.decode(n, p.Elem(), tag, path, pattern)
		if len(d.Problems.List) == before {
			v.Set(p)
		}
	default:
		d.scalar(n, v, tag, path)
	}
}

func (d *decoder) object(n *tree.Node, v reflect.Value, path, pattern string) {
	if short := shorthands[v.Type()]; short != nil && n.Kind != tree.KindMap {
		long, err := short(n)
		if err != nil {
			d.At(n, path, "write a number of calls a month, unlimited, or a map such as { tool_calls: 1000, window: day }", "%v", err)
			return
		}
		n = long
	}
	if n.Kind != tree.KindMap {
		d.At(n, path, "", "expected a map, found %s", n.Kind)
		return
	}
	t := v.Type()
	byKey := map[string]int{}
	var known []string
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("config")
		byKey[key] = i
		if Available(tree.Join(pattern, key)) {
			known = append(known, key)
		}
	}
	for _, f := range n.Fields {
		i, ok := byKey[f.Key]
		switch {
		case !ok:
			d.AtField(f, tree.Join(path, f.Key), d.DidYouMean(f.Key, known), "unknown key")
		case f.Value.IsNull():
		case !Available(tree.Join(pattern, f.Key)):
			d.AtField(f, tree.Join(path, f.Key), "remove it", notAvailable)
		default:
			d.decode(f.Value, v.Field(i), t.Field(i).Tag, tree.Join(path, f.Key), tree.Join(pattern, f.Key))
		}
	}
	for f := range t.Fields() { // in their order, so that the same file has the same messages
		key := f.Tag.Get("config")
		if f.Tag.Get("required") == "true" && n.Get(key).IsNull() {
			d.At(n, tree.Join(path, key), "add "+key+": ...", "is required and missing")
		}
	}
}

func (d *decoder) mapping(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
	if n.Kind != tree.KindMap {
		d.At(n, path, "", "expected a map, found %s", n.Kind)
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.Fields))
	for _, f := range n.Fields {
		elem := reflect.New(v.Type().Elem()).Elem()
		if elem.Kind() == reflect.Struct {
			setDefaults(elem)
		}
		d.decode(f.Value, elem, tag, tree.Join(path, f.Key), tree.Join(pattern, "*"))
		m.SetMapIndex(reflect.ValueOf(f.Key), elem)
	}
	v.Set(m)
}

func (d *decoder) list(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
	items := n.Items
	if n.Origin != nil && n.Kind == tree.KindString {
		items = splitList(n)
	} else if n.Kind != tree.KindList && tag.Get("list") == "one" {
		items = []*tree.Node{n}
	} else if n.Kind != tree.KindList {
		d.At(n, path, "put it in [ ]", "expected a list, found %s", n.Kind)
		return
	}
	s := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		p := path + "[" + strconv.Itoa(i) + "]"
		if s.Index(i).Kind() == reflect.Struct {
			setDefaults(s.Index(i))
		}
		if item.IsNull() {
			d.At(item, p, "remove it", "is empty")
			continue
		}
		d.decode(item, s.Index(i), tag, p, pattern)
	}
	v.Set(s)
	d.origins[path] = tree.OriginOf(d.File, n)
}

// splitList reads the list that a flag or a variable gives, separated by commas.
func splitList(n *tree.Node) []*tree.Node {
	var items []*tree.Node
	for part := range strings.SplitSeq(n.Value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			items = append(items, &tree.Node{Kind: tree.KindString, Value: part, Origin: n.Origin})
		}
	}
	return items
}

func (d *decoder) raw(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
	if tag.Get("format") == "object" && n.Kind != tree.KindMap {
		d.At(n, path, "", "expected a map, found %s", n.Kind)
		return
	}
	raw, err := n.JSON()
	if err != nil {
		d.At(n, path, "", "%v", err)
		return
	}
	v.SetBytes(raw)
	d.origins[path] = tree.OriginOf(d.File, n)
}

// secretType is of values in which variables are replaced: what is secret
// belongs in the environment. So are paths.
var secretType = reflect.TypeFor[Secret]()

// expanded returns a text of a kind in which variables are replaced with its
// variables replaced.
func (d *decoder) expanded(n *tree.Node, v reflect.Value, tag reflect.StructTag) (*tree.Node, error) {
	if d.vars == nil || n.Kind != tree.KindString || v.Type() != secretType && tag.Get("format") != "path" {
		return n, nil
	}
	text, err := d.vars.expand(n.Value)
	if err != nil || text == n.Value {
		return n, err
	}
	own := *n
	own.Value = text
	return &own, nil
}

func (d *decoder) scalar(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
	n, err := d.expanded(n, v, tag)
	if err != nil {
		d.At(n, path, "", "%v", err)
		d.Because(err)
		return
	}
	if hint, err := setScalar(v, n, n.Origin != nil); err != nil {
		if enum := tag.Get("enum"); enum != "" {
			hint = "write " + strings.ReplaceAll(enum, "|", " or ")
		}
		if tag.Get("format") == "address" {
			hint = addressHint
		}
		d.At(n, path, hint, "%v", err)
		return
	}
	d.origins[path] = tree.OriginOf(d.File, n)
	if enum := tag.Get("enum"); enum != "" {
		allowed := strings.Split(enum, "|")
		if !slices.Contains(allowed, v.String()) {
			hint := "write " + strings.Join(allowed, " or ")
			if near := tree.Nearest(v.String(), allowed); near != "" {
				hint = "write " + near + " instead"
			}
			d.At(n, path, hint, "%q is not one of %s", v.String(), strings.Join(allowed, ", "))
			return
		}
	}
	d.bounds(n, v, tag, path)
	if check := formats[tag.Get("format")]; check != nil {
		text, hint, err := check(v.String(), d.dir)
		if err != nil {
			d.At(n, path, hint, "%v", err)
			return
		}
		v.SetString(text)
	}
	if tag.Get("required") == "true" && v.Kind() == reflect.String && v.String() == "" {
		d.At(n, path, "", "is required and empty")
	}
}

func (d *decoder) bounds(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
	for _, name := range [...]string{"min", "max"} {
		text, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		bound := reflect.New(v.Type()).Elem()
		if _, err := setScalar(bound, &tree.Node{Kind: tree.KindString, Value: text}, true); err != nil {
			panic("config: a bound of " + path + " " + err.Error()) // a mistake in this package's own tags
		}
		c := compareNumbers(v, bound)
		if name == "min" && c < 0 {
			d.At(n, path, "write "+text+" or more", "%s is too small", n.Value)
		}
		if name == "max" && c > 0 {
			d.At(n, path, "write "+text+" or less", "%s is too large", n.Value)
		}
	}
}

func compareNumbers(a, b reflect.Value) int {
	if a.CanFloat() {
		return big.NewFloat(a.Float()).Cmp(big.NewFloat(b.Float()))
	}
	return big.NewInt(a.Int()).Cmp(big.NewInt(b.Int()))
}

// setScalar converts a scalar to v's type. A lenient one comes from a flag, a
// variable or a tag, where everything is text.
func setScalar(v reflect.Value, n *tree.Node, lenient bool) (hint string, err error) {
	switch t := v.Type(); {
	case t == durationType:
		if n.Kind != tree.KindString {
			if n.Kind == tree.KindNumber {
				hint = fmt.Sprintf("write %ss", n.Value)
			}
			return hint, fmt.Errorf("expected a duration such as 30s, found %s", n.Kind)
		}
		dur, err := units.ParseDuration(n.Value)
		if err != nil {
			return "write a number with a unit, such as 500ms, 30s, 5m, 1h or 7d", err
		}
		v.SetInt(int64(dur))
	case t == sizeType:
		if n.Kind != tree.KindString && n.Kind != tree.KindNumber {
			return "", fmt.Errorf("expected a size such as 16MiB, found %s", n.Kind)
		}
		size, err := units.ParseSize(n.Value)
		if err != nil {
			return "write a whole number with a unit, such as 64KiB, 16MiB or 10MB", err
		}
		v.SetInt(int64(size))
	case t.Kind() == reflect.String:
		if n.Kind != tree.KindString {
			if n.Kind == tree.KindNumber || n.Kind == tree.KindBool {
				hint = "put it in quotes"
			}
			return hint, fmt.Errorf("expected text, found %s", n.Kind)
		}
		v.SetString(n.Value)
	case t.Kind() == reflect.Bool:
		if n.Kind != tree.KindBool && (!lenient || n.Kind != tree.KindString || n.Value != "true" && n.Value != "false") {
			return "write true or false", fmt.Errorf("expected true or false, found %s", n.Describe())
		}
		v.SetBool(n.Value == "true")
	case v.CanInt():
		i, ok := tree.ParseInteger(strings.ReplaceAll(n.Value, "_", ""))
		if !ok || n.Kind != tree.KindNumber && (!lenient || n.Kind != tree.KindString) {
			return "write a whole number", fmt.Errorf("expected a whole number, found %s", n.Describe())
		}
		if !i.IsInt64() || v.OverflowInt(i.Int64()) {
			return "", fmt.Errorf("the number %.40s is too large", n.Value)
		}
		v.SetInt(i.Int64())
	case v.CanFloat():
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || n.Kind != tree.KindNumber && (!lenient || n.Kind != tree.KindString) {
			return "write a number", fmt.Errorf("expected a number, found %s", n.Describe())
		}
		v.SetFloat(f)
	default:
		return "", fmt.Errorf("cannot be set to %s", n.Kind)
	}
	return "", nil
}
