package jq

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/toolgate/toolgate/internal/mcp"
)

// decoder makes a value of validated JSON. Numbers keep their text, unless they are
// small whole ones.
type decoder struct {
	m    *meter
	text []byte
	at   int
}

func (d *decoder) space() {
	for d.at < len(d.text) && (d.text[d.at] == ' ' || d.text[d.at] == '\n' || d.text[d.at] == '\t' || d.text[d.at] == '\r') {
		d.at++
	}
}

// value reads the next value. The depth is bounded by the validation before.
func (d *decoder) value() (any, error) {
	d.space()
	switch d.text[d.at] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.str()
	case 't':
		d.at += len("true")
		return true, nil
	case 'f':
		d.at += len("false")
		return false, nil
	case 'n':
		d.at += len("null")
		return nil, nil
	}
	from := d.at
	for d.at < len(d.text) && isNumber(d.text[d.at]) {
		d.at++
	}
	if d.at-from > maxDigits {
		return nil, d.m.stop(fmt.Sprintf("there is a number of more than %d digits", maxDigits))
	}
	return number(string(d.text[from:d.at])), nil
}

func isNumber(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// maxDigits is how long the text of a number may be. Longer ones take long to read.
const maxDigits = 400

// longNumber reports whether a JSON text has a number of more than maxDigits.
func longNumber(text string) bool {
	run, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted, run = !quoted, 0
		case quoted && c == '\\':
			i++
		case quoted || !isNumber(c):
			run = 0
		default:
			if run++; run > maxDigits {
				return true
			}
		}
	}
	return false
}

// wholeDigits is how many digits of a whole number an int surely holds.
const wholeDigits = 15

func number(text string) any {
	if len(text) <= wholeDigits && text != "-0" {
		if i, err := strconv.Atoi(text); err == nil {
			return i
		}
	}
	return json.Number(text)
}

func (d *decoder) str() (string, error) {
	from := d.at
	for d.at++; d.text[d.at] != '"'; d.at++ {
		if d.text[d.at] == '\\' {
			d.at++
		}
	}
	d.at++
	token := d.text[from:d.at]
	if err := d.m.charge(int64(len(token)), 1); err != nil {
		return "", err
	}
	return mcp.Unquote(token)
}

func (d *decoder) array() (any, error) {
	out := []any{}
	d.at++
	for d.space(); d.text[d.at] != ']'; d.space() {
		if d.text[d.at] == ',' {
			d.at++
		}
		if err := d.m.charge(sizeElement, 1); err != nil {
			return nil, err
		}
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	d.at++
	return out, nil
}

func (d *decoder) object() (any, error) {
	out := map[string]any{}
	d.at++
	for d.space(); d.text[d.at] != '}'; d.space() {
		if d.text[d.at] == ',' {
			d.at++
			d.space()
		}
		if err := d.m.charge(sizeMember, 1); err != nil {
			return nil, err
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		d.space()
		d.at++ // the colon
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out[key] = v
	}
	d.at++
	return out, nil
}
