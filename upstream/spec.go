package upstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/internal/backoff"
	"github.com/toolgate/toolgate/internal/child"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/upstream/transport"
)

// Transport is how a server is reached.
type Transport string

// The transports. Auto tries streamable HTTP and then HTTP+SSE, as
// 2026-07-28 basic/transports/streamable-http (Backward Compatibility) tells.
const (
	Stdio      Transport = "stdio"
	Streamable Transport = "http"
	SSE        Transport = "sse"
	Auto       Transport = "auto"
)

// Spec is one server as configured. It must not change after it was given to a [Server].
type Spec struct {
	Key       string // its name in the configuration
	Transport Transport

	Command string
	Args    []string
	Dir     string
	Env     []string // complete; nothing is inherited
	// Sandbox confines the process; nil does not.
	Sandbox *sandbox.Policy
	// Withheld are the variables of [Inherited] that the gateway has and the process does
	// not get.
	Withheld []string

	URL     string
	Headers map[string]string // sent with every request; values are secrets
	// Credential names the further credential that the server gets and its source; empty
	// if there is none.
	Credential string

	Era       mcp.Era // EraUnknown probes
	Isolation Isolation
	// Local is the key of the principal that shares the own connection of the gateway;
	// empty if every principal is separate.
	Local string

	// Placed tells that the process may run at another gateway, which shares it. [New] sets
	// it. Copies is at how many it runs; Exclusive tells that it must not run twice.
	Placed    bool
	Copies    int
	Exclusive bool

	// PerRights tells that each token of a principal leads to a different credential. What
	// was begun with one credential serves no request with other rights.
	PerRights bool

	// Questions are the questions that a legacy server may ask. Roots belong to the
	// session of a call, so a server that keeps them for others needs a connection per
	// session.
	Questions Questions

	// Without says how the gateway finds out what the server lists to clients without
	// capabilities.
	Without WithoutCapabilities

	// Refused tells why the server cannot be used as configured. Off tells that it is
	// switched off.
	Refused string
	Off     bool

	Timeouts Timeouts
	Limits   Limits
}

// Questions is what a server may ask clients. The zero value is nothing.
type Questions struct {
	Sampling, Elicitation, Roots bool
}

// capabilities returns the client capabilities that allow these questions, raw.
func (q Questions) capabilities() []byte {
	out := []byte("{")
	for _, c := range []struct {
		ok   bool
		text string
	}{
		{q.Sampling, `"sampling":{"context":{},"tools":{}}`},
		{q.Elicitation, `"elicitation":{"form":{},"url":{}}`},
		{q.Roots, `"roots":{}`},
	} {
		if !c.ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, c.text...)
	}
	return append(out, '}')
}

// without returns the questions that client capabilities lack.
func (q Questions) without(capabilities []byte) Questions {
	lacks := func(name string) bool { return !mcp.IsObject(mcp.Lookup(capabilities, name)) }
	return Questions{
		Sampling:    q.Sampling && lacks("sampling"),
		Elicitation: q.Elicitation && lacks("elicitation"),
		Roots:       q.Roots && lacks("roots"),
	}
}

// less returns the questions of q that are not among others.
func (q Questions) less(others Questions) Questions {
	return Questions{q.Sampling && !others.Sampling, q.Elicitation && !others.Elicitation, q.Roots && !others.Roots}
}

// Limits bound what one server may send and hold. Defaults replace zero values.
type Limits struct {
	ServerLimits

	Depth       int // nesting of one message; mcp.DefaultDepth
	Concurrency int // expected calls at once, for which connections are kept; 32
	Conns       int // connections or processes, including the own one of the gateway; 8
	Events      int // notifications waiting for one call, of at most Result bytes in sum; 256
}

// ofLink returns the limits of a link.
func (l *Limits) ofLink() transport.Limits {
	return transport.Limits{Result: int(l.Result), Line: int(l.Line), Depth: l.Depth, Events: l.Events}
}

