package web

import (
	"time"

	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are the section native.web: it fetches pages and searches.
type Settings struct {
	// The only hosts that may be reached; "*.example.com" includes all subdomains. Default: all.
	AllowHosts []string `config:"allow_hosts"`
	// Hosts that are never reached; they take precedence over allow_hosts. Default: none.
	DenyHosts []string `config:"deny_hosts"`
	// Private or special address ranges that may be reached. Default: none.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`
	// Ports that may be reached. Default: 80 and 443.
	Ports []int `config:"ports" min:"1" max:"65535"`
	// How much of a response is read. Default: 5MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Timeout of one request, including redirects. Default: 20s.
	Timeout time.Duration `config:"timeout" min:"100ms" max:"10m"`
	// How many redirects are followed. Default: 5.
	Redirects *int `config:"redirects" min:"0" max:"20"`
	// User-Agent header of the requests. Default: toolgate and its version.
	UserAgent string `config:"user_agent"`
	// Search engine for web__search. Default: none; web__search answers that there is none.
	Search SearchSettings `config:"search"`
	group.Confined
}

// SearchSettings are a search engine that answers in JSON.
type SearchSettings struct {
	// URL of a search; {query} is replaced by the words and {count} by the number of results. Default: no search engine.
	URL string `config:"url"`
	// Headers of each search request; a value may contain variables, as in "Bearer ${TOKEN}". Default: none.
	Headers map[string]secret.Text `config:"headers"`
	// Where the answer has the list of results, as names separated by dots. Default: results.
	Results string `config:"results"`
	// Where a result has its title. Default: title.
	Title string `config:"title"`
	// Where a result has its URL. Default: url.
	Link string `config:"link"`
	// Where a result has its text. Default: content.
	Snippet string `config:"snippet"`
}

// Child implements [group.Settings].
func (s *Settings) Child(g *group.Gateway) group.Child {
	c := Config{
		AllowHosts: s.AllowHosts, DenyHosts: s.DenyHosts, AllowAddresses: s.AllowAddresses, MaxBytes: int64(s.MaxBytes),
		Timeout: Duration(s.Timeout), Redirects: s.Redirects, UserAgent: s.UserAgent,
		Search: Search{
			URL: s.Search.URL, Headers: make(map[string]string, len(s.Search.Headers)), Results: s.Search.Results,
			Title: s.Search.Title, Link: s.Search.Link, Snippet: s.Search.Snippet,
		},
	}
	for _, port := range s.Ports {
		c.Ports = append(c.Ports, uint16(port)) // its range is checked
	}
	for name, value := range s.Search.Headers {
		c.Search.Headers[name] = value.Reveal()
	}
	if c.UserAgent == "" {
		c.UserAgent = "toolgate/" + g.Version
	}
	child := group.Child{Policy: s.Policy(), Config: c}
	child.Policy.Read, child.Policy.Network = group.Existing("/etc"), sandbox.FullNetwork
	return child
}
