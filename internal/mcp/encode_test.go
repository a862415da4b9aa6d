package mcp_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestAppendMessages(t *testing.T) {
	for _, tc := range []struct {
		got  []byte
		want string
	}{
		{mcp.AppendRequest(nil, "7", "ping", nil), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{mcp.AppendRequest([]byte("x"), `"\u0061"`, "a\"b", []byte(`{ }`)), `x{"jsonrpc":"2.0","id":"\u0061","method":"a\"b","params":{ }}`},
		{mcp.AppendNotification(nil, mcp.NotifyInitialized, nil), `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{mcp.AppendNotification(nil, "n", []byte(`{"a":1}`)), `{"jsonrpc":"2.0","method":"n","params":{"a":1}}`},
		{mcp.AppendResult(nil, "9007199254740993", []byte(`{"a":1.0}`)), `{"jsonrpc":"2.0","id":9007199254740993,"result":{"a":1.0}}`},
		{mcp.AppendFault(nil, "1", mcp.Errorf(mcp.CodeMethodNotFound, "no %s", "x")), `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no x"}}`},
		{mcp.AppendFault(nil, "", &mcp.Error{Code: mcp.CodeParse, Message: "a\xff\"\n", Data: []byte(`[1]`)}), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a` + "\ufffd" + `\"\n","data":[1]}}`},
		{mcp.AppendFault(nil, "1", &mcp.Error{Code: 5, Message: "not this", Raw: []byte(`{"message":"this", "code":6,"x":1}`)}), `{"jsonrpc":"2.0","id":1,"error":{"message":"this", "code":6,"x":1}}`},
	} {
		if string(tc.got) != tc.want {
			t.Errorf("got %s\nwant %s", tc.got, tc.want)
		}
	}
}

func TestParseErrorKeepsTheObject(t *testing.T) {
	for in, want := range map[string]mcp.Error{
		`{"code":-32601,"message":"a\nb"}`:                                    {Code: -32601, Message: "a\nb"},
		`{"data":{"n":9007199254740993},"message":"m","code":1001,"extra":1}`: {Code: 1001, Message: "m", Data: []byte(`{"n":9007199254740993}`)},
		`{"code":123456789012345678901,"message":"m"}`:                        {Code: mcp.CodeInternal, Message: "m"},
		`{"code":"1","message":5}`:                                            {Code: mcp.CodeInternal},
		`{}`:                                                                  {Code: mcp.CodeInternal},
	} {
		want.Raw, want.Origin = []byte(in), mcp.OriginServer
		got := mcp.ParseError([]byte(in))
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("ParseError(%s) (-want +got):\n%s", in, diff)
		}
		if out := string(got.Append(nil)); out != in {
			t.Errorf("the error goes out as %s, want %s", out, in)
		}
	}
	err := fmt.Errorf("call: %w", mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", "x"))
	if got, ok := errors.AsType[*mcp.Error](err); !ok || got.Error() != "Unknown tool: x (-32602)" {
		t.Errorf("error reads %v", got)
	}
}

func TestLinesHoldNoLineBreaks(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b c"}`:                        `{"a":"b c"}`,
		"{\n \"a\" :\r\n\t1\n}\n":            "{ \"a\" :\t1}",
		"[\n1,\n-2\n,\"\\n\\r\",\r\ntrue\n]": `[1,-2,"\n\r",true]`,
		"[1,\r2]":                            "[1,2]",
		"\"\u2028\u0085\"":                   "\"\u2028\u0085\"",
	} {
		got := string(mcp.AppendLine([]byte(">"), []byte(in)))
		if got != ">"+want {
			t.Errorf("AppendLine(%q) = %q, want %q", in, got, ">"+want)
		}
		if mcp.Compact([]byte(in)) != (in == want) {
			t.Errorf("Compact(%q) = %t", in, mcp.Compact([]byte(in)))
		}
	}
}
