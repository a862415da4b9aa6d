package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// A key that looks like a known one is named. Keys of clients, and what looks like
// nothing, are left alone.
func TestMisspeltKeys(t *testing.T) {
	t.Parallel()
	const text = `{"mcpServers": {"a": {"command": "x", "agrs": [], "headrs": {}, "autoApprove": ["*"], "disabled": false, "x-notes": 1, "colour": "red"}}}`
	c, err := config.Parse("mcp.json", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range c.Warnings {
		key, _, _ := strings.Cut(strings.TrimPrefix(w.Key, "mcpServers.a."), ":")
		got = append(got, key+w.Text[strings.LastIndex(w.Text, " "):])
	}
	if want := []string{"agrs args?", "headrs headers?"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
