package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// wellKnownResource is the path of protected resource metadata (RFC 9728 section 3).
const wellKnownResource = "/.well-known/oauth-protected-resource"

// ResourceOptions configure a [Resource].
type ResourceOptions struct {
	// PublicURL is where clients reach the gateway, without the endpoint:
	// "https://gw.example" or "https://example.com/tools". It is https, or http on this
	// machine.
	PublicURL string
	// AuthorizationServers are the issuers of tokens, at least one.
	AuthorizationServers []string
	// Scopes are those that a client should begin with: the challenge for a request
	// without a valid token names them. Fewer are better.
	Scopes []string
	// ScopesSupported are listed in the metadata; Scopes when nil.
	ScopesSupported []string
	// Name is shown to people; empty for none.
	Name string
	// Endpoints are the paths of endpoints below the public URL. A last segment *
	// stands for any one segment. The first is the main endpoint. {"/mcp", "/sse",
	// "/mcp/s/*", "/mcp/c/*"} when nil. Whether something exists at a path does not
	// matter and is not revealed.
	Endpoints []string
	// Views are what may follow the path of an endpoint for another view of the same,
	// such as "/find"; nil for none. A view is a resource of its own, and also admits the
	// tokens of its endpoint, because nobody may do more there.
	Views []string
	// Aliases are paths that belong to an endpoint; {"/message": "/sse"} when nil.
	Aliases map[string]string
}

// Resource is the gateway as an OAuth 2.1 protected resource. Each endpoint is a
// resource with its own identifier and metadata (RFC 9728). All of it comes from the
// configuration, never from the headers of a request. A nil Resource has no endpoint,
// and its challenges lead nowhere. It is safe for concurrent use.
type Resource struct {
	base      string // the public URL without a trailing slash
	basePath  string // of the public URL
	origin    string
	endpoints []string
	views     []string
	aliases   map[string]string
	servers   []string
	scopes    []string
	supported []string
	name      string
}

// NewResource returns the resource.
func NewResource(o ResourceOptions) (*Resource, error) {
	u, err := serverURL(o.PublicURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("public URL: %w", err)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("the public URL %q must have no query", o.PublicURL)
	case len(o.AuthorizationServers) == 0:
		return nil, errors.New("a protected resource needs an authorization server that clients get tokens from")
	}
	for _, server := range o.AuthorizationServers {
		if _, err := serverURL(server); err != nil {
			return nil, fmt.Errorf("authorization server: %w", err)
		}
	}
	for _, scope := range slices.Concat(o.Scopes, o.ScopesSupported) {
		if !scopeToken(scope) {
			return nil, fmt.Errorf("%q is not a scope", scope)
		}
	}
	if len(strings.Join(o.Scopes, " ")) > challengeBytes {
		return nil, fmt.Errorf("the scopes of a challenge must fit into %d bytes", challengeBytes)
	}
	x := &Resource{
		origin:    lowerASCII(u.Scheme) + "://" + lowerASCII(u.Host),
		basePath:  strings.TrimRight(u.EscapedPath(), "/"),
		endpoints: o.Endpoints,
		views:     o.Views,
		aliases:   o.Aliases,
		servers:   slices.Clone(o.AuthorizationServers),
		scopes:    withoutOffline(o.Scopes),
		supported: withoutOffline(o.ScopesSupported),
		name:      o.Name,
	}
	x.base = x.origin + x.basePath
	if o.ScopesSupported == nil {
		x.supported = x.scopes
	}
	if x.endpoints == nil {
		x.endpoints = []string{"/mcp", "/sse", "/mcp/s/*", "/mcp/c/*"}
	}
	if x.aliases == nil {
		x.aliases = map[string]string{"/message": "/sse"}
	}
	return x, x.checkEndpoints()
}

func (x *Resource) checkEndpoints() error {
	if len(x.endpoints) == 0 || strings.HasSuffix(x.endpoints[0], "*") {
		return errors.New("the first endpoint must be a path without *")
	}
	for _, path := range x.endpoints {
		plain := strings.TrimSuffix(path, "/*")
		if !strings.HasPrefix(plain, "/") || strings.HasSuffix(plain, "/") || strings.ContainsAny(plain, "*?#\"\\ ") {
			return fmt.Errorf("the endpoint %q must be a path such as /mcp or /mcp/s/*", path)
		}
	}
	for alias, path := range x.aliases {
		if x.endpoint(path) == "" {
			return fmt.Errorf("%s belongs to %s, which is not an endpoint", alias, path)
		}
	}
	return nil
}

