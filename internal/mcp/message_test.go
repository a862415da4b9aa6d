package mcp_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestParseFindsTheParts(t *testing.T) {
	type parts struct {
		Kind                  mcp.MessageKind
		ID                    mcp.ID
		Method                string
		Params, Result, Fault string
	}
	for name, tc := range map[string]struct {
		in   string
		want parts
	}{
		"request": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
			parts{Kind: mcp.KindRequest, ID: "1", Method: "tools/call", Params: `{"name":"a"}`},
		},
		"request without params": {
			`{"method":"ping","id":"x","jsonrpc":"2.0"}`,
			parts{Kind: mcp.KindRequest, ID: `"x"`, Method: "ping"},
		},
		"white space everywhere": {
			" {\n\t\"jsonrpc\" : \"2.0\" ,\r\n \"id\" : 7 , \"method\" : \"m\" , \"params\" : { \"a\" : 1 } } \n",
			parts{Kind: mcp.KindRequest, ID: "7", Method: "m", Params: `{ "a" : 1 }`},
		},
		"method in escapes": {
			`{"jsonrpc":"2.0","id":1,"method":"tools\/c\u0061ll"}`,
			parts{Kind: mcp.KindRequest, ID: "1", Method: "tools/call"},
		},
		"keys in escapes": {
			`{"\u006asonrpc":"2.0","\u0069d":1,"m\u0065thod":"m","par\u0061ms":{}}`,
			parts{Kind: mcp.KindRequest, ID: "1", Method: "m", Params: `{}`},
		},
		"notification": {
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			parts{Kind: mcp.KindNotification, Method: "notifications/initialized"},
		},
		"method of another protocol": {
			`{"jsonrpc":"2.0","id":1,"method":"世界/x"}`,
			parts{Kind: mcp.KindRequest, ID: "1", Method: "世界/x"},
		},
		"unknown members": {
			`{"future":[1],"jsonrpc":"2.0","id":1,"result":{},"resultx":2,"Resul":3}`,
			parts{Kind: mcp.KindResponse, ID: "1", Result: `{}`},
		},
		"result": {
			`{"jsonrpc":"2.0","id":"\u0031","result":{"tools":[]}}`,
			parts{Kind: mcp.KindResponse, ID: `"\u0031"`, Result: `{"tools":[]}`},
		},
		"error": {
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"x","data":{"a":1}}}`,
			parts{Kind: mcp.KindResponse, ID: "3", Fault: `{"code":-32601,"message":"x","data":{"a":1}}`},
		},
		"error for an id that could not be read": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`,
			parts{Kind: mcp.KindResponse, Fault: `{"code":-32700,"message":""}`},
		},
		"the same in escapes": {
			`{"jsonrpc":"2.0","id":null,"\u0065rror":{"code":-32700,"message":""}}`,
			parts{Kind: mcp.KindResponse, Fault: `{"code":-32700,"message":""}`},
		},
		"error without an id": {
			`{"jsonrpc":"2.0","error":{"message":"x","code":0}}`,
			parts{Kind: mcp.KindResponse, Fault: `{"message":"x","code":0}`},
		},
		"error with a huge code": {
			`{"jsonrpc":"2.0","id":1,"error":{"message":"x","code":123456789012345678901}}`,
			parts{Kind: mcp.KindResponse, ID: "1", Fault: `{"message":"x","code":123456789012345678901}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mcp.Parse([]byte(tc.in), mcp.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got := parts{m.Kind, m.ID, m.Method, string(m.Params()), string(m.Result()), string(m.Fault())}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			if string(m.Raw) != tc.in {
				t.Errorf("Raw is %q", m.Raw)
			}
		})
	}
}

func TestIDsAreEchoedAsTheyCame(t *testing.T) {
	for _, id := range []string{
		`0`, `-0`, `-1`, `9007199254740993`, `9223372036854775807`, `-9223372036854775808`,
		`18446744073709551616`, `100000000000000000000000000000`,
		`""`, `"1"`, `"\u0031"`, `"a\/b"`, `"世"`, `"\ud83d\ude00"`, `"null"`,
		`"` + strings.Repeat("x", mcp.MaxIDLength-2) + `"`,
		strings.Repeat("9", mcp.MaxIDLength),
	} {
		m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id": `+id+` ,"method":"m"}`), mcp.Limits{})
		if err != nil || string(m.ID) != id || m.Kind != mcp.KindRequest {
			t.Errorf("Parse with id %s: id %s, kind %d, %v", id, m.ID, m.Kind, err)
		}
		want := `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`
		if got := string(mcp.AppendResult(nil, m.ID, []byte("{}"))); got != want {
			t.Errorf("answer is %s, want %s", got, want)
		}
	}
}