func (s *Spec) withDefaults() Spec {
	d := *s
	def := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	def(&d.Timeouts.Start, DefaultStart)
	def(&d.Timeouts.List, DefaultList)
	def(&d.Timeouts.Call, DefaultCall)
	def(&d.Timeouts.Hard, DefaultHard)
	num := func(v *int, to int) {
		if *v <= 0 {
			*v = to
		}
	}
	decode.Fill(&d.Limits.ServerLimits)
	num(&d.Limits.Depth, mcp.DefaultDepth)
	num(&d.Limits.Concurrency, DefaultConcurrency)
	num(&d.Limits.Conns, DefaultProcesses)
	num(&d.Limits.Events, 256)
	d.Timeouts.Think = thinkTime(max(0, d.Timeouts.Think), d.Limits.Conns)
	if d.Isolation == "" {
		d.Isolation = IsolateAuto
	}
	if d.Placed {
		d.Questions = Questions{} // nobody knows at which gateway the client is
	}
	return d
}

// Hash identifies what the server is: two specs with the same hash reach the
// same server with the same credential. Timeouts and limits are not part of it.
func (s *Spec) Hash() string {
	h := sha256.New()
	part := func(values ...string) {
		for _, v := range values {
			fmt.Fprintf(h, "%d:%s,", len(v), v)
		}
		fmt.Fprint(h, ";")
	}
	part(s.Key, string(s.Transport), s.Command, s.Dir, s.URL, s.Era.String(), cmp.Or(string(s.Isolation), string(IsolateAuto)), s.Local)
	part(string(s.Questions.capabilities()))
	part(s.Args...)
	part(s.Env...)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		part(name, s.Headers[name])
	}
	if s.Copies > 0 || s.Exclusive {
		part("copies", fmt.Sprint(s.Copies, s.Exclusive))
	}
	if p := s.Sandbox; p != nil {
		part("sandbox", fmt.Sprintf("%q %q %q %s", p.Read, p.Write, p.Run, p.Network))
	}
	if s.Credential != "" {
		part("credential", s.Credential)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Holder names who shares what the server keeps for a caller: all requests of the
// principal, or only those with the same rights.
func (s *Spec) Holder(principal, rights string) string {
	if !s.PerRights {
		return principal
	}
	return principal + "\x00" + rights
}

// Held splits a name that [Spec.Holder] made. rights is empty if the name has none.
func (s *Spec) Held(holder string) (principal, rights string) {
	if i := strings.LastIndexByte(holder, 0); s.PerRights && i >= 0 {
		return holder[:i], holder[i+1:]
	}
	return holder, ""
}

// Kind is what `ls` shows: the transport, or the launcher of a process.
func (s *Spec) Kind() string {
	if s.Transport == Stdio || s.Transport == "" && s.Command != "" {
		base := s.Command[strings.LastIndexAny(s.Command, `/\`)+1:]
		switch base {
		case "npx", "uvx", "docker", "node", "python", "python3", "uv", "bunx", "deno":
			return base
		}
		return string(Stdio)
	}
	return "http"
}

// Inherited are the variables that a server's process gets from the gateway's environment
// unless its settings name others: what it needs behind a proxy, with the certificates of
// an organisation, and in the language and time zone of its user.
func Inherited() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
		"LC_ALL", "LC_CTYPE", "TZ",
	}
}

// Environment returns the environment of a server's process as NAME=value
// entries: PATH, HOME, LANG and TMPDIR (and what Windows needs), the variables
// named in inherit where lookup has them, and the configured ones, which win.
func Environment(configured map[string]string, inherit []string, lookup func(string) (string, bool)) []string {
	return child.Environment(configured, inherit, lookup)
}

// Executable returns the path of the program of a stdio server, looked up in the same way
// as at the start of the server. The error says what was looked for and where. It wraps
// os.ErrNotExist or os.ErrPermission if that is the reason.
func (s *Spec) Executable() (string, error) { return child.Look(s.Command, s.Dir, s.Env) }

// maxPooled is how many connections there may be besides the own one.
func (s *Spec) maxPooled() int { return s.Limits.Conns - 1 }

// transports returns the ways to reach the server, best first.
func (s *Spec) transports() []string {
	switch {
	case s.Command != "":
		return []string{string(Stdio)}
	case s.Transport == Auto, s.Transport == "":
		return []string{string(Streamable), string(SSE)}
	}
	return []string{string(s.Transport)}
}

// retries returns the backoff of attempts to reach the server.
func (s *Spec) retries() backoff.Backoff {
	wait := backoff.Backoff{Base: 50 * time.Millisecond, Max: retryMax}
	if s.Command != "" && !s.Placed {
		wait.Max = processMax
	}
	return wait
}
