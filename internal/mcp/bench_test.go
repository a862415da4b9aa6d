package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

// callOf256Bytes is the most frequent message of a gateway.
var callOf256Bytes = func() []byte {
	head := `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"files__read","arguments":{"text":"`
	tail := `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":5}}}`
	return []byte(head + strings.Repeat("x", 256-len(head)-len(tail)) + tail)
}()

// textResult is a result of about a megabyte in lines of 60 characters.
func textResult(line string) []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"`)
	for b.Len() < 1<<20 {
		b.WriteString(line)
	}
	b.WriteString(`"}],"isError":false}}`)
	return []byte(b.String())
}

// toolsList is a list of 280 KB with schemas as servers write them.
func toolsList() []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":17,"result":{"tools":[`)
	for i := 0; b.Len() < 280_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"create_issue_%d","title":"Create issue","description":"Create a new issue in a GitHub repository.",`+
			`"inputSchema":{"type":"object","properties":{"owner":{"type":"string","description":"Repository owner"},`+
			`"repo":{"type":"string","description":"Repository name"},"title":{"type":"string","minLength":1},`+
			`"labels":{"type":"array","items":{"type":"string"},"description":"Labels to \"apply\""}},"required":["owner","repo","title"]},`+
			`"annotations":{"readOnlyHint":false,"openWorldHint":true}}`, i)
	}
	b.WriteString(`]}}`)
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	for name, raw := range map[string][]byte{
		"call 256 B":        callOf256Bytes,
		"notification":      []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}`),
		"tools list 280 KB": toolsList(),
		"text result 1 MB":  textResult("The quick brown fox jumps over the lazy dog, once or twice.\\n"),
		"a million params":  []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + manyMembers(1_000_000) + `}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mcp.Parse(raw, mcp.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for name, raw := range map[string][]byte{
		"text result 1 MB":    textResult("The quick brown fox jumps over the lazy dog, once or twice.\\n"),
		"chinese result 1 MB": textResult("敏捷的棕色狐狸跳过了懒狗，一次或两次。\\n"),
		"escaped result 1 MB": textResult(`\u654f\u6377\u7684\u68d5\u8272\u72d0\u72f8\"\\\n`),
		"tools list 280 KB":   toolsList(),
		"numbers 1 MB":        []byte("[" + strings.Repeat("-12.5,3,", 1<<17) + "0]"),
		"keys 1 MB":           []byte("[" + strings.Repeat(manyMembers(40)+",", 1<<20/360) + "0]"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := mcp.Validate(raw, mcp.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkForward is the wire work of one call: parse it, rewrite _meta and name for
// the next hop, frame it, parse the response, frame it.
func BenchmarkForward(b *testing.B) {
	answer := []byte(`{"jsonrpc":"2.0","id":900,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}}`)
	meta := []byte(`"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":900`)
	name := mcp.Quote("read")
	var up, down []byte
	b.ReportAllocs()
	for b.Loop() {
		call, err := mcp.Parse(callOf256Bytes, mcp.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		params := mcp.SetMember(mcp.RewriteMeta(call.Params(), meta), "name", name)
		up = mcp.AppendRequest(up[:0], mcp.NumberID(900), call.Method, params)
		result, err := mcp.Parse(answer, mcp.Limits{LoneSurrogates: true})
		if err != nil {
			b.Fatal(err)
		}
		down = mcp.AppendResult(down[:0], call.ID, result.Result())
	}
}

func BenchmarkHash(b *testing.B) {
	deep, _ := deepOutOfOrder(1 << 19)
	for name, raw := range map[string][]byte{
		"arguments":      mcp.Lookup(callOf256Bytes, "params", "arguments"),
		"tools list":     toolsList(),
		"deep, 1 MB":     []byte(deep),
		"text, 1 MB":     textResult("The quick brown fox jumps over the lazy dog, once or twice.\\n"),
		"many keys 9 MB": []byte(manyMembers(1_000_000)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				mcp.Hash(raw)
			}
		})
	}
}

// manyMembers is an object of n members.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	return "{" + b.String()[1:] + "}"
}
