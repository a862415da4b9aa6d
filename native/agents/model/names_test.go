package model_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 200)
	tools := []model.Tool{
		{Name: "notes__save"},
		{Name: "notes__save.note"},
		{Name: "notes__save/note"},
		{Name: "größe"},
		{Name: long},
		{Name: long + "b"},
		{Name: strings.Repeat("b", 64)},
		{Name: ""},
		{Name: "\xff\x00"},
	}
	// A tool may have the very name that another is given.
	tools = append(tools, model.Tool{Name: model.NewNames(tools, 64).Wire("notes__save.note")})
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	names, again := model.NewNames(tools, 64), model.NewNames(tools, 64)
	seen := map[string]bool{}
	for _, tool := range tools {
		wire := names.Wire(tool.Name)
		switch {
		case !valid.MatchString(wire):
			t.Errorf("%q is %q on the wire", tool.Name, wire)
		case seen[wire]:
			t.Errorf("two tools are %q on the wire", wire)
		case names.Tool(wire) != tool.Name:
			t.Errorf("%q comes back as %q", tool.Name, names.Tool(wire))
		case again.Wire(tool.Name) != wire:
			t.Errorf("%q has two names", tool.Name)
		case valid.MatchString(tool.Name) && wire != tool.Name:
			t.Errorf("%q is %q without need", tool.Name, wire)
		}
		seen[wire] = true
	}
	if got := names.Wire("gone.tool"); !valid.MatchString(got) || names.Tool(got) != got {
		t.Errorf("a tool that is gone is %q", got)
	}
	if got := names.Tool("made up"); got != "made up" {
		t.Errorf("a name that the model made up is %q", got)
	}
}
