// Package web is the plugin that fetches pages and searches.
//
// Models choose the URLs. Every request therefore goes through a guard of package
// egress, which also checks resolved addresses and redirects. The returned text is
// untrusted.
package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the plugin's key in the configuration.
const Name = "web"

func init() { embedded.Enter(Name, Plugin) }

// Plugin returns the plugin.
func Plugin() *toolapi.Plugin {
	s := &plugin{}
	p := toolapi.New(Name, "")
	p.Init = func(config []byte) error {
		if err := s.open(config); err != nil {
			return err
		}
		p.Add(s.fetchTool(), s.searchTool())
		return nil
	}
	p.Close = s.close
	return p
}

// Config is the JSON for [toolapi.Plugin.Open]. Zero values mean the defaults.
type Config struct {
	AllowHosts     []string `json:"allow_hosts"`
	DenyHosts      []string `json:"deny_hosts"`
	AllowAddresses []string `json:"allow_addresses"` // ranges of special addresses that are allowed
	Ports          []uint16 `json:"ports"`           // 80 and 443
	MaxBytes       int64    `json:"max_bytes"`       // per answer; 5 MiB
	Timeout        Duration `json:"timeout"`         // per request with its redirects; 20 s
	Redirects      *int     `json:"redirects"`       // 5
	UserAgent      string   `json:"user_agent"`      // toolgate
	Search         Search   `json:"search"`
}

// Search is a search engine that answers in JSON; without a URL there is none.
type Search struct {
	URL     string            `json:"url"` // with {query} and maybe {count}
	Headers map[string]string `json:"headers"`
	// The paths of values in the answer, as names with dots: the list, and the fields
	// of a result. The defaults fit SearXNG.
	Results string `json:"results"`
	Title   string `json:"title"`
	Link    string `json:"link"`
	Snippet string `json:"snippet"`
}

// Duration is a time as a text, such as "20s", or a number of nanoseconds.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return json.Unmarshal(raw, (*int64)(d))
	}
	if text == "" {
		return nil
	}
	v, err := time.ParseDuration(text)
	*d = Duration(v)
	return err
}

// plugin is the state that the tools share.
type plugin struct {
	config  Config
	guard   *egress.Guard
	pages   *egress.Client
	engine  *egress.Client
	address *egress.Template // of the search engine; nil when there is none
	names   resultNames
}

func (p *plugin) open(raw []byte) error {
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		if err := d.Decode(&p.config); err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
	}
	c := &p.config
	if c.MaxBytes <= 0 {
		c.MaxBytes = 5 << 20
	}
	if c.Timeout <= 0 {
		c.Timeout = Duration(20 * time.Second)
	}
	if c.Redirects == nil {
		five := 5
		c.Redirects = &five
	}
	if c.UserAgent == "" {
		c.UserAgent = "toolgate"
	}
	policy := egress.Policy{AllowHosts: c.AllowHosts, DenyHosts: c.DenyHosts, Ports: c.Ports}
	for _, text := range c.AllowAddresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("allow_addresses: %w", err)
		}
		policy.Allow = append(policy.Allow, prefix)
	}
	var err error
	if p.guard, err = egress.New(policy); err != nil {
		return err
	}
	limits := egress.Limits{Timeout: time.Duration(c.Timeout), Body: c.MaxBytes, Redirects: *c.Redirects}
	p.pages = egress.NewClient(p.guard, limits, nil)
	if err := p.openSearch(limits); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	return nil
}

func (p *plugin) close() {
	for _, c := range [...]*egress.Client{p.pages, p.engine} {
		if c != nil {
			c.Close()
		}
	}
}

// timeout bounds a call: a request, and the time to convert the answer.
func (p *plugin) timeout() time.Duration { return time.Duration(p.config.Timeout) + 5*time.Second }

// header sets the headers of every request.
func (p *plugin) header(req *http.Request, accept string) {
	req.Header.Set("User-Agent", p.config.UserAgent)
	req.Header.Set("Accept", accept)
}
