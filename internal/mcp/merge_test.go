package mcp

import "testing"

func TestMerge(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{`{}`, `{}`, `{}`},
		{`{"a":{}}`, `{"b":{}}`, `{"a":{},"b":{}}`},
		{`{"ui":{"mimeTypes":["x","y"]}}`, `{"ui":{"mimeTypes":["y","z"],"n":1}}`, `{"ui":{"mimeTypes":["x","y","z"],"n":1}}`},
		{`{"a":1}`, `{"a":2}`, `{"a":1}`},
		{`{"a":1}`, `{"a":{"b":1}}`, `{"a":1}`},
		{`{"a":[]}`, `{"a":[]}`, `{"a":[]}`},
		{`{"a":[ ]}`, `{"a":[]}`, `{"a":[ ]}`},
		{`{"a":[{"b":1,"c":2}]}`, `{"a":[{"c":2,"b":1}]}`, `{"a":[{"b":1,"c":2}]}`},
		{`{"a":{"b":{"c":{"d":{"e":1}}}}}`, `{"a":{"b":{"c":{"d":{"f":1}}}}}`, `{"a":{"b":{"c":{"d":{"e":1}}}}}`},
	}
	for _, tt := range tests {
		if got := Merge([]byte(tt.a), []byte(tt.b)); Validate(got, Limits{}) != nil || Hash(got) != Hash([]byte(tt.want)) {
			t.Errorf("Merge(%s, %s) = %s, want %s", tt.a, tt.b, got, tt.want)
		}
		if got := Merge([]byte(tt.want), []byte(tt.b)); Hash(got) != Hash([]byte(tt.want)) {
			t.Errorf("merging %s again gives %s", tt.b, got)
		}
	}
}
