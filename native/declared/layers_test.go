package declared

import (
	"slices"
	"testing"

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
