package decode

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
)

// secretType is of values in which variables are replaced: what is secret
// belongs in the environment. So are paths.
var secretType = reflect.TypeFor[secret.Text]()

// expanded returns a text of a kind in which variables are replaced with its
// variables replaced.
func (d *Decoder) expanded(n *tree.Node, v reflect.Value, tag reflect.StructTag) (*tree.Node, error) {
	if d.Expand == nil || n.Kind != tree.KindString || v.Type() != secretType && tag.Get("format") != "path" {
		return n, nil
	}
	text, err := d.Expand(n.Value)
	if err != nil || text == n.Value {
		return n, err
	}
	own := *n
	own.Value = text
	return &own, nil
}

func (d *Decoder) scalar(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
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
	d.Origins[path] = tree.OriginOf(d.File, n)
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
		text, hint, err := check(v.String(), d.Dir)
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

func (d *Decoder) bounds(n *tree.Node, v reflect.Value, tag reflect.StructTag, path string) {
	for _, name := range [...]string{"min", "max"} {
		text, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		bound := reflect.New(v.Type()).Elem()
		if _, err := setScalar(bound, &tree.Node{Kind: tree.KindString, Value: text}, true); err != nil {
			panic("decode: a bound of " + path + " " + err.Error()) // a mistake in the tags
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

var priorityHint = "write a whole number, or " + strings.Join(units.Priorities, ", ")

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
	case t == priorityType:
		if n.Kind != tree.KindString && n.Kind != tree.KindNumber {
			return priorityHint, fmt.Errorf("expected a priority, found %s", n.Describe())
		}
		p, err := units.ParsePriority(n.Value)
		if err != nil {
			return priorityHint, err
		}
		v.SetInt(int64(p))
	case t.Kind() == reflect.String:
		if n.Kind != tree.KindString {
			hint = "write one text, in quotes"
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
