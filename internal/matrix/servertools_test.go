//go:build e2e

package matrix

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// text is the result of a tool that says one thing; more are further members.
func text(said []byte, more string) []byte {
	return []byte(`{"content":[{"type":"text","text":` + string(mcp.Quote(string(said))) + `}]` + more + `}`)
}

// callTool runs a tool by its name.
func (in *incoming) callTool() ([]byte, *mcp.Error) {
	name, _ := in.msg.ParamString("name")
	args := in.msg.Param("arguments")
	in.mirrored(name, args)
	switch name {
	case "echo":
		return in.echo(args), nil
	case "ask":
		said, required, fault := in.ask3(args)
		if said == nil {
			return required, fault
		}
		return text(said, ""), nil
	case "progress":
		return in.progress(3, nil), nil
	case "steps":
		return in.progress(3, func() { _, _ = in.board().await(in.ctx, "go on") }), nil
	case "wait":
		in.board().say("waiting", "")
		<-in.ctx.Done()
		in.board().say("cancelled", in.signal())
		return text(nil, ""), nil
	case "log":
		if string(mcp.Lookup(args, "unruly")) == "true" {
			return in.unruly(), nil
		}
		return in.log(), nil
	case "touch":
		uri, _ := mcp.LookupString(args, "uri")
		in.p.s.updated(uri)
		return text([]byte(uri), ""), nil
	case "content":
		return in.content(), nil
	case "silent": // what it has to say is structured alone
		return []byte(`{"content":[]` + in.structured() + `}`), nil
	case "header":
		return text([]byte(in.headers()), ""), nil
	case "broken":
		return nil, &mcp.Error{Code: -31999, Message: "A fault of its own", Data: []byte(`{"n":18446744073709551615}`)}
	case "task":
		return in.newTask()
	case "app", "fancy", "rows":
		return text([]byte(name), ""), nil
	}
	return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)
}

// board is the cell of the request; one that nobody looks at when it is of none.
func (in *incoming) board() *cell {
	if c := in.p.s.board.cell(in.cell); c != nil {
		return c
	}
	in.p.broken("a request of no cell: %s", in.msg.Raw)
	return &cell{said: make(map[string][]string), changed: make(chan struct{})}
}

// signal names how the gateway gave a request up.
func (in *incoming) signal() string {
	switch cause := ctxCause(in); {
	case errors.Is(cause, errWithdrawn):
		return errWithdrawn.Error()
	case errors.Is(cause, errHungUp):
		return errHungUp.Error()
	default:
		return fmt.Sprint(cause)
	}
}

// echo returns the arguments as the bytes that came, and members that no
// revision knows.
func (in *incoming) echo(args []byte) []byte {
	more := `,"com.example/unknown":{"z":1,"a":18446744073709551615},"_meta":{"com.example/back":-9223372036854775808`
	if kept := in.msg.Meta("com.example/kept"); kept != nil {
		more += `,"com.example/kept":` + string(kept)
	}
	more += "}"
	if in.p.s.kind.rev >= mcp.V20250618 {
		more += `,"structuredContent":{"n":9223372036854775807,"args":` + string(args) + `}`
	}
	return text(args, more)
}

