package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/proto"
	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	mostTools    = 1000
	mostPages    = 100
	listedTime   = time.Hour // a list changes only with the process
	mostFactText = 64
)

// Facts are what a plugin declares about a tool beyond its definition.
type Facts struct {
	ReadOnly, Destructive bool
	Category              string
	Risk                  toolapi.Risk
	Timeout               time.Duration // 0 if it declares none
	RatePerHour           int
	Queue                 bool
}

// catalog is the list of tools of one process. It is immutable.
type catalog struct {
	listing *mcp.Listing
	facts   map[string]Facts
}

func (c *catalog) names() []string { return slices.Sorted(maps.Keys(c.facts)) }

// listTools lists the tools of a process. A tool that cannot be served is left out
// and logged.
func listTools(ctx context.Context, client proto.ToolPluginClient, key string, hello *proto.InitResponse, log *slog.Logger) (*catalog, error) {
	c := &catalog{facts: make(map[string]Facts)}
	c.listing = &mcp.Listing{
		Era: mcp.Modern, Version: mcp.V20260728, Capabilities: []byte(`{"tools":{}}`), FetchedAt: time.Now(),
		Items: map[mcp.Kind][]mcp.Item{}, TTL: map[mcp.Kind]time.Duration{mcp.Tool: listedTime},
	}
	name, version := hello.GetName(), hello.GetVersion()
	if name == "" {
		name = key
	}
	info := mcp.AppendQuote([]byte(`{"name":`), name)
	c.listing.ServerInfo = append(mcp.AppendQuote(append(info, `,"version":`...), version), '}')
	cursor := ""
	for range mostPages {
		page, err := client.ListTools(ctx, &proto.ListToolsRequest{Cursor: cursor})
		if err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		for _, t := range page.GetTools() {
			if err := c.add(t); err != nil {
				log.Warn("a tool of the plugin is not served", "tool", printable([]byte(t.GetName())), "err", err)
			}
		}
		if len(c.facts) > mostTools {
			return nil, fmt.Errorf("it lists more than %d tools: %w", mostTools, errPermanent)
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			slices.SortFunc(c.listing.Items[mcp.Tool], func(a, b mcp.Item) int { return strings.Compare(a.Key, b.Key) })
			return c, nil
		}
	}
	return nil, fmt.Errorf("its list of tools has more than %d pages: %w", mostPages, errPermanent)
}

// add adds a tool.
func (c *catalog) add(t *proto.Tool) error {
	if !toolapi.ValidName(t.GetName()) {
		return errors.New("the name is not 1 to 45 of A-Z, a-z, 0-9, _ and -")
	}
	if _, twice := c.facts[t.GetName()]; twice {
		return errors.New("another tool has the name")
	}
	raw, err := definition(t)
	if err != nil {
		return err
	}
	item, err := mcp.ParseItem(mcp.Tool, raw)
	if err != nil {
		return err
	}
	c.listing.Items[mcp.Tool] = append(c.listing.Items[mcp.Tool], item)
	f := Facts{
		Category: cut(t.GetCategory(), mostFactText), Risk: toolapi.High, Queue: t.GetQueue(),
		Timeout: time.Duration(max(0, t.GetTimeoutMs())) * time.Millisecond, RatePerHour: int(max(0, t.GetRatePerHour())),
	}
	if risk := toolapi.Risk(t.GetRisk()); risk == toolapi.Low || risk == toolapi.Medium {
		f.Risk = risk
	}
	hints := mcp.Lookup(raw, "annotations")
	f.ReadOnly = string(mcp.Lookup(hints, "readOnlyHint")) == "true"
	f.Destructive = !f.ReadOnly && string(mcp.Lookup(hints, "destructiveHint")) != "false"
	c.facts[t.GetName()] = f
	return nil
}

// definition returns a tool as MCP lists it.
func definition(t *proto.Tool) ([]byte, error) {
	out := mcp.AppendQuote([]byte(`{"name":`), t.GetName())
	text := func(key, value string) {
		if value != "" {
			out = mcp.AppendQuote(append(mcp.AppendQuote(append(out, ','), key), ':'), value)
		}
	}
	text("title", t.GetTitle())
	text("description", t.GetDescription())
	for _, part := range []struct {
		key      string
		value    []byte
		required bool
	}{
		{"inputSchema", t.GetInputSchemaJson(), true},
		{"outputSchema", t.GetOutputSchemaJson(), false},
		{"annotations", t.GetAnnotationsJson(), false},
	} {
		if len(part.value) == 0 && !part.required {
			continue
		}
		if !mcp.IsObject(part.value) {
			return nil, fmt.Errorf("%s is not a JSON object", part.key)
		}
		out = append(mcp.AppendQuote(append(out, ','), part.key), ':')
		out = append(out, part.value...)
	}
	out = append(out, '}')
	if err := mcp.Validate(out, mcp.Limits{}); err != nil {
		return nil, err
	}
	return out, nil
}

func cut(text string, most int) string { return text[:min(len(text), most)] }
