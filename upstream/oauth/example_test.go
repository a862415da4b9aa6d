package oauth_test

import (
	"fmt"
	"net/http"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// A server that refuses a request says where its metadata are and which scopes it wants.
func ExampleParseChallenge() {
	header := http.Header{}
	header.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:read files:write", resource_metadata="https://mcp.example/.well-known/oauth-protected-resource"`)
	challenge, ok := oauth.ParseChallenge(header)
	fmt.Println(ok, challenge.Error)
	fmt.Println(challenge.ResourceMetadata)
	fmt.Println(oauth.Select(challenge, &oauth.Resource{}, &oauth.Metadata{}, []string{"files:list"}))
	// Output:
	// true insufficient_scope
	// https://mcp.example/.well-known/oauth-protected-resource
	// [files:list files:read files:write]
}
