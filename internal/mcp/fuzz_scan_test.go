package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolgate/toolgate/internal/mcp"
)

// jsontextDepth is the nesting limit of jsontext.
const jsontextDepth = 10_000

// FuzzValidate compares with an independent strict parser: the same documents
// are accepted.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+3,true,null,"\u00e9\ud83d\ude00"]}`,
		`{"a":1,"\u0061":2}`,
		`{"a":{"b":1},"a":2}`,
		"\"\xed\xa0\x80\"",
		`["\ud800","\udc00\ud800",{"\udfff":0}]`,
		`{"k0":0,"k1":0,"k2":0,"k3":0,"k4":0,"k5":0,"k6":0,"k7":0,"k8":0,"k9":0,"l0":0,"l1":0,"l2":0,"l3":0,"l4":0,"l5":0,"l6":0,"l7":0,"l8":0,"l9":0,"m0":0,"m1":0,"m2":0,"m3":0,"m4":{"m3":1},"\u006b0":0}`,
		strings.Repeat("[", 300) + strings.Repeat("]", 300),
		"{} {}", "\ufeff1", "01", "1.", "[1,]", "\"\x7f\x1f\"", " ",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		original := bytes.Clone(data)
		err := mcp.Validate(data, mcp.Limits{Depth: jsontextDepth})
		if want := jsontext.Value(data).IsValid(); (err == nil) != want {
			t.Fatalf("Validate = %v, jsontext accepts: %t", err, want)
		}
		if err != nil {
			syntax, ok := errors.AsType[*mcp.SyntaxError](err)
			if !ok || syntax.Offset < 0 || syntax.Offset > len(data) {
				t.Fatalf("Validate = %#v for %d bytes", err, len(data))
			}
		}
		// With half surrogate pairs allowed, what jsontext accepts in texts that
		// are valid UTF-8, but for those in keys.
		loose := mcp.Validate(data, mcp.Limits{Depth: jsontextDepth, LoneSurrogates: true})
		want := utf8.Valid(data) && jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true))
		switch {
		case loose == nil && !want:
			t.Fatal("Validate accepts with half pairs what jsontext refuses")
		case loose != nil && want && !strings.HasPrefix(loose.Error(), "half of a surrogate pair"):
			t.Fatalf("Validate with half pairs = %v, jsontext accepts", loose)
		case loose != nil && err == nil:
			t.Fatalf("Validate with half pairs = %v, and nil without", loose)
		}
		if !bytes.Equal(data, original) {
			t.Fatal("Validate changed its input")
		}
	})
}

// FuzzParse checks a parsed message against encoding/json.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1,"x":2}}}`,
		`{"\u006asonrpc":"2.0","id":"\u0031","method":"ping","p\u0061rams":{"n\u0061me":1,"own":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{}}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":1}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"a\"}",
		`{"jsonrpc":"2.0","id":1,"method":"a","paramſ":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"a"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"a"}]`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"\ud800","params":{"name":"\udc00"}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, lone bool) {
		limits := mcp.Limits{LoneSurrogates: lone}
		original := bytes.Clone(data)
		m, err := mcp.Parse(data, limits)
		if !bytes.Equal(data, original) || !bytes.Equal(m.Raw, data) {
			t.Fatal("the message was changed")
		}
		if err != nil {
			checkRefusal(t, &m, err, limits)
			return
		}
		checkParts(t, &m, limits)
		checkFramedAnew(t, &m, limits)
	})
}

func checkRefusal(t *testing.T, m *mcp.Message, err error, limits mcp.Limits) {
	t.Helper()
	refusal, ok := errors.AsType[*mcp.Error](err)
	if !ok || m.Kind != mcp.KindInvalid {
		t.Fatalf("Parse = kind %d, %v", m.Kind, err)
	}
	valid := mcp.Validate(m.Raw, limits) == nil
	if valid != (refusal.Code == mcp.CodeInvalidRequest) || !valid != (refusal.Code == mcp.CodeParse) {
		t.Fatalf("code %d for JSON that is valid: %t", refusal.Code, valid)
	}
	answer := mcp.AppendFault(nil, m.ID, refusal)
	if err := mcp.Validate(answer, limits); err != nil {
		t.Fatalf("the refusal %q: %v", answer, err)
	}
}

func checkParts(t *testing.T, m *mcp.Message, limits mcp.Limits) {
	t.Helper()
	if err := mcp.Validate(m.Raw, limits); err != nil {
		t.Fatalf("Parse accepts what Validate refuses: %v", err)
	}
	var envelope map[string]json.RawMessage
	unmarshal(t, m.Raw, &envelope)
	same := func(what string, got []byte, want json.RawMessage) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Fatalf("%s is %q, want %q", what, got, want)
		}
	}
	same("jsonrpc", []byte(`"2.0"`), envelope["jsonrpc"])
	if id := envelope["id"]; string(id) != "null" || m.Fault() == nil {
		same("id", []byte(m.ID), id)
	}
	same("params", m.Params(), envelope["params"])
	same("result", m.Result(), envelope["result"])
	same("error", m.Fault(), envelope["error"])
	if raw, ok := envelope["method"]; ok {
		var method string
		unmarshal(t, raw, &method)
		if m.Method != method {
			t.Fatalf("method is %q, want %q", m.Method, method)
		}
	}
	_, call := envelope["method"]
	_, id := envelope["id"]
	want := mcp.KindResponse
	switch {
	case call && id:
		want = mcp.KindRequest
	case call:
		want = mcp.KindNotification
	}
	if m.Kind != want {
		t.Fatalf("kind is %d, want %d", m.Kind, want)
	}
	if params := members(t, m.Params()); params != nil {
		for name, value := range params {
			same("params "+name, m.Param(name), value)
		}
		for name, value := range members(t, params["_meta"]) {
			same("_meta "+name, m.Meta(name), value)
		}
	}
	for name, value := range members(t, m.Result()) {
		same("result "+name, m.ResultMember(name), value)
	}
}

// checkFramedAnew puts the parts into a new envelope and parses it again.
func checkFramedAnew(t *testing.T, m *mcp.Message, limits mcp.Limits) {
	t.Helper()
	var raw []byte
	switch {
	case m.Kind == mcp.KindRequest:
		raw = mcp.AppendRequest(nil, m.ID, m.Method, m.Params())
	case m.Kind == mcp.KindNotification:
		raw = mcp.AppendNotification(nil, m.Method, m.Params())
	case m.Fault() != nil:
		raw = mcp.AppendFault(nil, m.ID, mcp.ParseError(m.Fault()))
	default:
		raw = mcp.AppendResult(nil, m.ID, m.Result())
	}
	again, err := mcp.Parse(mcp.AppendLine(nil, raw), limits)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if again.Kind != m.Kind || again.ID != m.ID || again.Method != m.Method {
		t.Fatalf("kind %d, id %s, method %q became %d, %s, %q", m.Kind, m.ID, m.Method, again.Kind, again.ID, again.Method)
	}
	for _, part := range [][2][]byte{{m.Params(), again.Params()}, {m.Result(), again.Result()}, {m.Fault(), again.Fault()}} {
		if !bytes.Equal(mcp.AppendLine(nil, part[0]), part[1]) {
			t.Fatalf("%q became %q", part[0], part[1])
		}
	}
}

// members reads an object with encoding/json; nil for anything else.
func members(t *testing.T, raw []byte) map[string]json.RawMessage {
	t.Helper()
	if !mcp.IsObject(raw) {
		return nil
	}
	var all map[string]json.RawMessage
	unmarshal(t, raw, &all)
	return all
}

func unmarshal(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", raw, err)
	}
}
