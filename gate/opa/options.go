package opa

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/loopback"
)

// DefaultDecision is the rule that decides when no other is named.
const DefaultDecision = "data.toolgate.decision"

// Defaults and limits of [Options].
const (
	defaultTimeout       = 50 * time.Millisecond
	defaultRemoteTimeout = 150 * time.Millisecond
	defaultListTimeout   = 2 * time.Second
	defaultPoll          = 30 * time.Second
	defaultCacheSize     = 16 << 10
	defaultCacheTTL      = 10 * time.Second
)

// RegoVersion is the version of the Rego language that policies are written in.
type RegoVersion string

// The versions. The empty one is V1.
const (
	V0 RegoVersion = "v0"
	V1 RegoVersion = "v1"
)

func (v RegoVersion) check() error {
	switch v {
	case "", V0, V1:
		return nil
	}
	return fmt.Errorf("rego_version %q is none of v0 and v1", string(v))
}

func (v RegoVersion) ast() ast.RegoVersion {
	if v == V0 {
		return ast.RegoV0
	}
	return ast.RegoV1
}

// Mode says what the phase does with a deny.
type Mode string

// The modes. The empty one is Enforce.
const (
	// Enforce denies.
	Enforce Mode = "enforce"
	// Shadow abstains where Enforce denies, errors included, and reports it.
	// Where Enforce allows, so does Shadow.
	Shadow Mode = "shadow"
)

// Options says which policy a [Phase] asks and how.
type Options struct {
	// Settings are what an operator says. The http URL of a bundle is asked for again
	// every Poll with the ETag of the last one.
	Settings
	// Files are the policy itself, in place of a Path, Bundle or URL. Nothing is read then.
	Files []File

	// Header is sent to the bundle service or the remote server, such as
	// Authorization. It is never logged.
	Header http.Header
	// CopyDir is a folder in which the last good bundle of a URL is kept, to
	// serve at the next start if the URL does not. Empty: none is kept.
	CopyDir string

	// Data is what [Phase.SetData] sets, for the first load.
	Data Data

	// InputLimits bound the arguments that a policy is shown, in bytes as they
	// came. In larger ones the longest strings are replaced by their size and
	// hash; what is still larger then is denied. Zero values stand for the defaults.
	InputLimits
	// Timeout bounds one decision. 0: 50 ms, for a remote server 150 ms. One that had
	// hardly begun by then, on a machine that is busy, is evaluated once more.
	Timeout time.Duration
	// ListTimeout bounds the decisions of one list together. 0: 2 s.
	ListTimeout time.Duration
	// Poll is how often a bundle URL is asked, give or take a fifth. 0: 30 s.
	Poll time.Duration
	// CacheSize bounds for how many calls values of rules are cached. 0: 16384.
	// Negative: none are.
	CacheSize int

	// OnShadow is told what Enforce would have denied. It is called from the
	// goroutines of Check and CheckAll, several at a time. Nil: nobody is.
	OnShadow func(r *gate.Request, would gate.Decision)
	// OnFailure is told each time that the policy could not decide about one request,
	// with the action that it was asked about. It is called as OnShadow is. Nil: nobody is.
	OnFailure func(action string)
	// OnChange is called after another policy or other data took effect, from
	// the goroutine of Run or SetData. Nil: nobody is.
	OnChange func()
	signer   *signer // of the key
	// Logger gets reloads, failures and, in shadow mode, denied calls. Nil:
	// nothing is logged.
	Logger *slog.Logger
}

// actions are what the policy may be asked, as it reads them unless they are
// renamed.
var actions = []string{
	"tool.view", "tool.request", "tool.enable",
	"prompt.view", "prompt.request", "resource.view", "resource.request",
}

// complete returns the options with their defaults, or all that is wrong.
func (o Options) complete() (Options, error) {
	if o.Decision == "" {
		o.Decision = DefaultDecision
	}
	bound := defaultTimeout
	if o.URL != "" {
		bound = defaultRemoteTimeout
	}
	o.Timeout = positive(o.Timeout, bound)
	o.ListTimeout = positive(o.ListTimeout, defaultListTimeout)
	o.Poll = positive(o.Poll, defaultPoll)
	decode.Fill(&o.InputLimits)
	if o.CacheSize == 0 {
		o.CacheSize = defaultCacheSize
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var unusable error
	if o.BundleKey != "" {
		key, err := os.ReadFile(o.BundleKey)
		if err != nil {
			return o, fmt.Errorf("opa.bundle_key: %w", err)
		}
		if o.signer, unusable = newSigner(key); unusable != nil {
			unusable = fmt.Errorf("bundle_key: %w", unusable)
		}
		if o.Bundle == "" {
			unusable = errors.New("bundle_key: it is the key of a bundle that is fetched, and there is no bundle")
		}
	}
	return o, errors.Join(o.checkSource(), unusable, o.RegoVersion.check(), o.checkMode(), o.checkActions())
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func (o Options) checkMode() error {
	switch o.Mode {
	case "", Enforce, Shadow:
		return nil
	}
	return fmt.Errorf("mode %q is none of enforce and shadow", string(o.Mode))
}

func (o Options) checkSource() error {
	set := min(len(o.Files), 1)
	for _, s := range []string{o.Path, o.Bundle, o.URL} {
		if s != "" {
			set++
		}
	}
	if set != 1 {
		return errors.New("exactly one of path (a directory or .tar.gz), bundle (a URL of one) and url (a remote server) must say where the policy is")
	}
	for name, s := range map[string]string{"bundle": o.Bundle, "url": o.URL} {
		if s == "" {
			continue
		}
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return fmt.Errorf("%s: not a URL: %w", name, withoutURL(err))
		case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
			return fmt.Errorf("%s: must begin with http:// or https:// and a host", name)
		case u.Scheme == "http" && !loopback.Host(u.Hostname()):
			return fmt.Errorf("%s: must begin with https://: whoever is in between could say what is allowed", name)
		case name == "url" && (u.RawQuery != "" || u.Fragment != ""):
			return errors.New("url: must be the server's base URL, without ? and #")
		}
	}
	return nil
}

func (o Options) checkActions() error {
	known := map[string]bool{}
	for _, a := range actions {
		known[a] = true
	}
	var faults []error
	for from, to := range o.Actions {
		switch {
		case !known[from]:
			faults = append(faults, fmt.Errorf("actions: %q is none of %v", from, actions))
		case to == "":
			faults = append(faults, fmt.Errorf("actions: the new name of %s is empty", from))
		}
	}
	return errors.Join(faults...)
}

// withoutURL returns what is wrong with a URL without the URL, which can hold
// a password.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
