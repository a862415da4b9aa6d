package oauthtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Server is a protected MCP server of the legacy era. Its tool whoami tells whose
// token a request carried; its tool echo repeats its argument text after that.
type Server struct {
	URL string // of its endpoint
	// Authorities are those that it names; tokens of all of them are taken.
	Authorities []*Authority
	// Challenge replaces the header of its refusals where it is set.
	Challenge func() string
	// Resource replaces what its metadata calls it.
	Resource string
	// Need returns the scope that a tool needs.
	Need func(tool string) string
	// Tools names further tools that a user is listed.
	Tools func(user string) []string
	// Proofs takes tokens that are bound to keys, and refuses them without proofs; nil
	// takes bearer tokens alone. BoundOnly takes no others.
	Proofs    *Proofs
	BoundOnly bool
	// Accept lets a request in whatever its token is.
	Accept func(r *http.Request) (user string, ok bool)

	mu       sync.Mutex
	requests []http.Header
	calls    int
}

// NewServer starts a protected server that ends with the test.
func NewServer(t testing.TB, authorities ...*Authority) *Server {
	t.Helper()
	s := &Server{Authorities: authorities}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		var issuers []string
		for _, a := range s.Authorities {
			issuers = append(issuers, a.Issuer)
		}
		resource := s.URL
		if s.Resource != "" {
			resource = s.Resource
		}
		reply(w, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": issuers})
	})
	mux.HandleFunc("/mcp", s.serve)
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	s.URL = h.URL + "/mcp"
	return s
}

// Requests returns the headers of all requests to the endpoint.
func (s *Server) Requests() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]http.Header{}, s.requests...)
}

// Calls returns how many calls of tools were run.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Header.Clone())
	s.mu.Unlock()
	if s.Proofs != nil && s.Proofs.Next != nil {
		w.Header().Set("DPoP-Nonce", s.Proofs.Next())
	}
	user, scope, code := s.who(r)
	if code != "" {
		s.refuse(w, http.StatusUnauthorized, code, "")
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments struct{ Text string }
		}
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}
	switch m.Method {
	case "initialize":
		answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"protected","version":"1"}}`)
	case "tools/list":
		names := []string{"whoami", "echo"}
		if s.Tools != nil {
			names = append(names, s.Tools(user)...)
		}
		for i, name := range names {
			names[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
		}
		answer(`"result":{"tools":[` + strings.Join(names, ",") + `]}`)
	case "tools/call":
		if s.Need != nil {
			if need := s.Need(m.Params.Name); need != "" && !contains(scope, need) {
				s.refuse(w, http.StatusForbidden, "insufficient_scope", need)
				return
			}
		}
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		text, _ := json.Marshal(user + ":" + m.Params.Arguments.Text)
		answer(`"result":{"content":[{"type":"text","text":` + string(text) + `}]}`)
	case "ping":
		answer(`"result":{}`)
	default:
		answer(`"error":{"code":-32601,"message":"no such method"}`)
	}
}

// who returns whose token a request carries; code is what is wrong with it.
func (s *Server) who(r *http.Request) (user, scope, code string) {
	if s.Accept != nil {
		user, ok := s.Accept(r)
		if !ok {
			code = "invalid_token"
		}
		return user, "", code
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for _, a := range s.Authorities {
		g, ok := a.Knows(token)
		if !ok || g.Resource != s.URL {
			continue
		}
		switch {
		case (scheme == "DPoP") != (g.Key != ""):
			if s.Proofs != nil && g.Key != "" {
				s.Proofs.blame("%s: a bound token comes as %q", r.Method, scheme)
			}
			return "", "", "invalid_token"
		case g.Key == "" && s.BoundOnly:
			return "", "", "invalid_token"
		case g.Key == "":
			return g.User, g.Scope, ""
		case s.Proofs == nil:
			return "", "", "invalid_token"
		}
		key, code := s.Proofs.check(r, s.URL, token)
		if code == "" && key != g.Key {
			s.Proofs.blame("%s: the proof is of another key than the token", r.Method)
			code = "invalid_token"
		}
		return g.User, g.Scope, code
	}
	return "", "", "invalid_token"
}

// Evil is what no client of a gateway may ever see.
const Evil = "canary-of-the-challenge"

func (s *Server) refuse(w http.ResponseWriter, status int, code, scope string) {
	challenge := `Bearer realm="` + Evil + `"`
	if s.Proofs != nil {
		challenge = `DPoP error="` + code + `", realm="` + Evil + `"`
	}
	if scope != "" && s.Proofs == nil {
		challenge += `, error="insufficient_scope"`
	}
	if scope != "" {
		challenge += `, scope="` + scope + `"`
	}
	if s.Challenge != nil {
		challenge = s.Challenge()
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, Evil, status)
}

func contains(scopes, want string) bool { return slices.Contains(strings.Fields(scopes), want) }
