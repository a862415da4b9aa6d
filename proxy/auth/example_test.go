package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/toolgate/toolgate/proxy/auth"
)

// An endpoint that accepts API keys and the tokens of one issuer, each for the
// endpoint that they were issued for.
func Example() {
	resource, err := auth.NewResource(auth.ResourceOptions{
		PublicURL:            "https://gw.example",
		AuthorizationServers: []string{"https://login.example"},
		Scopes:               []string{"mcp:use"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := auth.NewJWT(auth.JWTOptions{
		Issuers:  []auth.Issuer{{Issuer: "https://login.example", Claims: auth.Claims{Tenant: "org", Groups: "groups"}}},
		Resource: resource,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain, err := auth.NewChain(auth.ChainOptions{Keys: &auth.Keys{}, JWT: tokens})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer chain.Close()

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if resource.Serves(r.URL.EscapedPath()) {
			resource.ServeHTTP(w, r)
			return
		}
		grant, err := chain.Identify(r)
		if err != nil {
			refusal := resource.Refuse(r, err)
			refusal.SetHeader(w.Header())
			http.Error(w, refusal.Message, refusal.Status)
			return
		}
		fmt.Fprintln(w, "hello", grant.Identity.Subject)
	})

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody))
	fmt.Println(answer.Code, answer.Header().Get("WWW-Authenticate"))
	answer = httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource/mcp", http.NoBody))
	fmt.Println(answer.Body)
	// Output:
	// 401 Bearer scope="mcp:use", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"
	// {"resource":"https://gw.example/mcp","authorization_servers":["https://login.example"],"scopes_supported":["mcp:use"],"bearer_methods_supported":["header"]}
}
