package config

import "github.com/toolgate/toolgate/config/secret"

// ServerAuth is how toolgate authenticates to a server that is reached by URL.
type ServerAuth struct {
	// Mode is the kind of credential: static sends the entry's headers, oauth is signed in to by a person, client_credentials,
	// exchange and workload ask an authorization server for tokens, and key is an API key that a person enters.
	// Absent: static where the entry has headers, else oauth.
	Mode AuthMode `config:"mode" enum:"static|oauth|client_credentials|exchange|workload|key"`
	// Per is whose credential it is: one for all callers, or one of each caller's own. Absent: principal for an exchange of callers' tokens, else shared.
	Per AuthPer `config:"per" enum:"shared|principal"`
	// Issuer is the authorization server at which the client is registered; no other one is used. It is required beside a secret, a key or an assertion. Absent: the first one that the server names.
	Issuer string `config:"issuer" format:"url"`
	// Client is what toolgate is to that authorization server. Absent: it introduces itself, by its metadata document or by registering.
	Client AuthClient `config:"client"`
	// Scopes are asked for besides those that the server names. Absent: none.
	Scopes []string `config:"scopes"`
	// Header carries an API key. Absent: Authorization.
	Header string `config:"header"`
	// Prefix is written before an API key. Absent: "Bearer " in Authorization, else nothing.
	Prefix *string `config:"prefix"`
	// Exchange trades the identity of a caller for a token. Absent: refused where mode is exchange.
	Exchange AuthExchange `config:"exchange"`
	// Assertion is a file with the JWT that proves the workload toolgate is, such as a projected token of Kubernetes, read for each token that is asked for. Absent: refused where mode is workload.
	Assertion string `config:"assertion" format:"path"`
	// DPoP binds tokens to a key of toolgate's, so that nobody else can use them: auto where the authorization server can and the server is not known to take other tokens alone, required never uses another token, and off binds none. Absent: auto.
	DPoP string `config:"dpop" enum:"auto|required|off"`
	// Networks are private ones, such as 10.0.0.0/8, in which metadata and tokens may be asked for. Absent: none, or this machine for a server on this machine.
	Networks []string `config:"networks"`
}

// AuthMode is a kind of credential.
type AuthMode string

// The modes. The zero AuthMode is decided by what the entry has.
const (
	AuthStatic            AuthMode = "static"
	AuthOAuth             AuthMode = "oauth"
	AuthClientCredentials AuthMode = "client_credentials"
	AuthExchanged         AuthMode = "exchange"
	AuthWorkload          AuthMode = "workload"
	AuthKey               AuthMode = "key"
)

// AuthPer is whose a credential is.
type AuthPer string

// Whose they can be. The zero AuthPer is decided by the mode.
const (
	PerShared    AuthPer = "shared"
	PerPrincipal AuthPer = "principal"
)

// AuthClient is toolgate as a client of an authorization server.
type AuthClient struct {
	// ID is the client's id. Absent: it is not registered by hand.
	ID string `config:"id"`
	// Secret proves the client. Absent: nothing, or its key, does.
	Secret secret.Text `config:"secret"`
	// Key is a file with a private key in PEM that signs what proves the client (private_key_jwt). Absent: none.
	Key string `config:"key" format:"path"`
	// KeyID names the key to the authorization server. Absent: it is not named.
	KeyID string `config:"key_id"`
	// Auth is the method by which the client proves itself. Absent: by its key, else as the authorization server says, by its secret.
	Auth string `config:"auth" enum:"none|client_secret_basic|client_secret_post|private_key_jwt"`
}

// AuthExchange is how an identity provider trades what proves a caller.
type AuthExchange struct {
	// Issuer is the identity provider. Absent: refused.
	Issuer string `config:"issuer" format:"url"`
	// Client is what toolgate is to the identity provider. Its id is required. Absent: refused.
	Client AuthClient `config:"client"`
	// Grant is what the identity provider gives: an access token for the server, or an assertion that the server's own authorization server takes. Absent: access_token.
	Grant string `config:"grant" enum:"access_token|id_jag"`
	// Audience is what the access token is for. Absent: the server is named by its URL alone.
	Audience string `config:"audience"`
	// Subject is a file with the token that is traded, read at each exchange. Absent: the caller's own token.
	Subject string `config:"subject" format:"path"`
	// SubjectType is what is traded. Absent: access_token, or id_token where grant is id_jag.
	SubjectType string `config:"subject_type" enum:"access_token|id_token|jwt"`
}

// AuthMode returns how toolgate authenticates to the server.
func (s *Server) AuthMode() AuthMode {
	switch {
	case s.URL == "":
		return AuthStatic
	case s.Auth.Mode != "":
		return s.Auth.Mode
	case len(s.Headers) > 0:
		return AuthStatic
	}
	return AuthOAuth
}

// AuthPer returns whose the credential is that the server is shown.
func (s *Server) AuthPer() AuthPer {
	switch {
	case s.AuthMode() == AuthStatic:
		return PerShared
	case s.Auth.Per != "":
		return s.Auth.Per
	case s.AuthMode() == AuthExchanged && s.Auth.Exchange.Subject == "":
		return PerPrincipal
	}
	return PerShared
}