func withoutOffline(scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == offlineAccess })
}

// endpoint returns the endpoint that a path is, or belongs to; empty for none. Paths
// are not cleaned: each has one spelling.
func (x *Resource) endpoint(path string) string {
	if x == nil {
		return ""
	}
	if of, ok := x.aliases[path]; ok {
		path = of
	}
	if x.isEndpoint(path) || x.viewOf(path) != "" {
		return path
	}
	return ""
}

// viewOf returns the endpoint that a path is a view of; empty for none.
func (x *Resource) viewOf(path string) string {
	for _, view := range x.views {
		if base, ok := strings.CutSuffix(path, view); ok && x.isEndpoint(base) {
			return base
		}
	}
	return ""
}

// isEndpoint reports whether a path is that of an endpoint without a view.
func (x *Resource) isEndpoint(path string) bool {
	return slices.ContainsFunc(x.endpoints, func(e string) bool {
		prefix, wild := strings.CutSuffix(e, "*")
		return !wild && path == e || wild && strings.HasPrefix(path, prefix) && segment(path[len(prefix):])
	})
}

// segment reports whether s is one escaped path segment (RFC 3986 section 3.3), and
// none that a client would resolve.
func segment(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@%", c) >= 0 {
			continue
		}
		return false
	}
	return true
}

// identifiers returns the resource identifiers whose tokens a request's endpoint admits:
// its own, that of the endpoint of which it is a view, and for an alias, which does not
// say of which view it is, those of all views.
func (x *Resource) identifiers(r *http.Request) (all []string) {
	asked := ""
	if x != nil {
		asked = r.URL.EscapedPath()
	}
	path := x.endpoint(asked)
	if path == "" {
		return nil
	}
	all = append(all, x.base+path)
	if of := x.viewOf(path); of != "" {
		all = append(all, x.base+of)
	}
	if x.aliases[asked] != "" {
		for _, view := range x.views {
			all = append(all, x.base+path+view)
		}
	}
	return all
}

// Identifiers returns the resource identifier of an endpoint's path, such as "/mcp",
// and the URL of its metadata. For any other path it returns those of the main
// endpoint.
func (x *Resource) Identifiers(path string) (resource, metadata string) {
	if path = x.endpoint(path); path == "" {
		path = x.endpoints[0]
	}
	return x.base + path, x.origin + wellKnownResource + x.basePath + path
}

// Serves reports whether a path is that of metadata, which [Resource.ServeHTTP] serves:
// /.well-known/oauth-protected-resource and everything below it.
func (x *Resource) Serves(path string) bool {
	return x != nil && (path == wellKnownResource || strings.HasPrefix(path, wellKnownResource+"/"))
}

// metadata is the document of RFC 9728 section 2.
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	ResourceName         string   `json:"resource_name,omitempty"`
}

// ServeHTTP serves metadata, without authentication and to pages of every origin,
// because it is public. The document at the root is that of the main endpoint (MCP
// 2026-07-28 authorization server discovery).
func (x *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := x.metadataEndpoint(r.URL.EscapedPath())
	if path == "" {
		http.Error(w, "there is no metadata at this path", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Mcp-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(metadata{
		Resource: x.base + path, AuthorizationServers: x.servers, ScopesSupported: x.supported,
		BearerMethods: []string{"header"}, ResourceName: x.name,
	})
	if err != nil {
		http.Error(w, "the metadata cannot be written", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(body)
}

// metadataEndpoint returns the endpoint that a metadata path is about; empty for none.
// The path includes the path of the public URL (RFC 9728 section 3.1).
func (x *Resource) metadataEndpoint(path string) string {
	if x == nil {
		return ""
	}
	rest, ok := strings.CutPrefix(path, wellKnownResource)
	if !ok {
		return ""
	}
	if rest == "" || rest == x.basePath {
		return x.endpoints[0]
	}
	rest, ok = strings.CutPrefix(rest, x.basePath)
	if _, alias := x.aliases[rest]; !ok || alias {
		return ""
	}
	return x.endpoint(rest)
}
