//go:build !windows

package cli

import (
	"regexp"
	"strings"
	"testing"
)

// withNative is a configuration with native tools.
func withNative(groups map[string]any, servers map[string]any) map[string]any {
	return map[string]any{"native": groups, "servers": servers}
}

// validate says where a plugin is granted what is not there, or what is the
// gateway's own.
func TestValidatePluginGrants(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for name, c := range map[string]struct{ key, path, mode, want string }{
		"missing":      {"read", h.path("none"), "auto", "must exist"},
		"its own":      {"read", h.dir, "auto", "the gateway's own"},
		"what is":      {"read", "/usr/share", "auto", ""},
		"not confined": {"write", h.path("none"), "off", ""},
	} {
		plugin := map[string]any{"path": "/bin/sh", "sha256": strings.Repeat("ab", 32), "sandbox": c.mode, c.key: []string{c.path}}
		h.write(t, servers{}, withNative(map[string]any{"plugins": map[string]any{"x": plugin}}, nil))
		o := h.run(t, "validate", h.file)
		switch {
		case c.want == "" && o.code != 0, c.want != "" && (o.code != exitConfig || !strings.Contains(o.stderr, c.want)):
			t.Errorf("%s: %+v", name, o)
		case c.want != "" && !regexp.MustCompile(regexp.QuoteMeta(h.file)+`:\d+: native\.plugins\.x`).MatchString(o.stderr):
			t.Errorf("%s: no place in %s", name, o.stderr)
		}
	}
}
