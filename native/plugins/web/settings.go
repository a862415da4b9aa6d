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
	// AllowHosts are the only hosts that are reached, where "*.example.com" is any below it. Absent: all.
	AllowHosts []string `config:"allow_hosts"`
	// DenyHosts are never reached; they win over allow_hosts. Absent: none.
	DenyHosts []string `config:"deny_hosts"`
	// AllowAddresses are ranges of addresses that are reached although they are of a private or special network. Absent: none.
	AllowAddresses []string `config:"allow_addresses" format:"cidr"`
	// Ports are those that are reached. Absent: 80 and 443.
	Ports []int `config:"ports" min:"1" max:"65535"`
	// MaxBytes is how much of an answer is read. Absent: 5MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"64MiB"`
	// Timeout bounds one request with its redirects. Absent: 20s.
	Timeout time.Duration `config:"timeout" min:"100ms" max:"10m"`
	// Redirects is how many are followed. Absent: 5.
	Redirects *int `config:"redirects" min:"0" max:"20"`
	// UserAgent is what it calls itself. Absent: toolgate and its version.
	UserAgent string `config:"user_agent"`
	// Search is the engine that web__search asks. Absent: search answers that there is none.
	Search SearchSettings `config:"search"`
	group.Confined
}

// SearchSettings are a search engine that answers in JSON.
type SearchSettings struct {
	// URL is that of a search, with {query} where the words go and {count} where the number of results does. Absent: there is no engine.
	URL string `config:"url"`
	// Headers are sent with each; a value may name variables, as in "Bearer ${TOKEN}". Absent: none.
	Headers map[string]secret.Text `config:"headers"`
	// Results is where the list of results is in the answer, as names with dots. Absent: results.
	Results string `config:"results"`
	// Title is where a result's title is. Absent: title.
	Title string `config:"title"`
	// Link is where a result's address is. Absent: url.
	Link string `config:"link"`
	// Snippet is where a result's text is. Absent: content.
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
