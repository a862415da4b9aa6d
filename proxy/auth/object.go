package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// objectDepth bounds the nesting of documents from authorization servers.
const objectDepth = 16

// decodeObject parses a JSON object strictly: valid UTF-8, no duplicate member at any
// depth (RFC 7519 section 4), nothing after it, bounded nesting. Names are
// case-sensitive and numbers are json.Number, so that what is checked is what was
// signed.
func decodeObject(data []byte) (map[string]any, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errors.New("it is not JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	value, err := decodeValue(dec, objectDepth)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return object, nil
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == 0 {
		return nil, fmt.Errorf("it is nested deeper than %d", objectDepth)
	}
	var value any
	if open == '{' {
		value, err = decodeMembers(dec, depth-1)
	} else {
		value, err = decodeItems(dec, depth-1)
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != nil { // the closing delimiter
		return nil, err
	}
	return value, nil
}

func decodeMembers(dec *json.Decoder, depth int) (map[string]any, error) {
	object := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("a member of an object has no name")
		}
		if _, twice := object[name]; twice {
			return nil, errors.New("an object has the same member twice")
		}
		if object[name], err = decodeValue(dec, depth); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func decodeItems(dec *json.Decoder, depth int) ([]any, error) {
	list := []any{}
	for dec.More() {
		item, err := decodeValue(dec, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// member returns an optional member that must be a string.
func member(object map[string]any, name string) (value string, ok bool, err error) {
	v, ok := object[name]
	if !ok {
		return "", false, nil
	}
	value, isText := v.(string)
	if !isText {
		return "", true, fmt.Errorf("%q is not a string", name)
	}
	return value, true, nil
}
