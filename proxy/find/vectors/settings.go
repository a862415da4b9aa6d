package vectors

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/loopback"
)

// Settings are what an operator says of the embedding model. The zero value turns it off.
type Settings struct {
	// Base URL of an OpenAI-compatible API, such as https://api.openai.com/v1 or http://localhost:11434/v1. The names,
	// titles and descriptions of everything that can be found are sent to /embeddings below it, and so is every query.
	// Default: no vectors; nothing is sent.
	URL string `config:"url" format:"url"`
	// Name of the embedding model. Required with url.
	Model string `config:"model"`
	// API key, sent as a bearer token. Default: none.
	APIKey secret.Text `config:"api_key"`
	// Private or special address ranges in which the host may be. Default: those that the URL itself names.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`
}

// On reports whether there is a model.
func (s *Settings) On() bool { return s.URL != "" }

func (s *Settings) equal(o *Settings) bool {
	return s.URL == o.URL && s.Model == o.Model && s.APIKey.Reveal() == o.APIKey.Reveal() && slices.Equal(s.AllowAddresses, o.AllowAddresses)
}

// Check implements [decode.Checker].
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	if !s.On() {
		switch {
		case s.Model != "":
			p.At(n.Get("model"), path+".model", "add url: URL", "no endpoint has this model")
		case s.APIKey != "":
			p.At(n.Get("api_key"), path+".api_key", "add url: URL", "no endpoint has this key")
		case len(s.AllowAddresses) > 0:
			p.At(n.Get("allow_addresses"), path+".allow_addresses", "add url: URL", "no endpoint is reached there")
		}
		return
	}
	if s.Model == "" {
		p.At(n, path+".model", "write the name of an embedding model that the endpoint has", "is missing")
	}
	if _, _, err := s.endpoint(); err != nil {
		p.At(n.Get("url"), path+".url", "write it as https://HOST/v1", "%s", err)
		return
	}
	if strings.ContainsFunc(s.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.At(n.Get("api_key"), path+".api_key", "remove spaces, line breaks and the like", "the key has characters that no header may have")
	}
	if u, _ := url.Parse(s.URL); s.APIKey != "" && u.Scheme == "http" && !loopback.Host(u.Hostname()) && len(s.AllowAddresses) == 0 {
		p.At(n.Get("url"), path+".url", "write https://, or allow_addresses if the host is in a network of yours", "the key would be sent in the clear")
	}
}

// endpoint returns the address to which texts are posted, and what may be reached.
func (s *Settings) endpoint() (address string, policy egress.Policy, err error) {
	t, err := egress.ParseTemplate(s.URL)
	if err != nil {
		return "", policy, err
	}
	if len(t.Names()) > 0 {
		return "", policy, fmt.Errorf("the URL has a {%s}, and nothing takes its place", t.Names()[0])
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", policy, fmt.Errorf("the URL cannot be read")
	}
	policy = t.Policy()
	for _, text := range s.AllowAddresses {
		p, err := netip.ParsePrefix(text)
		if a, is := netip.ParseAddr(text); is == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return "", policy, fmt.Errorf("allow_addresses: %w", err)
		}
		policy.Allow = append(policy.Allow, p)
	}
	return u.JoinPath("embeddings").String(), policy, nil
}
