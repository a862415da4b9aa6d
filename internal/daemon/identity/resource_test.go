package identity

import (
	"testing"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/auth"
)

// TestViewsAreResources: every view of an endpoint has an identifier of its own.
func TestViewsAreResources(t *testing.T) {
	c := &config.Toolgate{}
	c.Listen.PublicURL = "https://gw.example"
	c.Auth.JWT = []auth.Issuer{{Issuer: "https://id.example", Audience: []string{"gw"}}}
	x, err := newResource(c)
	if err != nil || x == nil {
		t.Fatal(x, err)
	}
	for _, view := range proxy.ViewPaths() {
		if got, _ := x.Identifiers("/mcp" + view); got != "https://gw.example/mcp"+view {
			t.Errorf("%s is the resource %s", view, got)
		}
	}
}
