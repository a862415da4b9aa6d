package config

import (
	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// checkServerAuth reports what how toolgate authenticates to a server has wrong, by
// itself and beside other settings.
func checkServerAuth(p *tree.Problems, n *tree.Node, path string, s *ServerSettings, t *Toolgate) {
	a := &s.Auth
	a.Check(p, n, path)
	if a.Mode == credential.Exchange && a.Exchange.Subject == "" && !t.TakesTokens() {
		p.At(n.Get("exchange"), path+".exchange", "add auth.jwt or auth.introspection, or subject: FILE", "callers bring no tokens that could be traded")
	}
	if a.Header != "" && !decode.HeaderName(a.Header) {
		p.At(n.Get("header"), path+".header", "", "%.40q is not a name of a header", a.Header)
	}
	if s.Isolation == upstream.IsolateShared && a.Per == credential.PerPrincipal {
		p.At(n.Get("per"), path+".per", "remove isolation: shared", "connections that all share cannot carry a credential of each caller")
	}
}
