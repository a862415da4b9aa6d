package declared

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// TestLayers tells what confines all commands of a backend.
func TestLayers(t *testing.T) {
	command := func(name string, mode sandbox.Mode) Tool {
		return Tool{Name: name, Command: &Command{Args: []string{"/bin/true"}, Policy: sandbox.Policy{Mode: mode, Temp: true}}}
	}
	request := Tool{Name: "request", HTTP: &HTTP{URL: "https://a.example"}}
	available, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto, Temp: true})
	if err != nil {
		t.Fatal(err)
	}
	var confined []string
	for _, layer := range available.InForce {
		confined = append(confined, string(layer))
	}
	for name, c := range map[string]struct {
		tools    []Tool
		want     []string
		commands bool
	}{
		"none":       {[]Tool{request}, nil, false},
		"confined":   {[]Tool{request, command("one", sandbox.Auto), command("two", sandbox.Auto)}, confined, true},
		"free":       {[]Tool{command("one", sandbox.Off)}, nil, true},
		"one is not": {[]Tool{command("one", sandbox.Auto), command("two", sandbox.Off)}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := backend(t, c.tools...)
			got, commands := b.Layers()
			if !slices.Equal(got, c.want) || commands != c.commands {
				t.Errorf("layers %q, %v; want %q, %v", got, commands, c.want, c.commands)
			}
		})
	}
}

// A command that must be confined and cannot be is not offered, and the state says
// why and what to write; the others are.
func TestCommandsThatCannotBeConfinedAreNotOffered(t *testing.T) {
	real, is := refusal, available
	t.Cleanup(func() { refusal, available = real, is })
	refusal = func(p sandbox.Policy) error {
		if p.Mode == sandbox.Auto || p.Mode == sandbox.Off {
			return nil
		}
		return fmt.Errorf("%w (landlock: none); write sandbox: auto", sandbox.ErrMissing)
	}
	available = func(sandbox.Policy) (sandbox.Layers, error) {
		return sandbox.Layers{Missing: []sandbox.Missing{{Layer: sandbox.Files, Needed: true}, {Layer: sandbox.Calls, Needed: true}}}, nil
	}
	command := func(name string, mode sandbox.Mode) Tool {
		return Tool{Name: name, Description: "Does it.", Command: &Command{Args: []string{"/bin/true"}, Policy: sandbox.Policy{Mode: mode, Temp: true}}}
	}
	b := backend(t, command("unwritten", ""), command("strict", sandbox.Required), command("loose", sandbox.Auto), command("free", sandbox.Off))
	listing, status := b.Listing()
	var names []string
	for _, item := range listing.Items[mcp.Tool] {
		names = append(names, item.Key)
		if said := strings.Contains(string(item.Raw), "not fully confined"); said != (item.Key == "loose") {
			t.Errorf("%s: %s", item.Key, item.Raw)
		}
	}
	if !slices.Equal(names, []string{"free", "loose"}) {
		t.Errorf("%q are offered", names)
	}
	for _, part := range []string{"unwritten is not offered", "strict is not offered", "landlock: none", "write sandbox: auto"} {
		if !strings.Contains(status.Reason, part) {
			t.Errorf("%q lacks %q", status.Reason, part)
		}
	}
	if status.State != mcp.Degraded {
		t.Errorf("the state is %s", status.State)
	}
}
