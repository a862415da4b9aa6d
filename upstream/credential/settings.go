package credential

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// Mode is how a credential is had.
type Mode string

// The modes. The zero Mode has none.
const (
	OAuth             Mode = "oauth"
	ClientCredentials Mode = "client_credentials"
	Exchange          Mode = "exchange"
	Workload          Mode = "workload"
	APIKey            Mode = "key"
)

// Binding says whether tokens are bound to a key (RFC 9449).
type Binding string

// What can be said. The zero Binding is BindAuto.
const (
	// BindAuto binds them where the authorization server can and the server is not
	// known to take others alone.
	BindAuto     Binding = "auto"
	BindRequired Binding = "required" // no others are used
	BindOff      Binding = "off"
)

// Settings are what a [Source] is made of. They are not changed afterwards.
type Settings struct {
	Server string // key in the configuration
	URL    string
	Mode   Mode
	// Shared tells that everyone's requests carry the same credential.
	Shared bool
	// Headers are sent with every request besides.
	Headers http.Header

	// Issuer is the only authorization server that is used; empty is whichever the
	// server names. Without it nothing is sent there that proves the gateway.
	Issuer string
	// Client is the gateway as it is registered by hand; nil where it is not. The
	// issuer of one that has a secret or a key is required.
	Client *oauth.Registration
	Scopes []string
	// Binding says whether tokens are bound to a key.
	Binding Binding

	// Header and Prefix carry a key that a person entered.
	Header, Prefix string

	// IDP and IDPClient trade tokens of the mode Exchange, Grant is the type that is
	// wanted, Audience whom an access token is for.
	IDP       string
	IDPClient *oauth.Registration
	Grant     string
	Audience  string
	// Subject returns what proves a principal, with its type. Where there is a Key it
	// is given what that returned.
	Subject func(principal string) (token, kind string, ok bool)
	// Key names the credential of a request, of the mode Exchange: that of the very
	// token which its caller presented. What is had under it is kept in memory alone,
	// and for no other key. Nil is one credential for each principal, which is kept.
	Key func(ctx context.Context, principal string) string

	// Assertion is the file with what proves the workload that the gateway is, of the
	// mode Workload. It is read for every token that is asked for.
	Assertion string
}

// Options are what sources and flows need of others. All fields are required but
// those that say otherwise.
type Options struct {
	Vault  Vault
	Logger *slog.Logger
	// Changed is told that a principal of a server has another credential than
	// before, or none any more. It must not block.
	Changed func(server, principal string)
	// Hide is told every secret that comes into use, so that nothing shows it, and
	// retire is called once it is held no more. Neither may block. Nil is told nothing.
	Hide func(secret string) (retire func())
	// Principals bounds of how many principals a source remembers the credential; it
	// reads the others again. Zero is 4096.
	Principals int
}

const (
	// early is how long before its end a token is renewed by whoever needs it;
	// at most a tenth of its life.
	early = 30 * time.Second
	// leaseTime is how long one replica may take for a renewal; the others wait
	// as long, and then do it themselves.
	leaseTime = 30 * time.Second
	// leasePause is how often those who wait look.
	leasePause = 100 * time.Millisecond
	// renewTime bounds one renewal with all that it needs.
	renewTime = 25 * time.Second
	// unknownLife is how long a token is taken for good of which nothing is said.
	unknownLife = 24 * time.Hour
	// maxLooks bounds how often in a row a credential is read that becomes another one
	// meanwhile.
	maxLooks = 10
	// maxStepUps bounds how often in a row more scopes are asked for.
	maxStepUps = 3
	// metadataTime is how long what was read of a server and its authorization
	// server is trusted.
	metadataTime = 10 * time.Minute
	// steady is how long a new token must have been good for its refusal to be a
	// reason for another one.
	steady = 10 * time.Second
	// restTime is for how long after a failed renewal none is tried.
	restTime = 2 * time.Second
)
