package enable_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/enable"
)

// toolbox is a catalog of tools in memory.
type toolbox struct {
	registered []string
	err        error
}

func (b *toolbox) Templates(context.Context) ([]enable.ToolTemplate, error) {
	return []enable.ToolTemplate{
		{Name: "tools__status", Description: "State of a thing", InputSchema: json.RawMessage(`{"type":"object"}`)},
		{Name: "tools__say", InputSchema: json.RawMessage(`{"type":"object"}`)},
	}, nil
}

func (b *toolbox) Registered(_ context.Context, principal string) ([]enable.Registered, error) {
	return []enable.Registered{{Tool: "dynamic-" + principal + "__look", Name: "look", Template: "tools__status", Reason: "gone"}}, b.err
}

func (b *toolbox) Register(_ context.Context, principal string, r *enable.Registration) (enable.Registered, error) {
	if r.Template == "none" {
		return enable.Registered{}, enable.UnknownTemplate(r.Template)
	}
	b.registered = append(b.registered, strings.Join([]string{principal, r.Name, r.Description, r.Template, string(r.InputSchema)}, " "))
	return enable.Registered{Tool: "dynamic-x__" + r.Name, Name: r.Name, Template: r.Template, Served: true}, b.err
}

func (b *toolbox) RemoveTool(_ context.Context, principal, name string) error {
	b.registered = append(b.registered, "-"+principal+" "+name)
	return b.err
}

func TestToolsForTools(t *testing.T) {
	for name, tc := range map[string]struct {
		params, want string
		failed       bool
		kept         string
	}{
		"find":                {params: `{"name":"find_templates"}`, want: `{"templates":[{"name":"tools__status","description":"State of a thing","input_schema":{"type":"object"}},{"name":"tools__say","input_schema":{"type":"object"}}],"registered":[{"tool":"dynamic-me__look","name":"look","template":"tools__status","served":false,"reason":"gone"}]}`},
		"find by words":       {params: `{"name":"find_templates","arguments":{"query":"THING state"}}`, want: `{"templates":[{"name":"tools__status"`},
		"find nothing":        {params: `{"name":"find_templates","arguments":{"query":"x"}}`, want: `{"templates":[],`},
		"find by a number":    {params: `{"name":"find_templates","arguments":{"query":1}}`, want: "query is a text", failed: true},
		"register":            {params: `{"name":"register_tool","arguments":{"name":"look","description":"Looks","template":"tools__status","input_schema":{"type": "object"}}}`, want: `{"tool":"dynamic-x__look","name":"look","template":"tools__status","served":true}`, kept: `me look Looks tools__status {"type": "object"}`},
		"register by a list":  {params: `{"name":"register_tool","arguments":{"name":["look"]}}`, want: "are texts", failed: true},
		"register with a url": {params: `{"name":"register_tool","arguments":{"name":"look","url":"https://a.example"}}`, want: `no argument \"url\"`, failed: true},
		"of no template":      {params: `{"name":"register_tool","arguments":{"template":"none"}}`, want: `no template \"none\"`, failed: true},
		"remove":              {params: `{"name":"remove_tool","arguments":{"name":"look"}}`, want: `{"removed":"look"}`, kept: "-me look"},
		"remove nothing":      {params: `{"name":"remove_tool"}`, want: "Say which tool", failed: true},
		"remove otherwise":    {params: `{"name":"remove_tool","arguments":{"tool":"look"}}`, want: `no argument \"tool\"`, failed: true},
		"servers":             {params: `{"name":"add_server","arguments":{"name":"git"}}`, want: `There is no tool \"add_server\"`, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &toolbox{}
			got, err := enable.New(nil, b).Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(tc.params), Principal: "me"})
			if err != nil {
				t.Fatal(err)
			}
			shown := strings.ReplaceAll(string(got.Result), `\\"`, `"`)
			if failed := strings.Contains(shown, `"isError":true`); failed != tc.failed || !strings.Contains(string(got.Result), tc.want) {
				t.Errorf("%s", got.Result)
			}
			if kept := strings.Join(b.registered, "|"); kept != tc.kept {
				t.Errorf("kept %q, want %q", kept, tc.kept)
			}
		})
	}
	failing := enable.New(nil, &toolbox{err: errors.New("the disk is full")})
	for _, params := range []string{`{"name":"find_templates"}`, `{"name":"register_tool","arguments":{"name":"x"}}`, `{"name":"remove_tool","arguments":{"name":"x"}}`} {
		if _, err := failing.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(params)}); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v", params, err)
		}
	}
	for want, b := range map[int]*enable.Backend{0: enable.New(nil, nil), 3: enable.New(nil, &toolbox{}), 6: enable.New(&memory{}, &toolbox{})} {
		l, _ := b.Listing()
		if len(l.Items[mcp.Tool]) != want {
			t.Errorf("%d tools, want %d", len(l.Items[mcp.Tool]), want)
		}
		for _, item := range l.Items[mcp.Tool] {
			if err := mcp.Validate(item.Raw, mcp.Limits{}); err != nil {
				t.Errorf("%s: %v", item.Key, err)
			}
		}
	}
}