// TestParseRefuses states for every refusal its code, its sentence, and the id
// with which it is answered.
func TestParseRefuses(t *testing.T) {
	const (
		parse   = mcp.CodeParse
		invalid = mcp.CodeInvalidRequest
	)
	long := strings.Repeat("9", mcp.MaxIDLength+1)
	for name, tc := range map[string]struct {
		in   string
		code int
		what string
		id   mcp.ID
	}{
		"nothing":            {"", parse, "unexpected end at byte 0", ""},
		"half a message":     {`{"jsonrpc":"2.0","id":1,"method"`, parse, "unexpected end at byte 32", ""},
		"text":               {`hello`, parse, "expected a value at byte 0", ""},
		"two messages":       {`{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"b"}`, parse, "data behind the message at byte 37", ""},
		"too deep":           {`{"jsonrpc":"2.0","id":1,"params":` + strings.Repeat("[", 256), parse, "nesting too deep at byte 288", ""},
		"broken batch":       {`[{"jsonrpc":"2.0","id":1,"method":"a"}`, parse, "unexpected end at byte 38", ""},
		"broken key":         {`{"jsonrpc":"2.0","id":1,"\x":2}`, parse, "bad escape in a string at byte 25", ""},
		"control character":  {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}", parse, "control character in a string at byte 35", ""},
		"UTF-8":              {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}", parse, "invalid UTF-8 at byte 35", "1"},
		"surrogate":          {`{"jsonrpc":"2.0","id":1,"method":"a\ud800"}`, parse, "half of a surrogate pair at byte 35", "1"},
		"repeated name":      {`{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`, parse, "key given twice at byte 70", `"q"`},
		"repeated below":     {`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"p":[{"x":1,"x":2}]}},"id":9007199254740993}`, parse, "key given twice at byte 75", "9007199254740993"},
		"repeated, response": {`{"jsonrpc":"2.0","id":4,"result":{"a":1,"a":2}}`, parse, "key given twice at byte 41", "4"},
		// An id that is itself in doubt is not echoed.
		"repeated id":           {`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, parse, "key given twice at byte 25", ""},
		"repeated id, escaped":  {`{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"a"}`, parse, "key given twice at byte 25", ""},
		"id that is not UTF-8":  {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"a\"}", parse, "invalid UTF-8 at byte 23", ""},
		"id with half a pair":   {`{"jsonrpc":"2.0","id":"\udc00","method":"a"}`, parse, "half of a surrogate pair at byte 23", ""},
		"id with another fault": {`{"jsonrpc":"2.0","id":1.5,"method":"a","method":"b"}`, parse, "key given twice at byte 40", ""},

		"a number":      {` 1`, invalid, "the message is not an object", ""},
		"null":          {`null`, invalid, "the message is not an object", ""},
		"a string":      {`"{}"`, invalid, "the message is not an object", ""},
		"a batch":       {`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, invalid, "a batch is not accepted here", ""},
		"an empty one":  {" [ ]", invalid, "a batch is not accepted here", ""},
		"empty object":  {`{}`, invalid, `"jsonrpc" must be "2.0"`, ""},
		"no version":    {`{"id":1,"method":"a"}`, invalid, `"jsonrpc" must be "2.0"`, "1"},
		"version 1.0":   {`{"jsonrpc":"1.0","id":1,"method":"a"}`, invalid, `"jsonrpc" must be "2.0"`, "1"},
		"version 2":     {`{"jsonrpc":2.0,"id":1,"method":"a"}`, invalid, `"jsonrpc" must be "2.0"`, "1"},
		"id null":       {`{"jsonrpc":"2.0","id":null,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id fraction":   {`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id zero":       {`{"jsonrpc":"2.0","id":1.0,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id exponent":   {`{"jsonrpc":"2.0","id":1e2,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id true":       {`{"jsonrpc":"2.0","id":true,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id object":     {`{"jsonrpc":"2.0","id":{"a":1},"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id array":      {`{"jsonrpc":"2.0","id":[1],"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id too long":   {`{"jsonrpc":"2.0","id":` + long + `,"method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"id too long 2": {`{"jsonrpc":"2.0","id":"` + long + `","method":"a"}`, invalid, `"id" must be a string or an integer`, ""},
		"result for id null": {
			`{"jsonrpc":"2.0","id":null,"result":{}}`, invalid, `"id" must be a string or an integer`, "",
		},
		"error for id true": {
			`{"jsonrpc":"2.0","id":true,"error":{"code":1,"message":""}}`, invalid, `"id" must be a string or an integer`, "",
		},

		"method number":  {`{"jsonrpc":"2.0","id":1,"method":5}`, invalid, `"method" must be a string`, "1"},
		"method null":    {`{"jsonrpc":"2.0","id":1,"method":null}`, invalid, `"method" must be a string`, "1"},
		"params array":   {`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, invalid, `"params" must be an object`, "1"},
		"params null":    {`{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, invalid, `"params" must be an object`, "1"},
		"params string":  {`{"jsonrpc":"2.0","method":"a","params":"{}"}`, invalid, `"params" must be an object`, ""},
		"no kind":        {`{"jsonrpc":"2.0","id":1,"params":{}}`, invalid, `neither "method" nor "result" nor "error"`, "1"},
		"two kinds":      {`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, invalid, `more than one of "method", "result" and "error"`, "1"},
		"two answers":    {`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"result":{}}`, invalid, `more than one of "method", "result" and "error"`, "1"},
		"error null":     {`{"jsonrpc":"2.0","id":1,"error":null,"result":{}}`, invalid, `more than one of "method", "result" and "error"`, "1"},
		"result without": {`{"jsonrpc":"2.0","result":{}}`, invalid, `a result needs an "id"`, ""},
		"result null":    {`{"jsonrpc":"2.0","id":1,"result":null}`, invalid, `"result" must be an object`, "1"},
		"result array":   {`{"jsonrpc":"2.0","id":1,"result":[]}`, invalid, `"result" must be an object`, "1"},

		"error string":       {`{"jsonrpc":"2.0","id":1,"error":"x"}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
		"error without code": {`{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
		"error code text":    {`{"jsonrpc":"2.0","id":1,"error":{"code":"-1","message":"x"}}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
		"error code 1.5":     {`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
		"error no message":   {`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
		"error message null": {`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}`, invalid, `"error" must be an object with an integer "code" and a "message"`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mcp.Parse([]byte(tc.in), mcp.Limits{})
			prefix := map[int]string{parse: "Parse error: ", invalid: "Invalid Request: "}[tc.code]
			got, ok := errors.AsType[*mcp.Error](err)
			if !ok {
				t.Fatalf("Parse = %v, want an *Error", err)
			}
			if diff := cmp.Diff(&mcp.Error{Code: tc.code, Message: prefix + tc.what, Origin: mcp.OriginClient}, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if m.ID != tc.id || m.Kind != mcp.KindInvalid {
				t.Errorf("id %q of kind %d, want %q of no kind", m.ID, m.Kind, tc.id)
			}
			refusal := mcp.AppendFault(nil, m.ID, got)
			if err := mcp.Validate(refusal, mcp.Limits{}); err != nil {
				t.Errorf("refusal %q: %v", refusal, err)
			}
		})
	}
}

func TestCaseVariantsOfProtocolKeysAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"envelope":                  `{"jsonrpc":"2.0","id":1,"method":"a","Params":{}}`,
		"envelope, instead":         `{"JSONRPC":"2.0","id":1,"method":"a"}`,
		"long s":                    `{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`,
		"long s, escaped":           `{"jsonrpc":"2.0","id":1,"method":"a","param\u017F":{}}`,
		"ASCII, escaped":            `{"jsonrpc":"2.0","id":1,"method":"a","\u0050arams":{}}`,
		"id":                        `{"jsonrpc":"2.0","id":1,"ID":2,"method":"a"}`,
		"name":                      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","Name":"evil"}}`,
		"uri":                       `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"URI":"x"}}`,
		"Kelvin sign":               `{"jsonrpc":"2.0","id":1,"method":"a","params":{"tas\u212Aid":1}}`,
		"Kelvin sign, not escaped":  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"task\u0049d\":1,\"progressTo\u212Aen\":2}}",
		"inside escaped params":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","p\u0061rams":{"name":"ok","Name":"evil"}}`,
		"_meta":                     `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_META":{}}}`,
		"progress token":            `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"ProgressToken":1}}}`,
		"progress token, Kelvin":    `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progreſsTo` + "\u212a" + `en":1}}}`,
		"prefix":                    `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"IO.modelcontextprotocol/protocolVersion":1}}}`,
		"prefix of an unknown name": `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.ModelContextProtocol/世界":1}}}`,
		"prefix of a long name":     `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.Modelcontextprotocol/` + strings.Repeat("x", 100) + `":1}}}`,
		"name behind the prefix":    `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/ProtocolVersion":1}}}`,
		"inside escaped _meta":      `{"jsonrpc":"2.0","id":1,"method":"a","params":{"\u005fmeta":{"ProgressToken":1}}}`,
		"result":                    `{"jsonrpc":"2.0","id":1,"Result":{},"error":{"code":1,"message":""}}`,
		"result member":             `{"jsonrpc":"2.0","id":1,"result":{"nextcursor":"x"}}`,
		"result _meta":              `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"Io.modelcontextprotocol/serverInfo":{}}}}`,
		"error code":                `{"jsonrpc":"2.0","id":1,"error":{"code":1,"Code":-32020,"message":""}}`,
		"error message":             `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","mesſage":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mcp.Parse([]byte(in), mcp.Limits{})
			want := mcp.Errorf(mcp.CodeInvalidRequest, "Invalid Request: a protocol key in another spelling")
			got, _ := errors.AsType[*mcp.Error](err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if m.ID != "1" || m.Kind != mcp.KindInvalid {
				t.Errorf("id %q of kind %d", m.ID, m.Kind)
			}
		})
	}
	for name, in := range map[string]string{
		"arguments are free":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"Name":1,"name":2,"ID":3,"_META":{}}}}`,
		"content is free":         `{"jsonrpc":"2.0","id":1,"result":{"content":[{"Type":"text","type":"text"}]}}`,
		"error data is free":      `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"Code":2}}}`,
		"_meta of others is free": `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"com.example/X":1,"com.example/x":2,"Traceparent":3}}}`,
		"nested _meta is free":    `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":{"_meta":{"ProgressToken":1}}}}`,
		"another letter":          `{"jsonrpc":"2.0","id":1,"method":"a","params":{"näme":1,"nameſ":2,"nam":3,"names":4}}`,
		"a level's own keys":      `{"jsonrpc":"2.0","id":1,"method":"a","params":{"Result":1,"Tools":2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := mcp.Parse([]byte(in), mcp.Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMembersOfAMessage(t *testing.T) {
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
		"n\u0061me":"w\u0065b", "arguments" : {"name":"inner"}, "x\u002dy":[1], "cursor":null,
		"\u005fmeta":{"progress\u0054oken":18446744073709551615,"io.modelcontextprotocol/logLevel":"info","com.example/a":{"b":1}}}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"name": `"w\u0065b"`, "arguments": `{"name":"inner"}`, "x-y": `[1]`, "cursor": `null`,
		"uri": "", "absent": "", "": "",
	} {
		if got := m.Param(name); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("Param(%q) = %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"progressToken": "18446744073709551615", mcp.MetaLogLevel: `"info"`, "com.example/a": `{"b":1}`,
		mcp.MetaVersion: "", "absent": "",
	} {
		if got := m.Meta(name); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("Meta(%q) = %q, want %q", name, got, want)
		}
	}
	if name, ok := m.ParamString("name"); name != "web" || !ok {
		t.Errorf("ParamString(name) = %q, %t", name, ok)
	}
	for _, name := range []string{"arguments", "cursor", "uri", "absent"} {
		if text, ok := m.ParamString(name); text != "" || ok {
			t.Errorf("ParamString(%s) = %q, %t", name, text, ok)
		}
	}
	if m.ResultMember("content") != nil || m.ResultMember("other") != nil || m.Result() != nil || m.Fault() != nil {
		t.Error("a request has a result")
	}
	// A part may be appended to without harm to the message.
	before := bytes.Clone(m.Raw)
	_ = append(m.Param("arguments"), "!!!!"...)
	_ = append(m.Params(), "!!!!"...)
	if !bytes.Equal(before, m.Raw) {
		t.Error("an append to a part changed the message")
	}

	m, err = mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"own":{"a":1},"content":[],"_meta":{"progressToken":1}}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if string(m.ResultMember("content")) != "[]" || string(m.ResultMember("own")) != `{"a":1}` || m.ResultMember("a") != nil {
		t.Errorf("ResultMember: %q, %q, %q", m.ResultMember("content"), m.ResultMember("own"), m.ResultMember("a"))
	}
	if m.Param("content") != nil || m.Param("own") != nil || m.Meta("progressToken") != nil || m.Meta("own") != nil {
		t.Error("a result has params")
	}

	var zero mcp.Message
	if zero.Kind != mcp.KindInvalid || zero.Params() != nil || zero.Param("name") != nil || zero.Param("x") != nil || zero.Meta("x") != nil {
		t.Error("the zero Message has parts")
	}
}

func TestParseSharesTheBytesItWasGiven(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":"abc","method":"m","params":{"name":"x"}}`)
	m, err := mcp.Parse(raw, mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if &m.Raw[0] != &raw[0] || &m.Params()[0] != &raw[bytes.Index(raw, []byte(`{"name"`))] {
		t.Error("Parse copied the message")
	}
}

// TestParseFromManyGoroutines shares the pool of scanners; the race detector
// watches.
func TestParseFromManyGoroutines(t *testing.T) {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			id := mcp.NumberID(int64(n))
			params := fmt.Appendf(nil, `{"name":"n%d","arguments":%s}`, n, manyMembers(30+n))
			raw := mcp.AppendRequest(nil, id, mcp.MethodToolsCall, params)
			for range 200 {
				m, err := mcp.Parse(raw, mcp.Limits{})
				if name, _ := m.ParamString("name"); err != nil || m.ID != id || name != fmt.Sprintf("n%d", n) {
					t.Errorf("Parse = id %s, name %q, %v", m.ID, name, err)
					return
				}
				if _, err := mcp.Parse(raw[:len(raw)-1], mcp.Limits{}); err == nil {
					t.Error("Parse accepts half a message")
					return
				}
			}
		})
	}
	all.Wait()
}

func TestSplitBatch(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		most int
		want []string
		ok   bool
		err  string
	}{
		"no array":     {`{"jsonrpc":"2.0"}`, 9, nil, false, ""},
		"nothing":      {``, 9, nil, false, ""},
		"one":          {`[{"a":1}]`, 1, []string{`{"a":1}`}, true, ""},
		"some":         {" [ {\"a\" : 1} ,\n[2], 3 ]\n", 3, []string{`{"a" : 1}`, `[2]`, `3`}, true, ""},
		"empty":        {`[ ]`, 9, nil, true, "Invalid Request: an empty batch (-32600)"},
		"too many":     {`[1,2,3]`, 2, nil, true, "Invalid Request: a batch of more than 2 messages (-32600)"},
		"none allowed": {`[1]`, 0, nil, true, "Invalid Request: a batch of more than 0 messages (-32600)"},
		"broken":       {`[1,`, 9, nil, true, "Parse error: unexpected end at byte 3 (-32700)"},
		"key twice":    {`[{"a":1,"a":1}]`, 9, nil, true, "Parse error: key given twice at byte 9 (-32700)"},
		"trailing":     {`[1] [2]`, 9, nil, true, "Parse error: data behind the message at byte 4 (-32700)"},
	} {
		t.Run(name, func(t *testing.T) {
			messages, ok, err := mcp.SplitBatch([]byte(tc.in), mcp.Limits{}, tc.most)
			var got []string
			for _, m := range messages {
				got = append(got, string(m))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("SplitBatch: ok %t (-want +got):\n%s", ok, diff)
			}
			if text := errorText(err); text != tc.err {
				t.Errorf("error %q, want %q", text, tc.err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
