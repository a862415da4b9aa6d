package toolapi_test

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/toolapi"
)

func TestRead(t *testing.T) {
	for raw, want := range map[string]string{
		``:   "",
		`{}`: "",
		`{"text":"a\u00e9","yes":true,"count":3,"size":9007199254740993}`: "",
		`{"Text":"a"}`:            `no argument "Text"; there are count, size, text, yes`,
		`{"text":"a","text":"b"}`: "not a JSON object",
		`{"text":1}`:              "text is not a text",
		`{"yes":1}`:               "yes is not true or false",
		`{"yes":"true"}`:          "yes is not true or false",
		`{"count":1.5}`:           "count is not a whole number",
		`{"count":"1"}`:           "count is not a whole number",
		`{"size":1e3}`:            "size is not a whole number",
		`{"size":null}`:           "size is not a whole number",
		`[]`:                      "not a JSON object",
		`{`:                       "not a JSON object",
	} {
		var text string
		var yes bool
		var count int
		var size int64
		err := toolapi.Read([]byte(raw), toolapi.Fields{"text": &text, "yes": &yes, "count": &count, "size": &size})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", raw, err, want)
		case strings.HasPrefix(raw, `{"text":"a\`) && (text != "aé" || !yes || count != 3 || size != 9007199254740993):
			t.Errorf("%s: %q, %v, %d, %d", raw, text, yes, count, size)
		}
	}
}
