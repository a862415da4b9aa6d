package enable_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/enable"
	"github.com/toolgate/toolgate/native/toolapi"
)

// memory is a catalog in memory.
type memory struct {
	added []string
	err   error
}

func (s *memory) Offers(context.Context) ([]enable.Template, error) {
	return []enable.Template{
		{Name: "git", Offer: enable.Offer{Description: "A repository", Arguments: map[string][]string{"repo": {"a", "b"}, "branch": {"main"}}}},
		{Name: "mail", Offer: enable.Offer{Description: "Post"}},
	}, nil
}

func (s *memory) Added(_ context.Context, principal string) ([]enable.Added, error) {
	var out []enable.Added
	for _, a := range s.added {
		if who, what, _ := strings.Cut(a, " "); who == principal {
			out = append(out, enable.Added{Server: what})
		}
	}
	return out, s.err
}

func (s *memory) Add(_ context.Context, principal, offer string, arguments map[string]string) (enable.Added, error) {
	s.added = append(s.added, principal+" "+offer+arguments["repo"])
	return enable.Added{Server: offer + arguments["repo"], Offer: offer, Arguments: arguments, Prefix: offer + "__", State: "ready"}, s.err
}

func (s *memory) Remove(_ context.Context, principal, server string) error {
	if server == "none" {
		return toolapi.Problem("There is none.")
	}
	s.added = append(s.added, "-"+principal+" "+server)
	return s.err
}

func TestTools(t *testing.T) {
	for name, tc := range map[string]struct {
		params string
		want   string // in the result
		failed bool
		kept   string // by the memory
	}{
		"find all":                 {params: `{"name":"find_servers"}`, want: `"structuredContent":{"servers":[{"name":"git","description":"A repository","arguments":{"branch":["main"],"repo":["a","b"]}},{"name":"mail"`},
		"find by words":            {params: `{"name":"find_servers","arguments":{"query":"POST mail"}}`, want: `{"servers":[{"name":"mail","description":"Post"}],"added":[]}`},
		"find nothing":             {params: `{"name":"find_servers","arguments":{"query":"post git"}}`, want: `{"servers":[],"added":[]}`},
		"find by a number":         {params: `{"name":"find_servers","arguments":{"query":1}}`, want: `query is a text`, failed: true},
		"find by something":        {params: `{"name":"find_servers","arguments":{"words":"x"}}`, want: `no argument \"words\"`, failed: true},
		"add":                      {params: `{"name":"add_server","arguments":{"name":"git","arguments":{"repo":"a","branch":"main"}}}`, want: `"server":"gita"`, kept: "me gita"},
		"add without arguments":    {params: `{"name":"add_server","arguments":{"name":"mail"}}`, want: `"server":"mail"`, kept: "me mail"},
		"add what is not offered":  {params: `{"name":"add_server","arguments":{"name":"rm -rf"}}`, want: `There is no server \"rm -rf\" on the list`, failed: true},
		"add nothing":              {params: `{"name":"add_server"}`, want: `There is no server \"\"`, failed: true},
		"a value not listed":       {params: `{"name":"add_server","arguments":{"name":"git","arguments":{"repo":"../x","branch":"main"}}}`, want: `must be one of a, b`, failed: true},
		"an argument too few":      {params: `{"name":"add_server","arguments":{"name":"git","arguments":{"repo":"a"}}}`, want: `branch is missing; it is one of main`, failed: true},
		"an argument too many":     {params: `{"name":"add_server","arguments":{"name":"mail","arguments":{"command":"sh"}}}`, want: `has no argument \"command\"`, failed: true},
		"arguments of other forms": {params: `{"name":"add_server","arguments":{"name":"git","arguments":{"repo":["a"],"branch":"main"}}}`, want: `an object of texts`, failed: true},
		"a list of arguments":      {params: `{"name":"add_server","arguments":{"name":"git","arguments":["a"]}}`, want: `an object of texts`, failed: true},
		"a command":                {params: `{"name":"add_server","arguments":{"name":"git","command":"sh"}}`, want: `no argument \"command\"`, failed: true},
		"remove":                   {params: `{"name":"remove_server","arguments":{"server":"git"}}`, want: `{"removed":"git"}`, kept: "-me git"},
		"remove nothing":           {params: `{"name":"remove_server"}`, want: `Say which server`, failed: true},
		"remove what is not there": {params: `{"name":"remove_server","arguments":{"server":"none"}}`, want: `There is none.`, failed: true},
		"another tool":             {params: `{"name":"other"}`, want: `There is no tool`, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &memory{}
			got, err := enable.New(s, nil).Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(tc.params), Principal: "me"})
			if err != nil || !strings.Contains(string(got.Result), tc.want) || strings.Contains(string(got.Result), `"isError":true`) != tc.failed {
				t.Errorf("%s, %v; want %s", got.Result, err, tc.want)
			}
			if kept := strings.Join(s.added, ","); kept != tc.kept {
				t.Errorf("kept %q, want %q", kept, tc.kept)
			}
			if err := mcp.Validate(got.Result, mcp.Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// What goes wrong in the gateway is not told to the model as its fault.
func TestGatewayFails(t *testing.T) {
	b := enable.New(&memory{err: errors.New("the disk is full")}, nil)
	for _, params := range []string{`{"name":"find_servers"}`, `{"name":"add_server","arguments":{"name":"mail"}}`, `{"name":"remove_server","arguments":{"server":"x"}}`} {
		_, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: []byte(params)})
		if failure, ok := errors.AsType[*mcp.Failure](err); !ok || failure.Kind != mcp.FailUnavailable {
			t.Errorf("%s: %v", params, err)
		}
	}
	if got, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodPromptsGet}); err != nil || got.Fault == nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestListing(t *testing.T) {
	l, status := enable.New(&memory{}, nil).Listing()
	if status.State != mcp.Ready || len(l.Items[mcp.Tool]) != 3 || !l.Declares("tools") {
		t.Errorf("%+v, %v", l, status)
	}
	for _, item := range l.Items[mcp.Tool] {
		if parsed, err := mcp.ParseItem(mcp.Tool, item.Raw); err != nil || parsed.Key != item.Key || mcp.Validate(item.Raw, mcp.Limits{}) != nil {
			t.Errorf("%s: %v", item.Raw, err)
		}
	}
}
