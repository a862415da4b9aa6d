package mcp_test

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestPointerTokens(t *testing.T) {
	for name, token := range map[string]string{"": "", "a": "a", "a/b": "a~1b", "m~n": "m~0n", "~1": "~01", "~/": "~0~1"} {
		if got := mcp.PointerToken(name); got != token {
			t.Errorf("%q becomes %q, want %q", name, got, token)
		}
		if got := mcp.PointerName(token); got != name {
			t.Errorf("%q stands for %q, want %q", token, got, name)
		}
	}
}
