package opa

import (
	"net/url"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/tree"
)

// Settings say where the policy is and how it is read; exactly one of Path, Bundle
// and URL is set.
//
// A folder at Path holds policies in .rego files, also in its folders; data files are
// named data.json, data.yaml or data.yml, and what they hold is found at
// data.<folder>. Files whose name ends in _test.rego are only for [RunTests]; names
// that begin with a dot are skipped, except .manifest. Path may be a bundle on disk as
// well (.tar.gz, .tgz). The manifest of a bundle may name another version of the
// language for itself. The actions that have other names for the policy are
// tool.view, tool.request, tool.enable, prompt.view, prompt.request, resource.view and
// resource.request.
type Settings struct {
	// Path is a folder of policies. Absent: none.
	Path string `config:"path" format:"path"`
	// Bundle is the https URL of a bundle. Absent: none.
	Bundle string `config:"bundle" format:"url"`
	// BundleKey is a file with the public key, in PEM, of who signs the bundle; one that is not signed by it is refused. Absent: whoever serves the bundle decides.
	BundleKey string `config:"bundle_key" format:"path"`
	// URL is a remote policy server, with https. Absent: evaluated here.
	URL string `config:"url" format:"url"`
	// Decision is the rule asked. Absent: data.toolgate.decision.
	Decision string `config:"decision"`
	// RegoVersion is the language version. Absent: v1.
	RegoVersion RegoVersion `config:"rego_version" enum:"v0|v1"`
	// Mode is whether its denials count. Absent: enforce.
	Mode Mode `config:"mode" enum:"enforce|shadow"`
	// Actions renames the actions for the policy. Absent: unchanged.
	Actions map[string]string `config:"actions"`
}

// Set tells whether there is a policy.
func (s *Settings) Set() bool { return s.Path != "" || s.Bundle != "" || s.URL != "" }

// Check implements [decode.Checker]: nobody else may change a policy on its way here.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for _, from := range []struct{ key, url string }{{"bundle", s.Bundle}, {"url", s.URL}} {
		if u, err := url.Parse(from.url); err == nil && u.Scheme == "http" && !decode.ThisMachine(u.Hostname()) {
			p.At(n.Get(from.key), tree.Join(path, from.key), "write https://, or an address of this machine such as 127.0.0.1",
				"over http, whoever is in between says what is allowed")
		}
	}
	if s.BundleKey != "" && s.Bundle == "" {
		p.At(n.Get("bundle_key"), tree.Join(path, "bundle_key"), "remove it, or add bundle: URL", "there is no bundle that is fetched")
	}
}
