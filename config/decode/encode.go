package decode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/toolgate/toolgate/config/secret"
)

// Encode returns the settings of a struct that differ from their defaults as a JSON
// object, in the form in which a configuration file has them; nil when all are defaults.
// A secret is "[redacted]". It panics where v is no struct of settings.
func Encode(v any) json.RawMessage {
	value := reflect.ValueOf(v)
	defaults := reflect.New(value.Type()).Elem()
	setDefaults(defaults)
	members := differing(value, defaults)
	if len(members) == 0 {
		return nil
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic("decode: settings that are no JSON: " + err.Error()) // they were read from text
	}
	return raw
}

// Value returns one setting in the form in which a configuration file has it: a value of
// strings, numbers, maps and slices. A secret is "[redacted]".
func Value(v any) any {
	value := reflect.ValueOf(v)
	return written(value, zeroOf(value.Type()))
}

// differing returns the members of a struct that differ from those of defaults.
func differing(v, defaults reflect.Value) map[string]any {
	out := map[string]any{}
	for _, f := range Fields(v.Type()) {
		is, was := v.FieldByIndex(f.Index), defaults.FieldByIndex(f.Index)
		if reflect.DeepEqual(is.Interface(), was.Interface()) {
			continue
		}
		out[f.Tag.Get("config")] = written(is, was)
	}
	return out
}

// written is a value as a file has it.
func written(v, defaults reflect.Value) any {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		return value
	case secret.Text:
		return "[redacted]"
	case time.Duration:
		return value.String()
	case encoding.TextMarshaler:
		return value
	case fmt.Stringer:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return written(v.Elem(), zeroOf(v.Type().Elem()))
	case reflect.Struct:
		if !defaults.IsValid() {
			defaults = zeroOf(v.Type())
		}
		return differing(v, defaults)
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		out := make(map[string]any, v.Len())
		for of := v.MapRange(); of.Next(); {
			out[of.Key().String()] = written(of.Value(), zeroOf(v.Type().Elem()))
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = written(v.Index(i), zeroOf(v.Type().Elem()))
		}
		return out
	}
	return v.Interface()
}

// zeroOf is a value of a type with its defaults.
func zeroOf(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if t.Kind() == reflect.Struct {
		setDefaults(v)
	}
	return v
}
