package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestParamHeadersFindsAnnotations(t *testing.T) {
	type found = []mcp.ParamHeader
	for name, tc := range map[string]struct {
		schema string
		want   found
	}{
		"example of the specification": {
			`{"type":"object","properties":{
				"region":{"type":"string","description":"The region to execute the query in","x-mcp-header":"Region"},
				"query":{"type":"string","description":"The SQL query to execute"}},"required":["region","query"]}`,
			found{{Name: "Region", Path: []string{"region"}}},
		},
		"none":                  {`{"type":"object","properties":{"a":{"type":"string"}}}`, nil},
		"no schema":             {``, nil},
		"true":                  {`true`, nil},
		"every type":            {`{"properties":{"s":{"type":"string","x-mcp-header":"S"},"i":{"x-mcp-header":"I","type":"integer"},"b":{"type":"boolean","x-mcp-header":"B"}}}`, found{{"S", []string{"s"}}, {"I", []string{"i"}}, {"B", []string{"b"}}}},
		"nested":                {`{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}}}}}}`, found{{"C", []string{"a", "b", "c"}}}},
		"every token character": {"{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"aZ09!#$%&'*+-.^_`|~\"}}}", found{{"aZ09!#$%&'*+-.^_`|~", []string{"a"}}}},
		"spelled in escapes":    {`{"pr\u006fperties":{"\u0061/b":{"t\u0079pe":"str\u0069ng","x-mcp-h\u0065ader":"\u0041"}}}`, found{{"A", []string{"a/b"}}}},
		"siblings":              {`{"properties":{"a":{"properties":{"x":{"type":"string","x-mcp-header":"AX"},"y":{"type":"string","x-mcp-header":"AY"}}},"b":{"properties":{"x":{"type":"string","x-mcp-header":"BX"}}}}}`, found{{"AX", []string{"a", "x"}}, {"AY", []string{"a", "y"}}, {"BX", []string{"b", "x"}}}},
		"deep siblings":         {`{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{"x":{"type":"string","x-mcp-header":"X"},"y":{"type":"string","x-mcp-header":"Y"}}}}}}}}}`, found{{"X", []string{"a", "b", "c", "x"}}, {"Y", []string{"a", "b", "c", "y"}}}},
		"white space":           {"\n{ \"properties\" : { \"a\" : { \"type\" : \"string\" , \"x-mcp-header\" : \"A\" } } }\n", found{{"A", []string{"a"}}}},

		// properties whose names are words of schemas
		"a property x-mcp-header":            {`{"properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		"a property x-mcp-header, annotated": {`{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"X"}}}`, found{{"X", []string{"x-mcp-header"}}}},
		"a property properties":              {`{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}`, found{{"P", []string{"properties"}}}},
		"properties all the way":             {`{"properties":{"properties":{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}}}`, found{{"P", []string{"properties", "properties"}}}},
		"properties named like keywords":     {`{"properties":{"items":{"type":"string","x-mcp-header":"I"},"const":{"type":"string","x-mcp-header":"C"},"anyOf":{"type":"string","x-mcp-header":"A"},"$ref":{"type":"string","x-mcp-header":"R"},"type":{"type":"string","x-mcp-header":"T"}}}`, found{{"I", []string{"items"}}, {"C", []string{"const"}}, {"A", []string{"anyOf"}}, {"R", []string{"$ref"}}, {"T", []string{"type"}}}},
		"a definition x-mcp-header":          {`{"$defs":{"x-mcp-header":{"type":"string"}},"definitions":{"x-mcp-header":{}},"patternProperties":{"x-mcp-header":{}},"dependentSchemas":{"x-mcp-header":{}}}`, nil},
		"required x-mcp-header":              {`{"properties":{"x-mcp-header":true},"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["x-mcp-header"]}}`, nil},

		// values that look like schemas
		"in values": {`{"properties":{"a":{"type":"object","default":{"x-mcp-header":1},"const":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}],"examples":[{"properties":{"b":{"x-mcp-header":""}}}]}}}`, nil},
		"in text":   {`{"properties":{"a":{"type":"string","description":"see x-mcp-header"}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mcp.ParamHeaders([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParamHeaders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParamHeadersRefuses(t *testing.T) {
	const (
		unreachable = "x-mcp-header on something that is not a statically reachable property"
		noToken     = "is not an HTTP field name"
		noPrimitive = "on a property that is not a string, integer or boolean"
		twice       = "is used twice"
	)
	annotated := `{"type":"string","x-mcp-header":"A"}`
	for name, tc := range map[string]struct{ schema, want string }{
		"empty":              {`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, noToken},
		"space":              {`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, noToken},
		"colon":              {`{"properties":{"a":{"type":"string","x-mcp-header":"a:"}}}`, noToken},
		"line break":         {`{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nX: y"}}}`, noToken},
		"not ASCII":          {`{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`, noToken},
		"separators":         {`{"properties":{"a":{"type":"string","x-mcp-header":"(a)"}}}`, noToken},
		"number":             {`{"properties":{"a":{"type":"string","x-mcp-header":5}}}`, noToken},
		"null":               {`{"properties":{"a":{"type":"string","x-mcp-header":null}}}`, noToken},
		"object":             {`{"properties":{"a":{"type":"string","x-mcp-header":{"type":"string"}}}}`, noToken},
		"type number":        {`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, noPrimitive},
		"type object":        {`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, noPrimitive},
		"type array":         {`{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}`, noPrimitive},
		"type null":          {`{"properties":{"a":{"type":"null","x-mcp-header":"A"}}}`, noPrimitive},
		"several types":      {`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, noPrimitive},
		"no type":            {`{"properties":{"a":{"x-mcp-header":"A"}}}`, noPrimitive},
		"type in its values": {`{"properties":{"a":{"enum":[{"type":"string"}],"x-mcp-header":"A"}}}`, noPrimitive},
		"twice":              {`{"properties":{"a":` + annotated + `,"b":` + annotated + `}}`, twice},
		"twice in any case":  {`{"properties":{"a":` + annotated + `,"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`, twice},

		"root":                  {`{"type":"string","x-mcp-header":"A"}`, unreachable},
		"items":                 {`{"properties":{"a":{"type":"array","items":` + annotated + `}}}`, unreachable},
		"properties in items":   {`{"properties":{"a":{"type":"array","items":{"properties":{"b":` + annotated + `}}}}}`, unreachable},
		"prefixItems":           {`{"properties":{"a":{"prefixItems":[` + annotated + `]}}}`, unreachable},
		"contains":              {`{"properties":{"a":{"contains":` + annotated + `}}}`, unreachable},
		"anyOf":                 {`{"anyOf":[{"properties":{"a":` + annotated + `}}]}`, unreachable},
		"oneOf of a property":   {`{"properties":{"a":{"oneOf":[` + annotated + `]}}}`, unreachable},
		"allOf":                 {`{"properties":{"a":{"allOf":[{},` + annotated + `]}}}`, unreachable},
		"not":                   {`{"not":{"properties":{"a":` + annotated + `}}}`, unreachable},
		"if":                    {`{"if":{"properties":{"a":` + annotated + `}}}`, unreachable},
		"then":                  {`{"then":{"properties":{"a":` + annotated + `}}}`, unreachable},
		"else":                  {`{"else":{"properties":{"a":` + annotated + `}}}`, unreachable},
		"$defs behind $ref":     {`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":` + annotated + `}}`, unreachable},
		"definitions":           {`{"definitions":{"x":` + annotated + `}}`, unreachable},
		"a definition const":    {`{"$defs":{"const":` + annotated + `}}`, unreachable},
		"a definition default":  {`{"$defs":{"default":{"properties":{"a":` + annotated + `}}}}`, unreachable},
		"patternProperties":     {`{"patternProperties":{"^a":` + annotated + `}}`, unreachable},
		"a pattern properties":  {`{"patternProperties":{"properties":` + annotated + `}}`, unreachable},
		"dependentSchemas":      {`{"dependentSchemas":{"a":{"properties":{"b":` + annotated + `}}}}`, unreachable},
		"additionalProperties":  {`{"additionalProperties":` + annotated + `}`, unreachable},
		"unknown keyword":       {`{"x-own":{"properties":{"a":` + annotated + `}}}`, unreachable},
		"properties as a list":  {`{"properties":[` + annotated + `]}`, unreachable},
		"a list for a schema":   {`{"properties":{"a":[` + annotated + `]}}`, unreachable},
		"list of lists":         {`[[` + annotated + `]]`, unreachable},
		"spelled in escapes":    {`{"it\u0065ms":{"type":"string","x\u002dmcp\u002dheader":"A"}}`, unreachable},
		"one good and one else": {`{"properties":{"a":` + annotated + `,"b":{"items":{"type":"string","x-mcp-header":"B"}}}}`, unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mcp.ParamHeaders([]byte(tc.schema))
			if got != nil || err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("ParamHeaders = %v, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestParamHeaderValue(t *testing.T) {
	long := strings.Repeat("1234567890", 20)
	arguments := []byte(`{"long":` + long + `,"s":"Hello, \u4e16","e":"","i":42,"neg":-7,"zero":-0,"float":42.0,"exp":4.2e1,"frac":1.5,"big":9007199254740993,
		"huge":123456789012345678901234567890,"wild":1e999999999,"t":true,"f":false,"n":null,"o":{"x":1,"y":null},"a":[1]}`)
	for path, want := range map[string]string{
		"s": "Hello, 世", "e": "", "i": "42", "neg": "-7", "zero": "0", "float": "42", "exp": "42", "frac": "1.5",
		"big": "9007199254740993", "huge": "123456789012345678901234567890", "wild": "1e999999999", "long": long, "t": "true", "f": "false", "o/x": "1",
	} {
		h := mcp.ParamHeader{Name: "X", Path: strings.Split(path, "/")}
		if got, ok := h.Value(arguments); got != want || !ok {
			t.Errorf("%s is mirrored as %q, %t, want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{"n", "o", "a", "absent", "o/y", "o/z", "s/x", "a/0"} {
		h := mcp.ParamHeader{Name: "X", Path: strings.Split(path, "/")}
		if got, ok := h.Value(arguments); got != "" || ok {
			t.Errorf("%s is mirrored as %q, %t, want nothing", path, got, ok)
		}
	}
	if got, ok := (mcp.ParamHeader{Name: "X", Path: []string{"a"}}).Value(nil); got != "" || ok {
		t.Errorf("nothing is mirrored as %q, %t", got, ok)
	}
}

func TestCheckParams(t *testing.T) {
	const missing, noValue, mismatch = "Header mismatch: Mcp-Param-X is missing",
		"Header mismatch: Mcp-Param-X has no value in the arguments", "Header mismatch: Mcp-Param-X does not match the arguments"
	for name, tc := range map[string]struct {
		arguments string
		values    []string
		fault     string
	}{
		"string":                 {`{"x":"us-west1"}`, []string{"us-west1"}, ""},
		"string, encoded":        {`{"x":"Hello, 世界"}`, []string{"=?base64?SGVsbG8sIOS4lueVjA==?="}, ""},
		"encoded without need":   {`{"x":"a"}`, []string{"=?base64?YQ==?="}, ""},
		"padded":                 {`{"x":" padded "}`, []string{"=?base64?IHBhZGRlZCA=?="}, ""},
		"newline":                {`{"x":"line1\nline2"}`, []string{"=?base64?bGluZTEKbGluZTI=?="}, ""},
		"literal sentinel":       {`{"x":"=?base64?literal?="}`, []string{"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}, ""},
		"empty string":           {`{"x":""}`, []string{""}, ""},
		"escaped in the body":    {`{"\u0078":"\u0061\/"}`, []string{"a/"}, ""},
		"true":                   {`{"x":true}`, []string{"true"}, ""},
		"integer":                {`{"x":42}`, []string{"42"}, ""},
		"integer, fraction":      {`{"x":42}`, []string{"42.0"}, ""},
		"fraction, integer":      {`{"x":42.0}`, []string{"42"}, ""},
		"exponent":               {`{"x":4.2e1}`, []string{"42.00"}, ""},
		"negative":               {`{"x":-7}`, []string{"-7"}, ""},
		"negative zero":          {`{"x":-0}`, []string{"0"}, ""},
		"negative zero, header":  {`{"x":0}`, []string{"-0.0"}, ""},
		"64 bit":                 {`{"x":9007199254740993}`, []string{"9007199254740993"}, ""},
		"more than 64 bit":       {`{"x":100000000000000000000}`, []string{"1e20"}, ""},
		"integer, encoded":       {`{"x":42}`, []string{"=?base64?NDI=?="}, ""},
		"number as it came":      {`{"x":1.5}`, []string{"1.5"}, ""},
		"null":                   {`{"x":null}`, nil, ""},
		"absent":                 {`{}`, nil, ""},
		"no arguments":           {``, nil, ""},
		"missing":                {`{"x":"a"}`, nil, missing},
		"missing for empty":      {`{"x":""}`, nil, missing},
		"missing for false":      {`{"x":false}`, nil, missing},
		"header for null":        {`{"x":null}`, []string{"null"}, noValue},
		"header for absent":      {`{"y":1}`, []string{""}, noValue},
		"header for object":      {`{"x":{}}`, []string{"{}"}, noValue},
		"header for array":       {`{"x":["a"]}`, []string{"a"}, noValue},
		"header, no arguments":   {``, []string{"a"}, noValue},
		"other":                  {`{"x":"a"}`, []string{"b"}, mismatch},
		"other case":             {`{"x":"a"}`, []string{"A"}, mismatch},
		"True":                   {`{"x":true}`, []string{"True"}, mismatch},
		"other 64 bit":           {`{"x":9007199254740993}`, []string{"9007199254740992"}, mismatch},
		"rounded":                {`{"x":42}`, []string{"42.1"}, mismatch},
		"leading zero":           {`{"x":42}`, []string{"042"}, mismatch},
		"plus sign":              {`{"x":42}`, []string{"+42"}, mismatch},
		"hexadecimal":            {`{"x":16}`, []string{"0x10"}, mismatch},
		"grouped":                {`{"x":1000}`, []string{"1_000"}, mismatch},
		"quotient":               {`{"x":2}`, []string{"4/2"}, mismatch},
		"endless digits":         {`{"x":1}`, []string{"1." + strings.Repeat("0", 200)}, mismatch},
		"endless exponent":       {`{"x":1}`, []string{"1e999999999"}, mismatch},
		"padded number, encoded": {`{"x":42}`, []string{"=?base64?IDQy?="}, mismatch},
		"number for a string":    {`{"x":"42"}`, []string{"42.0"}, mismatch},
		"string for a number":    {`{"x":42}`, []string{`"42"`}, mismatch},
		"two lines":              {`{"x":"a"}`, []string{"a", "a"}, mismatch},
		"two lines, one wrong":   {`{"x":"a"}`, []string{"a", "b"}, mismatch},
		"joined":                 {`{"x":"a"}`, []string{"a, a"}, mismatch},
		"raw UTF-8":              {`{"x":"世"}`, []string{"世"}, "Header mismatch: Mcp-Param-X: a header value with characters outside visible ASCII"},
		"bad base64":             {`{"x":"a"}`, []string{"=?base64?YQ?="}, "Header mismatch: Mcp-Param-X: a header value with bad base64: illegal base64 data at input byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := http.Header{"Mcp-Param-Other": {"free"}}
			for _, v := range tc.values {
				headers.Add("MCP-PARAM-x", v)
			}
			annotations := []mcp.ParamHeader{{Name: "X", Path: []string{"x"}}}
			wantMismatch(t, mcp.CheckParams(headers, annotations, []byte(tc.arguments)), tc.fault)
			wantMismatch(t, mcp.CheckParams(headers, nil, []byte(tc.arguments)), "")
		})
	}
}

func TestCheckParamsLooksAtEveryAnnotation(t *testing.T) {
	annotations, err := mcp.ParamHeaders([]byte(`{"properties":{"a":{"properties":{"b":{"type":"string","x-mcp-header":"Deep"}}},"c":{"type":"integer","x-mcp-header":"count"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	headers := http.Header{}
	headers.Set("mcp-param-deep", "x")
	headers.Set("mcp-param-COUNT", "2")
	wantMismatch(t, mcp.CheckParams(headers, annotations, []byte(`{"c":2.0,"a":{"b":"x"}}`)), "")
	wantMismatch(t, mcp.CheckParams(headers, annotations, []byte(`{"c":3,"a":{"b":"x"}}`)), "Header mismatch: Mcp-Param-count does not match the arguments")
	wantMismatch(t, mcp.CheckParams(headers, annotations, []byte(`{"c":2,"a":{"B":"x"}}`)), "Header mismatch: Mcp-Param-Deep has no value in the arguments")
	wantMismatch(t, mcp.CheckParams(headers, annotations, []byte(`{"c":2,"b":"x"}`)), "Header mismatch: Mcp-Param-Deep has no value in the arguments")
}
