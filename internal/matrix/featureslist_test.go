//go:build e2e

package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/findview"
)

// everyItem asks for a whole list, page by page.
func (c *cell) everyItem(ctx context.Context, kind mcp.Kind) (map[string][]byte, error) {
	all := make(map[string][]byte)
	params := []byte(nil)
	for range 100 {
		got, err := c.good(c.client.do(ctx, kind.ListMethod(), params))
		if err != nil {
			return nil, err
		}
		items := mcp.Lookup(got.result, kind.ListKey())
		for e := range mcp.Elements(items) {
			key, _ := mcp.LookupString(e.Of(items), kind.KeyMember())
			if all[key] != nil {
				return nil, fmt.Errorf("%s is listed twice", key)
			}
			all[key] = e.Of(items)
		}
		if c.down.modern() {
			if err := is("cacheScope", mcp.Lookup(got.result, "cacheScope"), `"private"`); err != nil {
				return nil, err
			}
		}
		next, more := mcp.LookupString(got.result, "nextCursor")
		if !more {
			return all, nil
		}
		params = []byte(`{"cursor":` + string(mcp.Quote(next)) + `}`)
	}
	return nil, errors.New("the list has no end")
}

// item returns one listed item.
func (c *cell) item(ctx context.Context, kind mcp.Kind, key string) ([]byte, error) {
	if c.client.view == proxy.FindView && kind == mcp.Tool {
		return c.described(ctx, key)
	}
	all, err := c.everyItem(ctx, kind)
	if err != nil {
		return nil, err
	}
	if all[key] == nil {
		return nil, fmt.Errorf("the %s %s is not listed", kind, key)
	}
	return all[key], nil
}

// described returns the definition of a tool in the find view.
func (c *cell) described(ctx context.Context, name string) ([]byte, error) {
	got, err := c.good(c.client.do(ctx, mcp.MethodToolsCall, []byte(`{"name":"`+findview.DescribeTools+`","arguments":{"names":[`+string(mcp.Quote(name))+`]}}`)))
	if err != nil {
		return nil, err
	}
	content := mcp.Lookup(got.result, "content")
	for e := range mcp.Elements(content) {
		text, _ := mcp.LookupString(e.Of(content), "text")
		for d := range mcp.Elements(mcp.Lookup([]byte(text), "tools")) {
			return d.Of(mcp.Lookup([]byte(text), "tools")), nil
		}
	}
	return nil, fmt.Errorf("%s is not described: %s", name, got.result)
}

// arrived are the members of items that clients of earlier revisions do not get, with
// the revision that brought each.
var arrived = []struct {
	member string
	rev    mcp.Version
}{
	{"title", mcp.V20250618},
	{"outputSchema", mcp.V20250618},
	{"icons", mcp.V20251125},
}

// lists holds every item of a server in the four lists to what the client's
// revision knows of it.
func lists(ctx context.Context, c *cell) error {
	for _, kind := range mcp.Kinds {
		all, err := c.everyItem(ctx, kind)
		if err != nil {
			return err
		}
		own := c.to.server.list(kind.ListMethod())
		items := mcp.Lookup(own, kind.ListKey())
		want := 0
		for e := range mcp.Elements(items) {
			raw := e.Of(items)
			original, _ := mcp.LookupString(raw, kind.KeyMember())
			exposed := c.to.uri(original)
			if kind == mcp.Tool || kind == mcp.Prompt {
				exposed = c.to.tool(original)
			}
			if original == "badheader" { // 2026-07-28 streamable HTTP: such a tool is dropped, alone
				if all[exposed] != nil {
					return errors.New("a tool with an invalid header is listed")
				}
				continue
			}
			want++
			if err := c.listed(kind, raw, all[exposed]); err != nil {
				return fmt.Errorf("the %s %s: %w: %s", kind, exposed, err, all[exposed])
			}
		}
		if n := c.count(all); n != want {
			return fmt.Errorf("%d of kind %s, not %d", n, kind, want)
		}
	}
	return nil
}

// count returns how many of the listed items are of the server of the cell.
func (c *cell) count(all map[string][]byte) int {
	n := 0
	for key := range all {
		if strings.HasPrefix(key, c.to.namespace()+"__") || strings.HasPrefix(strings.TrimPrefix(key, "ui://"), c.to.namespace()+"+") {
			n++
		}
	}
	return n
}

