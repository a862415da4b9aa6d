package proxy

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What is said of items is listed to clients of every revision, beside what the server
// lists; an operator's own title wins; and another answer changes the list.
func TestDescribed(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, `tool {"name":"a","title":"Mine","inputSchema":{"type":"object"},"_meta":{"x":1}}`, tool("b"), `prompt {"name":"p"}`)
	var later atomic.Bool
	var asked sync.Map
	mounts := mounted(b)
	mounts[0].Tools = map[string]ToolShape{"b": {Title: "Written"}}
	mounts[0].Describe = func(c *gate.Capability, listed []byte) Description {
		asked.Store(c.Original, string(listed))
		switch {
		case c.Original == "a" && later.Load():
			return Description{Title: "Later", Meta: `{"risk":"high"}`}
		case c.Original == "p":
			return Description{Title: "A prompt"}
		}
		return Description{Title: "Seeded", Meta: `{"risk":"low"}`, AlwaysLoad: c.Original == "b"}
	}
	r := newRig(t, mounts).run()
	session := r.openAt(mcp.V20250618)
	lists := func() map[string]string {
		return map[string]string{
			"modern":  r.modern("1", "tools/list", "").text(),
			"legacy":  r.legacy(session, "1", "tools/list", "").text(),
			"prompts": r.modern("2", "prompts/list", "").text(),
		}
	}
	for era, want := range map[string][]string{
		"modern":  {`"title":"Seeded"`, `"_meta":{"dev.toolgate/tool":{"risk":"low"},"x":1}`, `"title":"Written"`, `"anthropic/alwaysLoad":true`},
		"legacy":  {`"title":"Seeded"`, `"_meta":{"dev.toolgate/tool":{"risk":"low"},"x":1}`, `"title":"Written"`},
		"prompts": {`"title":"A prompt"`},
	} {
		for _, w := range want {
			if got := lists()[era]; !strings.Contains(got, w) {
				t.Errorf("%s: %s lacks %s", era, got, w)
			}
		}
	}
	about, _ := asked.Load("a")
	if got, _ := about.(string); !strings.Contains(got, `"title":"Mine"`) || strings.Contains(got, "toolgate") {
		t.Errorf("it is asked about %s", about)
	}
	before := r.snapshot.Load().catalog.byServer["s"]
	r.publisher.rebuild(t.Context())
	if now := r.snapshot.Load().catalog.byServer["s"]; now != before {
		t.Error("the same description makes another entry")
	}
	later.Store(true)
	r.Changed("s")
	testwait.Until(t, patience, "the new title", func() bool {
		return strings.Contains(lists()["modern"], `"title":"Later"`) && strings.Contains(lists()["legacy"], `{"risk":"high"}`)
	})
}

// TestWithheld: what is withheld is in no list and no search, cannot be called, and comes
// back when it is not withheld any more.
func TestWithheld(t *testing.T) {
	b := newScript(t, "s", mcp.Modern, tool("a"), tool("b"), `prompt {"name":"p"}`)
	var withheld atomic.Bool
	withheld.Store(true)
	r := newFindRig(t, func(c *Config) {
		c.Mounts[0].Describe = func(of *gate.Capability, _ []byte) Description {
			return Description{Withheld: withheld.Load() && of.Original != "b", Notes: `{"look":"fine"}`}
		}
	}, b)
	listed := func() string {
		return r.post("/mcp", "tools/list", "").text() + r.post("/mcp", "prompts/list", "").text() + r.call("toolgate__find_tools", `{"query":"a b p","detail":"names"}`)
	}
	for _, item := range r.snapshot.Load().catalog.byServer["s"].offer.Items {
		if want := item.Original != "b"; item.Withheld != want {
			t.Errorf("%s is offered with withheld=%t", item.Original, item.Withheld)
		}
	}
	if got := listed(); strings.Contains(got, "s__a") || strings.Contains(got, "s__p") || !strings.Contains(got, "s__b") || !strings.Contains(got, `"dev.toolgate/notes":{"look":"fine"}`) {
		t.Errorf("listed %s", got)
	}
	missing, got := r.post("/mcp", "tools/call", `"name":"s__x"`).text(), r.post("/mcp", "tools/call", `"name":"s__a"`).text()
	if strings.ReplaceAll(missing, "s__x", "s__a") != got {
		t.Errorf("a call is answered with %s, one of nothing with %s", got, missing)
	}
	withheld.Store(false)
	r.Changed("s")
	testwait.Until(t, patience, "what was withheld", func() bool {
		got := listed()
		return strings.Contains(got, "s__a") && strings.Contains(got, "s__p") && strings.Contains(got, "s__b")
	})
	withheld.Store(true)
	r.publisher.rebuild(t.Context())
	r.publisher.rebuild(t.Context())
	if got := r.post("/mcp", "tools/list", "").text(); strings.Contains(got, "s__a") {
		t.Errorf("listed %s", got)
	}
}
