package decode

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[units.Size]()
	priorityType = reflect.TypeFor[units.Priority]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// Decoder fills structs from a tree, strictly, noting every fault and the
// origin of every value. It is used by one goroutine.
type Decoder struct {
	*tree.Problems
	// Dir is the folder that relative paths are relative to; empty leaves them.
	Dir string
	// Expand replaces the variables in secrets and paths; nil leaves them.
	Expand func(text string) (string, error)
	// Instead says what to write in place of a setting that was removed, by its path with
	// "*" for names chosen in the file; "" for any other. Nil knows none.
	Instead func(path string) string
	// Origins takes where each value came from, by its path.
	Origins map[string]tree.Origin
}

// New returns a decoder of settings that are all available, without variables.
func New(p *tree.Problems, dir string) *Decoder {
	return &Decoder{Problems: p, Dir: dir, Origins: map[string]tree.Origin{}}
}

// NotAvailable is the problem of a setting of a client that toolgate does not use.
const NotAvailable = "not available in this version"

// Shorthand is implemented by pointers to structs that may be written as
// something else than a map.
type Shorthand interface {
	// Long is the map that such a value stands for. The error says what is wrong
	// with it, and the hint what to write.
	Long(n *tree.Node) (long *tree.Node, hint string, err error)
}

// Synonyms is implemented by pointers to structs that know keys of other documents for
// their own settings.
type Synonyms interface {
	// Synonym returns the setting that an unknown key means and its value in the form of
	// that setting, or what to write instead. It returns nothing for other keys.
	Synonym(key string, value *tree.Node) (setting string, as *tree.Node, hint string)
}

// Checker is implemented by pointers to sections that know what several of their
// values together can have wrong. Whoever decodes a section calls it.
type Checker interface {
	// Check adds the faults of the section, which is at n and has the path.
	Check(p *tree.Problems, n *tree.Node, path string)
}

// Decode reads n into the struct that v points at, over what is there. The
// pattern is the path of the struct, with "*" for chosen names; paths of values
// begin at the struct.
func (d *Decoder) Decode(n *tree.Node, v any, pattern string) {
	d.decode(n, reflect.ValueOf(v).Elem(), "", "", pattern)
}

// Defaults gives every field with a default tag its default, in the struct that v
// points at and in the structs in it, but not in maps and lists, whose elements get
// theirs when they are read.
func Defaults(v any) { setDefaults(reflect.ValueOf(v).Elem()) }

// Fill gives the fields that are zero their default, as [Defaults] does, in settings
// that were written in Go.
func Fill(v any) {
	s := reflect.ValueOf(v).Elem()
	all := reflect.New(s.Type())
	Defaults(all.Interface())
	fill(s, all.Elem())
}

func fill(v, defaults reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			fill(f, defaults.Field(i))
		case f.IsZero():
			f.Set(defaults.Field(i))
		}
	}
}

// fields keeps what [Fields] found, by type.
var fields sync.Map

// Fields are the settings of a struct in their order. Those of an embedded struct
// are its own, so that one map of a file may be of several packages.
func Fields(t reflect.Type) []reflect.StructField {
	if known, ok := fields.Load(t); ok {
		return known.([]reflect.StructField)
	}
	all := slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous || f.Tag.Get("config") == "-" })
	fields.Store(t, all)
	return all
}

func setDefaults(v reflect.Value) {
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		if fv.Kind() == reflect.Struct {
			setDefaults(fv)
			continue
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			if _, err := setScalar(fv, &tree.Node{Kind: tree.KindString, Value: text}, true); err != nil {
				panic("decode: the default of " + f.Name + " " + err.Error()) // a mistake in the tags
			}
		}
	}
}

// decode reads n into v. The path is the value's own; the pattern is the same
// with "*" for chosen names.
func (d *Decoder) decode(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
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

func (d *Decoder) object(n *tree.Node, v reflect.Value, path, pattern string) {
	if n.Kind != tree.KindMap {
		if short, ok := reflect.TypeAssert[Shorthand](v.Addr()); ok {
			long, hint, err := short.Long(n)
			if err != nil {
				d.At(n, path, hint, "%v", err)
				return
			}
			n = long
		}
	}
	if n.Kind != tree.KindMap {
		d.At(n, path, "write { } with settings in it", "expected a map, found %s", n.Kind)
		return
	}
	settings := Fields(v.Type())
	byKey := map[string]reflect.StructField{}
	var known []string
	for _, f := range settings {
		key := f.Tag.Get("config")
		byKey[key] = f
		known = append(known, key)
	}
	for _, f := range n.Fields {
		setting, ok := byKey[f.Key]
		switch {
		case !ok:
			d.synonym(n, f, v, path, pattern, byKey, known)
		case f.Value.IsNull():
		default:
			d.decode(f.Value, v.FieldByIndex(setting.Index), setting.Tag, tree.Join(path, f.Key), tree.Join(pattern, f.Key))
		}
	}
	for _, f := range settings { // in their order, so that the same file has the same messages
		key := f.Tag.Get("config")
		if f.Tag.Get("required") == "true" && n.Get(key).IsNull() {
			d.At(n, tree.Join(path, key), "add "+key+": ...", "is required and missing")
		}
	}
}

// synonym reads a key that is none of the settings of an object.
func (d *Decoder) synonym(n *tree.Node, f tree.Field, v reflect.Value, path, pattern string, byKey map[string]reflect.StructField, known []string) {
	at := tree.Join(path, f.Key)
	var key, hint string
	var as *tree.Node
	if s, ok := reflect.TypeAssert[Synonyms](v.Addr()); ok && !f.Value.IsNull() {
		key, as, hint = s.Synonym(f.Key, f.Value)
	}
	instead := ""
	if d.Instead != nil {
		instead = d.Instead(tree.Join(pattern, f.Key))
	}
	switch setting, ok := byKey[key]; {
	case instead != "":
		d.AtField(f, at, instead, "is not a setting")
	case hint != "":
		d.AtField(f, at, hint, "unknown key")
	case !ok:
		d.AtField(f, at, d.DidYouMean(f.Key, known), "unknown key")
	case !n.Get(key).IsNull():
		d.AtField(f, at, "remove one of the two", "%s says the same, and is there, too", key)
	default:
		d.decode(as, v.FieldByIndex(setting.Index), setting.Tag, tree.Join(path, key), tree.Join(pattern, key))
	}
}

func (d *Decoder) mapping(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
	if n.Kind != tree.KindMap {
		d.At(n, path, "write { } with settings in it", "expected a map, found %s", n.Kind)
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

func (d *Decoder) list(n *tree.Node, v reflect.Value, tag reflect.StructTag, path, pattern string) {
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
	d.Origins[path] = tree.OriginOf(d.File, n)
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

func (d *Decoder) raw(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
	if tag.Get("format") == "object" && n.Kind != tree.KindMap {
		d.At(n, path, "write { } with settings in it", "expected a map, found %s", n.Kind)
		return
	}
	raw, err := n.JSON()
	if err != nil {
		d.At(n, path, "", "%v", err)
		return
	}
	v.SetBytes(raw)
	d.Origins[path] = tree.OriginOf(d.File, n)
}
