package opa

import (
	"net/url"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/loopback"
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
	// Folder with policies. Default: none.
	Path string `config:"path" format:"path"`
	// https URL of a policy bundle. Default: none.
	Bundle string `config:"bundle" format:"url"`
	// PEM file with the public key of the bundle's signer; a bundle without its signature is refused. Default: bundles
	// need no signature.
	BundleKey string `config:"bundle_key" format:"path"`
	// https URL of a remote policy server. Default: policies are evaluated in this process.
	URL string `config:"url" format:"url"`
	// Rule to evaluate. Default: data.toolgate.decision.
	Decision string `config:"decision"`
	// Version of the Rego language. Default: v1.
	RegoVersion RegoVersion `config:"rego_version" enum:"v0|v1"`
	// Whether denials apply (enforce) or are only recorded. Default: enforce.
	Mode Mode `config:"mode" enum:"enforce|shadow"`
	// Names that the policy sees for the actions. Default: the actions' own names.
	Actions map[string]string `config:"actions"`
}

// InputLimits are the settings of the section limits that bound what a policy sees.
type InputLimits struct {
	// Largest arguments that a policy sees. Larger ones are denied, unless the policy reads no arguments or checks
	// input.args_replaced. Default: 256KiB.
	PolicyInput units.Size `config:"policy_input" default:"256KiB" min:"1KiB" max:"16MiB"`
}

// Set tells whether there is a policy.
func (s *Settings) Set() bool { return s.Path != "" || s.Bundle != "" || s.URL != "" }

// Check implements [decode.Checker]: nobody else may change a policy on its way here.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for _, from := range []struct{ key, url string }{{"bundle", s.Bundle}, {"url", s.URL}} {
		if u, err := url.Parse(from.url); err == nil && u.Scheme == "http" && !loopback.Host(u.Hostname()) {
			p.At(n.Get(from.key), tree.Join(path, from.key), "write https://, or an address of this machine such as 127.0.0.1",
				"over http, whoever is in between says what is allowed")
		}
	}
	if s.BundleKey != "" && s.Bundle == "" {
		p.At(n.Get("bundle_key"), tree.Join(path, "bundle_key"), "remove it, or add bundle: URL", "there is no bundle that is fetched")
	}
}
