package proxy

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy/names"
)

// A question without params is sent with empty ones: otherwise a client of the Go SDK
// fails the whole call.
func TestRootsAreAskedForWithParams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mounted(questioner(t, mcp.Legacy, mcp.MethodRoots, ""))).run()
		w := r.do(modernRequest(strings.Replace(modernBody("1", "tools/call", `"name":"s__ask"`, ""),
			`{"sampling":{},"elicitation":{"form":{}}}`, `{"roots":{}}`, 1)))
		if want := `{"method":"roots/list","params":{}}`; !strings.Contains(inputs(w), want) {
			t.Errorf("asked %s, want %s", w.text(), want)
		}
	})
}

// A modern server has one code for missing resources and for invalid requests. Legacy
// clients expect a code of its own for the former.
func TestUnknownResourcesOfAModernServer(t *testing.T) {
	tests := []struct {
		name, fault string
		legacy      string // the code that a legacy client gets
	}{
		{"with its URI", `{"code":-32602,"message":"Resource not found","data":{"uri":"x:none"}}`, `"code":-32002`},
		{"without data", `{"code":-32602,"message":"Resource not found"}`, `"code":-32002`},
		{"about something else", `{"code":-32602,"message":"no","data":{"member":"cursor"}}`, `"code":-32602`},
		{"another error", `{"code":-32603,"message":"no","data":{"uri":"x:none"}}`, `"code":-32603`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newScript(t, "s", mcp.Modern, `resource {"uri":"x:none","name":"none"}`)
			b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) { return fault(mcp.Modern, tt.fault), nil }
			r := newRig(t, mounted(b))
			uri := names.URI("s", "x:none")
			if got := r.legacy(r.open(), "1", "resources/read", `{"uri":"`+uri+`"}`).text(); !strings.Contains(got, tt.legacy) {
				t.Errorf("a legacy client gets %s, want %s", got, tt.legacy)
			}
			own := tt.fault[1:strings.Index(tt.fault, ",")]
			if got := r.modern("1", "resources/read", `"uri":"`+uri+`"`).text(); !strings.Contains(got, own) {
				t.Errorf("a modern client gets %s, want %s", got, own)
			}
		})
	}
}

// The resource of an app has its exposed URI wherever a tool or a result names it.
func TestResourcesOfAppsAreExposed(t *testing.T) {
	const metas = `{"ui":{"resourceUri":"ui://a/1"},"ui/resourceUri":"ui://a/2","openai/outputTemplate":"ui://a/3"}`
	b := newScript(t, "s", mcp.Modern, `tool {"name":"app","inputSchema":{"type":"object"},"_meta":`+metas+`}`)
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Modern, `{"resultType":"complete","content":[],"_meta":`+metas+`}`), nil
	}
	r := newRig(t, mounted(b))
	for what, got := range map[string]string{
		"the tool":   r.modern("1", "tools/list", "").text(),
		"the result": r.modern("1", "tools/call", `"name":"s__app"`).text(),
	} {
		for _, uri := range []string{"ui://a/1", "ui://a/2", "ui://a/3"} {
			if strings.Contains(got, `"`+uri+`"`) || !strings.Contains(got, `"`+names.URI("s", uri)+`"`) {
				t.Errorf("%s names %s as it is at the server: %s", what, uri, got)
			}
		}
	}
}

// The settings of two servers for one extension are merged, for clients of both eras.
func TestExtensionsOfServersAreMerged(t *testing.T) {
	one, two := newScript(t, "one", mcp.Modern, tool("a")), newScript(t, "two", mcp.Legacy, tool("b"))
	one.listing.Capabilities = []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/a"]}}}`)
	two.listing.Capabilities = []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/b"]},"x.example/y":{}}}`)
	r := newRig(t, mounted(one, two))
	for era, got := range map[string]string{
		"legacy": r.post(initBody).text(), "modern": r.modern("1", "server/discover", "").text(),
	} {
		extensions := mcp.Lookup([]byte(got), "result", "capabilities", "extensions")
		if want := `{"io.modelcontextprotocol/ui":{"mimeTypes":["text/a","text/b"]},"x.example/y":{}}`; string(extensions) != want {
			t.Errorf("a %s client is told %s, want %s", era, extensions, want)
		}
	}
}

// The capabilities of connected clients reach the servers, and the extensions of a
// legacy client its calls.
func TestServersKnowTheExtensionsOfClients(t *testing.T) {
	const apps = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/a"]}}}`
	b := &awareScript{script: newScript(t, "s", mcp.Legacy, tool("a"))}
	mounts := mounted(b.script)
	mounts[0].Backend = b
	r := newRig(t, mounts)
	session := r.openAs(mcp.V20250618, apps)
	if len(b.connected) != 1 || b.connected[0] != apps {
		t.Errorf("the server knows of %q", b.connected)
	}
	r.legacy(session, "1", "tools/call", `{"name":"s__a"}`)
	if calls := b.seen(mcp.MethodToolsCall); len(calls) != 1 || string(calls[0].Capabilities) != apps {
		t.Errorf("called with %+v", calls)
	}
}

var _ ClientAware = (*awareScript)(nil)

// awareScript records which clients have connected.
type awareScript struct {
	*script
	connected []string
}

func (b *awareScript) Connected(_ string, capabilities []byte) {
	b.connected = append(b.connected, string(capabilities))
}

// The URI in an error of resources/read is the one that the client asked for.
func TestMissingResourcesAreNamedAsAskedFor(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		b := newScript(t, "s", era, `resource {"uri":"x://y","name":"y"}`, `resource {"uri":"ui://nope/z","name":"z"}`)
		b.reply = func(_ context.Context, call *mcp.Call) (mcp.Answer, error) {
			uri := mcp.Lookup(call.Params, "uri")
			return fault(era, `{"code":-32002,"message":"gone","data":{"n":1,"uri":`+string(uri)+`},"own":2}`), nil
		}
		r := newRig(t, mounted(b))
		for original, exposed := range map[string]string{"x://y": "s+x://y", "ui://nope/z": "ui://s+nope/z"} {
			for client, got := range map[string]string{
				"modern": r.modern("1", mcp.MethodRead, `"uri":"`+exposed+`"`).text(),
				"legacy": r.legacy(r.open(), "1", mcp.MethodRead, `{"uri":"`+exposed+`"}`).text(),
			} {
				if strings.Contains(got, `"`+original+`"`) || !strings.Contains(got, `"data":{"n":1,"uri":"`+exposed+`"}`) {
					t.Errorf("a %s client of a %s server: %s", client, era, got)
				}
			}
		}
	}
}

// In a complete result of a legacy server, members of input requests are ignored: its
// raw state reaches no client.
func TestLegacyResultsCarryNoState(t *testing.T) {
	b := newScript(t, "s", mcp.Legacy, tool("echo"))
	b.reply = func(context.Context, *mcp.Call) (mcp.Answer, error) {
		return answered(mcp.Legacy, `{"resultType":"complete","content":[],"inputRequests":{"q":{}},"requestState":"raw","own":1}`), nil
	}
	r := newRig(t, mounted(b))
	for client, got := range map[string]string{
		"modern": r.modern("1", mcp.MethodToolsCall, `"name":"s__echo"`).text(),
		"legacy": r.legacy(r.open(), "1", mcp.MethodToolsCall, `{"name":"s__echo"}`).text(),
	} {
		if strings.Contains(got, "raw") || strings.Contains(got, "inputRequests") || !strings.Contains(got, `"own":1`) {
			t.Errorf("a %s client gets %s", client, got)
		}
	}
}