// progress reports as often as told, where the client wants to know, and calls
// between before every report but the first.
func (in *incoming) progress(times int, between func()) []byte {
	token := in.msg.Meta(mcp.MetaProgressToken)
	for n := range times {
		if n > 0 && between != nil {
			between()
		}
		if token != nil {
			in.notify(mcp.NotifyProgress, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d}`, token, n+1, times))
		}
	}
	return text([]byte("done"), "")
}

// logged are the messages of the tool log, least severe first.
var logged = []string{"debug", "info", "warning", "error"}

// log sends a message of each level that the client wants.
func (in *incoming) log() []byte {
	in.p.mu.Lock()
	level := in.p.level
	in.p.mu.Unlock()
	if in.p.s.kind.modern() {
		level, _ = mcp.Unquote(in.msg.Meta(mcp.MetaLogLevel))
	}
	for _, own := range logged {
		if level != "" && mcp.LogLevel(own) <= mcp.LogLevel(level) {
			in.notify(mcp.NotifyMessage, `{"level":"`+own+`","logger":"db","data":{"cell":"`+in.cell+`","n":9007199254740993}}`)
		}
	}
	return text([]byte(level), "")
}

// structuredObject and structuredValue are the structured content of legacy
// servers, where it is an object, and of modern ones.
const (
	structuredObject = `{"structured":true}`
	structuredValue  = `["structured",7]`
)

// structured is the member of a result that holds them.
func (in *incoming) structured() string {
	if in.p.s.kind.modern() {
		return `,"structuredContent":` + structuredValue
	}
	return `,"structuredContent":` + structuredObject
}

// blocks are one content block of every kind that the revision has.
func (in *incoming) blocks() []string {
	rev := in.p.s.kind.rev
	out := []string{
		`{"type":"text","text":"plain"}`,
		`{"type":"image","data":"AAAA","mimeType":"image/png"}`,
		`{"type":"resource","resource":{"uri":"res://host/embedded","mimeType":"text/plain","text":"embedded"}}`,
	}
	if rev >= mcp.V20250326 {
		out = append(out, `{"type":"audio","data":"BBBB","mimeType":"audio/wav"}`)
	}
	if rev >= mcp.V20250618 {
		link := `"type":"resource_link","uri":"res://host/linked","name":"linked","title":"A title"`
		if rev >= mcp.V20251125 {
			link += "," + icons
		}
		out = append(out, "{"+link+"}")
	}
	return out
}

// content is a result with all of them, and with structured content.
func (in *incoming) content() []byte {
	blocks, more := in.blocks(), ""
	if in.p.s.kind.rev >= mcp.V20250618 {
		more = in.structured()
	}
	if more != "" && !in.p.s.kind.modern() { // 2025-06-18 server/tools, Structured Content: the same as text
		blocks = append(blocks, `{"type":"text","text":`+string(mcp.Quote(structuredObject))+`}`)
	}
	return []byte(`{"content":[` + strings.Join(blocks, ",") + `]` + more + `}`)
}

// messages is a prompt with all of them.
func (in *incoming) messages() []byte {
	var all []string
	for _, block := range in.blocks() {
		all = append(all, `{"role":"user","content":`+block+`}`)
	}
	return []byte(`{"messages":[` + strings.Join(all, ",") + `]}`)
}

// mirrored holds the headers of a modern HTTP request to its body, and sees to
// it that no other request has any.
func (in *incoming) mirrored(name string, args []byte) {
	if in.header == nil {
		return
	}
	want := http.Header{}
	if in.p.s.kind.modern() && name == "header" {
		if region, ok := mcp.LookupString(args, "region"); ok {
			want.Set("Mcp-Param-Region", region)
		}
		if count := mcp.Lookup(args, "count"); count != nil {
			want.Set("Mcp-Param-Count", string(count))
		}
	}
	for header, values := range in.header {
		if !strings.HasPrefix(header, mcp.HeaderParam) {
			continue
		}
		value, err := mcp.DecodeHeaderValue(strings.Join(values, ","))
		if err != nil || value != want.Get(header) {
			in.p.broken("the header %s is %q, the arguments are %s", header, values, args)
		}
		want.Del(header)
	}
	for header := range want {
		in.p.broken("the header %s is missing: %s", header, args)
	}
}

// headers tells which argument headers came.
func (in *incoming) headers() string {
	var names []string
	for _, name := range []string{"Mcp-Param-Count", "Mcp-Param-Region"} {
		if in.header.Get(name) != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (in *incoming) getPrompt() ([]byte, *mcp.Error) {
	name, _ := in.msg.ParamString("name")
	message := func(said []byte) []byte {
		return []byte(`{"messages":[{"role":"user","content":{"type":"text","text":` + string(mcp.Quote(string(said))) + `}}]}`)
	}
	switch name {
	case "ask":
	case "content":
		return in.messages(), nil
	default:
		return message([]byte(name)), nil
	}
	script, _ := mcp.LookupString(in.msg.Param("arguments"), "script")
	said, required, fault := in.ask3([]byte(script))
	if said == nil {
		return required, fault
	}
	return message(said), nil
}

// askURI names the resource that asks what a script says.
func askURI(script []byte) string {
	return "ask://host/" + base64.RawURLEncoding.EncodeToString(script)
}

func (in *incoming) read() ([]byte, *mcp.Error) {
	uri, _ := in.msg.ParamString("uri")
	contents := func(mime string, said []byte) []byte {
		out := `{"contents":[{"uri":` + string(mcp.Quote(uri)) + `,"mimeType":"` + mime + `","text":` + string(mcp.Quote(string(said))) + `}]`
		if in.p.s.kind.modern() {
			out += `,"ttlMs":7000,"cacheScope":"public"`
		}
		return []byte(out + "}")
	}
	encoded, asks := cutPrefix(uri, "ask://host/")
	if !asks {
		if strings.HasPrefix(uri, "ui://") {
			return contents("text/html;profile=mcp-app", []byte("<html></html>")), nil
		}
		return contents("text/plain", []byte(uri)), nil
	}
	script, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no script: %v", err)
	}
	said, required, fault := in.ask3(script)
	if said == nil {
		return required, fault
	}
	return contents("text/plain", said), nil
}

// complete returns what was asked, as the one proposal.
func (in *incoming) complete() ([]byte, *mcp.Error) {
	ref := in.msg.Param("ref")
	name, _ := mcp.LookupString(ref, "name")
	if uri, ok := mcp.LookupString(ref, "uri"); ok {
		name = uri
	}
	value, _ := mcp.LookupString(in.msg.Param("argument"), "value")
	return []byte(`{"completion":{"values":[` + string(mcp.Quote(name+"="+value)) + `],"total":1,"hasMore":false}}`), nil
}
