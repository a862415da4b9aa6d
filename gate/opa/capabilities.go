package opa

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// forbidden are the builtin functions that a policy cannot call: they reach
// outside, differ from one decision to the next, or write where nobody reads. Those about
// JSON schemas open the files that a schema refers to.
// A name with a dot at its end stands for all that begin with it.
var forbidden = []string{
	"http.send", "net.lookup_ip_addr", "opa.runtime", "rand.intn", "trace", "uuid.",
	"json.match_schema", "json.verify_schema",
}

// clocked are builtin functions that look at the clock, or may, although OPA
// does not mark all of them as non-deterministic. Their results are not kept.
var clocked = []string{"time.now_ns", "io.jwt.", "crypto.x509.parse_and_verify_"}

func named(name string, list []string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if strings.HasSuffix(entry, ".") || strings.HasSuffix(entry, "_") {
			return strings.HasPrefix(name, entry)
		}
		return name == entry
	})
}

// capabilities returns what policies may use: the functions of this version of
// OPA without the forbidden ones, and no host for remote schemas.
func capabilities(v RegoVersion) *ast.Capabilities {
	caps := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(v.ast()))
	caps.Builtins = slices.DeleteFunc(caps.Builtins, func(b *ast.Builtin) bool { return named(b.Name, forbidden) })
	caps.AllowNet = []string{}
	return caps
}

// impure tells whether compiled modules call a function whose result can
// differ for the same input and data.
func impure(c *ast.Compiler) bool {
	return c.Required != nil && slices.ContainsFunc(c.Required.Builtins, func(b *ast.Builtin) bool {
		return b.Nondeterministic || named(b.Name, clocked)
	})
}
