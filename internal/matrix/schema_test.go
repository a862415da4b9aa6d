//go:build e2e

package matrix

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolgate/toolgate/internal/mcp"
)

//go:embed testdata/schema/*.json
var schemaFiles embed.FS

// role is who sends a message.
type role string

const (
	clientRole role = "Client"
	serverRole role = "Server"
)

// grammar is what a revision says of its messages, taken from the schema that
// it publishes. It is safe for concurrent use.
type grammar struct {
	rev      mcp.Version
	prefix   string // of references to definitions
	messages map[role]map[string]string
	defs     map[string]json.RawMessage
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

// grammars are read once.
var grammars = sync.OnceValue(func() map[mcp.Version]*grammar {
	all := make(map[mcp.Version]*grammar)
	for _, rev := range revisions {
		g, err := readGrammar(rev)
		if err != nil {
			panic(fmt.Sprintf("schema of %s: %v", rev, err)) // a broken test file
		}
		all[rev] = g
	}
	return all
})

func readGrammar(rev mcp.Version) (*grammar, error) {
	raw, err := schemaFiles.ReadFile("testdata/schema/" + string(rev) + ".json")
	if err != nil {
		return nil, err
	}
	var file struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
		Defs        map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	g := &grammar{
		rev: rev, defs: file.Defs, prefix: "#/$defs/", compiled: make(map[string]*jsonschema.Schema),
		messages: map[role]map[string]string{clientRole: {}, serverRole: {}},
	}
	if g.defs == nil {
		g.defs, g.prefix = file.Definitions, "#/definitions/"
	}
	for who, methods := range g.messages {
		for _, what := range []string{"Request", "Notification"} {
			if err := g.collect(string(who)+what, methods); err != nil {
				return nil, err
			}
		}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	g.compiler = jsonschema.NewCompiler()
	return g, g.compiler.AddResource(string(rev)+".json", doc)
}

// collect notes which definition describes the message of each method in a
// union, such as ClientRequest. A union that a revision does not have is empty.
func (g *grammar) collect(union string, into map[string]string) error {
	if g.defs[union] == nil {
		return nil
	}
	var u struct {
		AnyOf []struct {
			Ref string `json:"$ref"`
		} `json:"anyOf"`
	}
	if err := json.Unmarshal(g.defs[union], &u); err != nil {
		return err
	}
	refs := []string{g.prefix + union} // a union of one is that one
	if len(u.AnyOf) > 0 {
		refs = nil
	}
	for _, one := range u.AnyOf {
		refs = append(refs, one.Ref)
	}
	for _, ref := range refs {
		name := strings.TrimPrefix(ref, g.prefix)
		var def struct {
			Properties struct {
				Method struct {
					Const string `json:"const"`
				} `json:"method"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(g.defs[name], &def); err != nil {
			return err
		}
		if def.Properties.Method.Const == "" {
			return fmt.Errorf("%s names no method", name)
		}
		into[def.Properties.Method.Const] = name
	}
	return nil
}

// results are the definitions of results by method.
var results = map[string]string{
	mcp.MethodInitialize: "InitializeResult", mcp.MethodDiscover: "DiscoverResult", mcp.MethodPing: "EmptyResult",
	mcp.MethodToolsList: "ListToolsResult", mcp.MethodToolsCall: "CallToolResult",
	mcp.MethodPromptsList: "ListPromptsResult", mcp.MethodPromptsGet: "GetPromptResult",
	mcp.MethodResources: "ListResourcesResult", mcp.MethodTemplates: "ListResourceTemplatesResult",
	mcp.MethodRead: "ReadResourceResult", mcp.MethodComplete: "CompleteResult",
	mcp.MethodSubscribe: "EmptyResult", mcp.MethodUnsubscribe: "EmptyResult", mcp.MethodSetLevel: "EmptyResult",
	mcp.MethodListen: "SubscriptionsListenResult", mcp.MethodSampling: "CreateMessageResult",
	mcp.MethodElicit: "ElicitResult", mcp.MethodRoots: "ListRootsResult",
	"tasks/get": "GetTaskResult", "tasks/result": "GetTaskPayloadResult", "tasks/list": "ListTasksResult", "tasks/cancel": "CancelTaskResult",
}

// extension tells whether a method is not in the revision's core and that one of
// its official extensions adds it.
func (g *grammar) extension(method string) bool {
	return g.rev == mcp.V20260728 && (method == "tasks/get" || method == "tasks/update" || method == "tasks/cancel")
}

// check tells what is wrong with a message that who sent; asked is the method
// that a response answers.
func (g *grammar) check(who role, msg *mcp.Message, asked string) error {
	switch msg.Kind {
	case mcp.KindRequest, mcp.KindNotification:
		def := g.messages[who][msg.Method]
		switch {
		case def == "" && g.extension(msg.Method):
			return nil
		case def == "":
			return fmt.Errorf("%s has no %s from a %s", g.rev, msg.Method, strings.ToLower(string(who)))
		case strings.HasSuffix(def, "Notification") == (msg.Kind == mcp.KindRequest):
			return fmt.Errorf("%s is not a %s with or without an id", def, msg.Method)
		}
		return g.validate(def, msg.Raw)
	case mcp.KindResponse:
		if fault := msg.Fault(); fault != nil {
			return g.checkFault(fault)
		}
		return g.checkResult(asked, msg.Result())
	default:
		return fmt.Errorf("no message: %s", msg.Raw)
	}
}

// checkFault refuses the error codes that a revision must not emit.
func (g *grammar) checkFault(fault []byte) error {
	code := mcp.ParseError(fault).Code
	modern := g.rev.Era() == mcp.Modern
	switch {
	case modern && (code == mcp.CodeResourceNotFound || code == -32042):
		return fmt.Errorf("%s has no error %d", g.rev, code)
	case !modern && code <= -32020 && code >= -32022:
		return fmt.Errorf("%s has no error %d", g.rev, code)
	}
	return nil
}

func (g *grammar) checkResult(asked string, result []byte) error {
	def := results[asked]
	kind, _ := mcp.LookupString(result, "resultType")
	modern := g.rev.Era() == mcp.Modern
	switch {
	case g.extension(asked) || modern && kind == "task":
		return nil
	case modern && kind == mcp.ResultInputRequired:
		def = "InputRequiredResult"
	case g.rev == mcp.V20251125 && asked == mcp.MethodToolsCall && mcp.Lookup(result, "task") != nil:
		def = "CreateTaskResult"
	case def == "EmptyResult" && modern:
		return fmt.Errorf("%s has no %s", g.rev, asked)
	}
	if def == "" || g.defs[def] == nil {
		return fmt.Errorf("%s has no result of %s", g.rev, asked)
	}
	return g.validate(def, result)
}

// validate holds a value to a definition.
func (g *grammar) validate(def string, raw []byte) error {
	schema, err := g.schema(def)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("not a %s of %s: %w", def, g.rev, err)
	}
	return nil
}

func (g *grammar) schema(def string) (*jsonschema.Schema, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.compiled[def]; s != nil {
		return s, nil
	}
	s, err := g.compiler.Compile(string(g.rev) + ".json" + g.prefix + def)
	if err != nil {
		return nil, fmt.Errorf("compile %s of %s: %w", def, g.rev, err)
	}
	g.compiled[def] = s
	return s, nil
}

// TestGrammars holds the strict peers to what they must notice themselves.
func TestGrammars(t *testing.T) {
	for _, c := range []struct {
		about string
		rev   mcp.Version
		who   role
		asked string
		raw   string
		fine  bool
	}{
		{"a request of the revision", mcp.V20241105, serverRole, "", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}`, true},
		{"a method of a later revision", mcp.V20250326, serverRole, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, false},
		{"a method of an earlier revision", mcp.V20260728, clientRole, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, false},
		{"a server's request in 2026-07-28", mcp.V20260728, serverRole, "", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, false},
		{"a request without its _meta", mcp.V20260728, clientRole, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, false},
		{"audio before it was invented", mcp.V20241105, serverRole, mcp.MethodToolsCall, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}}`, false},
		{"audio", mcp.V20250326, serverRole, mcp.MethodToolsCall, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}}`, true},
		{"a result without its type", mcp.V20260728, serverRole, mcp.MethodToolsCall, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, false},
		{"a url elicitation without its id", mcp.V20251125, serverRole, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/"}}`, false},
		{"an error code of another era", mcp.V20260728, serverRole, mcp.MethodRead, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m"}}`, false},
		{"a request sent as a notification", mcp.V20251125, clientRole, "", `{"jsonrpc":"2.0","method":"tools/list"}`, false},
		{"a list that can be cached", mcp.V20260728, serverRole, mcp.MethodToolsList, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"private"}}`, true},
		{"a list that does not say for how long", mcp.V20260728, serverRole, mcp.MethodToolsList, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}`, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			msg, err := mcp.Parse([]byte(c.raw), mcp.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if err := grammars()[c.rev].check(c.who, &msg, c.asked); (err == nil) != c.fine {
				t.Errorf("%s of %s: %v", c.raw, c.rev, err)
			}
		})
	}
}