// listed compares an item with the server's own.
func (c *cell) listed(kind mcp.Kind, own, got []byte) error {
	if got == nil {
		return errors.New("is not listed")
	}
	for m := range mcp.Members(own) {
		name := string(own[m.KeyText.Start:m.KeyText.End])
		if name == kind.KeyMember() || name == "_meta" && mcp.Lookup(own, "_meta", "ui") != nil {
			continue // changed on purpose
		}
		want := string(m.Value.Of(own))
		if !c.knows(name, m.Value.Of(own)) {
			want = ""
		}
		if name == "annotations" && want != "" && c.down.rev == mcp.V20250326 && mcp.Lookup(own, "title") != nil {
			// Before titles there was one in the annotations.
			want = string(mcp.SetMember([]byte(want), "title", mcp.Lookup(own, "title")))
		}
		if err := is(name, mcp.Lookup(got, name), want); err != nil {
			return err
		}
	}
	for m := range mcp.Members(got) {
		if name := string(got[m.KeyText.Start:m.KeyText.End]); mcp.Lookup(own, name) == nil {
			return fmt.Errorf("it has a member %s that is not the server's", name)
		}
	}
	return nil
}

// knows tells whether the client's revision has a member of an item. What no
// revision has is passed on.
func (c *cell) knows(member string, value []byte) bool {
	for _, a := range arrived {
		if a.member == member && c.down.rev < a.rev {
			return false
		}
	}
	switch member {
	case "outputSchema": // up to 2025-11-25 its root is an object
		kind, _ := mcp.LookupString(value, "type")
		return c.down.modern() || kind == "object"
	case "execution": // of the tasks of 2025-11-25 alone
		return c.down.rev == mcp.V20251125
	}
	return true
}

// kindsOfContent are the content blocks, with the revision that brought each.
var kindsOfContent = map[string]mcp.Version{
	"text": mcp.V20241105, "image": mcp.V20241105, "resource": mcp.V20241105, "audio": mcp.V20250326, "resource_link": mcp.V20250618,
}

// contents holds the blocks of a result and of a prompt to what the client's
// revision knows; what it does not know is not lost in silence.
func contents(ctx context.Context, c *cell) error {
	got, err := c.call(ctx, "content", "")
	if err != nil {
		return err
	}
	var blocks [][]byte
	content := mcp.Lookup(got.result, "content")
	for e := range mcp.Elements(content) {
		blocks = append(blocks, e.Of(content))
	}
	if err := errors.Join(c.blocks(blocks), c.structured(got.result)); err != nil {
		return err
	}
	prompt, err := c.good(c.client.do(ctx, mcp.MethodPromptsGet, []byte(`{"name":"`+c.to.tool("content")+`"}`)))
	if err != nil {
		return err
	}
	blocks = nil
	messages := mcp.Lookup(prompt.result, "messages")
	for e := range mcp.Elements(messages) {
		blocks = append(blocks, mcp.Lookup(e.Of(messages), "content"))
	}
	if err := c.blocks(blocks); err != nil {
		return fmt.Errorf("the prompt: %w", err)
	}
	if c.to.kind.rev < mcp.V20250618 {
		return nil
	}
	silent, err := c.call(ctx, "silent", "")
	if err != nil {
		return err
	}
	return c.structured(silent.result)
}

// blocks holds content blocks to the revisions of both sides.
func (c *cell) blocks(blocks [][]byte) error {
	var found []string
	for _, block := range blocks {
		kind, _ := mcp.LookupString(block, "type")
		found = append(found, kind)
		if first := kindsOfContent[kind]; first == "" || c.down.rev < first {
			return fmt.Errorf("%s has no %s", c.down.rev, kind)
		}
		if err := c.embedded(block); err != nil {
			return err
		}
	}
	sent := 0
	for kind, first := range kindsOfContent {
		if c.to.kind.rev < first {
			continue
		}
		sent++
		if c.down.rev >= first && !slices.Contains(found, kind) {
			return fmt.Errorf("the %s is lost: %s", kind, blocks)
		}
	}
	if len(blocks) < sent {
		return fmt.Errorf("%d blocks of %d: %s", len(blocks), sent, blocks)
	}
	return nil
}

// embedded holds the URIs in a result to their exposed form.
func (c *cell) embedded(blocks []byte) error {
	for _, own := range []string{"res://host/embedded", "res://host/linked"} {
		if n, exposed := strings.Count(string(blocks), own), strings.Count(string(blocks), c.to.uri(own)); n != exposed {
			return fmt.Errorf("%d of %d mentions of %s are exposed: %s", exposed, n, own, blocks)
		}
	}
	return nil
}

// structured holds the structured content of a result to what the client's
// revision has; where it has none, its JSON is there as text.
func (c *cell) structured(result []byte) error {
	got := mcp.Lookup(result, "structuredContent")
	want := ""
	switch {
	case c.to.kind.rev < mcp.V20250618:
		return is("structuredContent", got, "")
	case c.to.kind.modern():
		want = structuredValue
	default:
		want = structuredObject
	}
	if fits := c.down.rev >= mcp.V20250618 && (c.down.modern() || mcp.IsObject([]byte(want))); fits {
		return is("structuredContent", got, want)
	}
	if got != nil {
		return fmt.Errorf("structuredContent is %s", got)
	}
	if !strings.Contains(string(result), string(mcp.Quote(want))) {
		return fmt.Errorf("the structured content is lost: %s", result)
	}
	return nil
}
