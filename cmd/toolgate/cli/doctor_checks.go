package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/cmd/toolgate/decide"
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/build"
	"github.com/toolgate/toolgate/internal/daemon/hidden"
	"github.com/toolgate/toolgate/internal/daemon/identity"
	"github.com/toolgate/toolgate/internal/daemon/records"
	"github.com/toolgate/toolgate/internal/daemon/references"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/loopback"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// This file has the checks of doctor, part by part.

// minFree is how much of a disk must be free, in bytes and in percent.
const (
	minFree        = 256 << 20
	minFreePercent = 1
)

func (e *examination) state(ctx context.Context, c *config.Config, state *statedir.Dir, running *admin.Status) {
	found := doctor.Folder(doctor.CodeState, state.Path, state.Path)
	if len(found) == 0 {
		dir := state.Path
		for {
			if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
				break
			}
			dir = filepath.Dir(dir)
		}
		if reading, err := headroom.Disk(dir, minFree, minFreePercent).Read(); err == nil && reading.Level == headroom.Tight {
			found = append(found, doctor.Found(doctor.CodeDisk, dir, reading.Text, ""))
		}
	}
	e.add("state folder", state.Path, found...)
	if len(found) > 0 && found[0].Code == doctor.CodeState {
		return
	}
	e.store(ctx, c, state, running)
	e.audit(records.Path(c, state), running)
	if len(c.Toolgate.Keys) > 0 {
		var found []doctor.Finding
		if _, err := state.Keyring(c.Toolgate.Keys); err != nil {
			found = append(found, doctor.Found(doctor.CodeKey, "keys", err.Error(), ""))
		}
		e.add("keys", "", found...)
	}
}

// audit checks that the log can be written and, if no gateway of this configuration runs,
// that no other process writes it.
func (e *examination) audit(path string, running *admin.Status) {
	found := doctor.Appended(doctor.CodeAudit, "audit.path", path)
	if len(found) == 0 && running == nil {
		err := audit.Free(path)
		switch _, held := errors.AsType[*audit.InUseError](err); {
		case held:
			found = append(found, doctor.Found(doctor.CodeAuditHeld, path, err.Error(), ""))
		case err != nil && !errors.Is(err, fs.ErrPermission): // such a log is written without a lock
			found = append(found, doctor.Found(doctor.CodeAudit, path, err.Error(), ""))
		}
	}
	e.add("audit log", path, found...)
}

// store checks the lock of the store if no gateway of this configuration runs, and opens
// the store for reading if it exists.
func (e *examination) store(ctx context.Context, c *config.Config, state *statedir.Dir, running *admin.Status) {
	reading, err := statedir.StoreForReading(c)
	if err != nil {
		e.add("store", "", doctor.Found(doctor.CodeStore, "store", err.Error(), ""))
		return
	}
	lock := reading.Path
	if lock == "" {
		lock = filepath.Join(state.Path, "store.db")
	}
	if running == nil {
		err := store.Free(lock)
		switch _, held := errors.AsType[*store.InUseError](err); {
		case held:
			e.add("store", "", doctor.Found(doctor.CodeStoreHeld, lock, err.Error(), ""))
			return
		case err != nil:
			e.add("store", "", doctor.Found(doctor.CodeStore, lock, err.Error(), ""))
			return
		}
	}
	shown := hidden.URL(c.Toolgate.Store)
	if reading.Path != "" {
		shown = reading.Path
		if _, err := os.Stat(reading.Path); errors.Is(err, fs.ErrNotExist) {
			e.add("store", shown+" (made at the first start)", doctor.Folder(doctor.CodeStore, "store", filepath.Dir(reading.Path))...)
			return
		}
	} else if e.offline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statedir.ReadTime)
	defer cancel()
	s, err := store.Open(ctx, reading)
	if err != nil {
		e.add("store", "", doctor.Found(doctor.CodeStore, "store", err.Error(), ""))
		return
	}
	s.Close()
	e.add("store", shown)
}

// listeners tries the addresses that the gateway would listen on, unless a running
// gateway uses them.
func (e *examination) listeners(ctx context.Context, c *config.Config, running *admin.Status) {
	l := &c.Toolgate.Listen
	if running == nil {
		for _, try := range [][2]string{{"listen.http", l.HTTP}, {"listen.admin", l.Admin}, {"listen.metrics", l.Metrics}, {"listen.console", l.Console}} {
			if try[1] == "" || (try[0] == "listen.metrics" || try[0] == "listen.console") && c.Origin(try[0]).Kind == tree.OriginDefault {
				continue // if the default address is taken, a gateway starts without it
			}
			e.add(try[0], try[1], doctor.Listen(ctx, try[0], try[1])...)
		}
	}
	if l.HTTP != "" && !loopback.Address(l.HTTP) && !c.Toolgate.Authenticates() {
		e.add("authentication", "", doctor.Found(doctor.CodeOpen, "listen.http", l.HTTP+" can be reached from other machines, and nothing authenticates callers", ""))
	}
	if l.TLS.Cert != "" {
		e.add("certificate", l.TLS.Cert, doctor.Certificate(l.TLS.Cert, l.TLS.Key, e.now)...)
	}
}

// gate builds the gate, as a start would.
func (e *examination) gate(ctx context.Context, c *config.Config) {
	known, err := identity.NewSet(&c.Toolgate, "")
	if err != nil {
		e.add("authentication", "", doctor.Found(doctor.CodeIdentity, "auth", err.Error(), ""))
		return
	}
	known.Close()
	g, err := build.NewGates(ctx, c, c.Toolgate.Authenticates(), build.Surroundings{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		code, subject := doctor.CodeGate, "gate"
		if errors.Is(err, opa.ErrNoDecision) {
			code, subject = doctor.CodeNoDecision, "opa"
		}
		e.add("gate", "", doctor.Found(code, subject, err.Error(), ""))
		return
	}
	var found []doctor.Finding
	targets, err := references.Known(ctx, c)
	if err != nil {
		targets = references.NewTargets(c)
	}
	if len(targets.Servers)+len(targets.Offers) > 0 {
		for _, p := range references.By(c, g, known.Scopes).Dangling(targets) {
			found = append(found, doctor.Found(doctor.CodeNames, p.Key, build.ProblemText(p), ""))
		}
	}
	e.add("gate", "the rules and policies can be used", found...)
	if c.Toolgate.SpiceDB.Endpoint != "" && !e.offline {
		e.relations(ctx, c)
	}
}

func (e *examination) relations(ctx context.Context, c *config.Config) {
	phase, err := decide.SpiceDBPhase(c)
	if err != nil {
		e.add("spicedb", "", doctor.Found(doctor.CodeSpiceDB, "spicedb", err.Error(), ""))
		return
	}
	defer phase.Close()
	var found []doctor.Finding
	for _, p := range phase.Diagnose(ctx) {
		code := doctor.CodeSpiceDB
		if p.Schema {
			code = doctor.CodeSpiceDBSchema
		}
		f := doctor.Found(code, "spicedb", p.What, sentence(p.Do))
		if p.Warning {
			f.Level = doctor.Warning
		}
		found = append(found, f)
	}
	e.add("spicedb", c.Toolgate.SpiceDB.Endpoint, found...)
}

// server checks one server: its program or its address, and the credentials that are sent
// to it.
func (e *examination) server(ctx context.Context, c *config.Config, s *config.Server) {
	switch {
	case s.Disabled:
		e.addServer(s, "disabled")
		return
	case s.Refused != nil:
		var found []doctor.Finding
		for _, fault := range faultsOf(s.Refused) {
			code := doctor.CodeRefused
			if errors.Is(fault, clientfiles.ErrUnset) {
				code = doctor.CodeUnset
			}
			found = append(found, doctor.Found(code, s.Key, fault.Error(), ""))
		}
		e.addServer(s, "", found...)
		return
	}
	var found []doctor.Finding
	for _, name := range slices.Sorted(keysOf(s.Env)) {
		found = append(found, doctor.Token(s.Key, "env "+name, s.Env[name].Reveal(), e.now)...)
	}
	headers := map[string]string{}
	for _, name := range slices.Sorted(keysOf(s.Headers)) {
		headers[name] = s.Headers[name].Reveal()
		found = append(found, doctor.Token(s.Key, "header "+name, headers[name], e.now)...)
	}
	if s.Transport == upstream.Stdio {
		if s.Cwd != "" {
			if info, err := os.Stat(s.Cwd); err != nil || !info.IsDir() {
				found = append(found, doctor.Found(doctor.CodeNoFolder, s.Key, s.Cwd+" is not a folder", ""))
			}
		}
		spec := build.UpstreamSpec(s, c, false)
		path, err := spec.Executable()
		found = append(found, doctor.Command(s.Key, s.Command, path, err)...)
		e.addServer(s, path, found...)
		return
	}
	if s.URL == "" {
		return // the gateway's own tools, and plugins, which have a check of their own
	}
	if s.AuthMode() == credential.Workload {
		if err := credential.CheckAssertion(s.Auth.Assertion); err != nil {
			found = append(found, doctor.Found(doctor.CodeAssertion, s.Key, s.Auth.Assertion+": "+err.Error(), ""))
		}
	}
	if e.offline {
		e.addServer(s, "not asked", found...)
		return
	}
	client, stop := prober()
	defer stop()
	asked, offset, known := doctor.Remote(ctx, client, s.Key, s.URL, headers)
	if known {
		e.offsets[s.Key] = offset
	}
	asked = slices.DeleteFunc(asked, func(f doctor.Finding) bool {
		// Somebody is signed in, or nobody has to be.
		return f.Code == doctor.CodeLogin && (e.ready[s.Key] || s.AuthMode() == credential.Workload)
	})
	e.addServer(s, hidden.URL(s.Written.URL), append(found, asked...)...)
}

// prober returns a client that follows no redirects and keeps no connections.
func prober() (*http.Client, func()) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, transport.CloseIdleConnections
}

// issuers asks the issuers of tokens what time it is.
func (e *examination) issuers(ctx context.Context, c *config.Config) {
	if e.offline {
		return
	}
	seen := map[string]bool{}
	try := func(setting, address string) {
		u, err := url.Parse(address)
		if address == "" || err != nil || seen[u.Host] {
			return
		}
		seen[u.Host] = true
		client, stop := prober()
		defer stop()
		offset, err := doctor.Clock(ctx, client, address)
		if err != nil {
			e.add("issuer "+u.Host, "", doctor.Found(doctor.CodeIssuer, setting, u.Host+": "+err.Error(), ""))
			return
		}
		e.offsets[u.Host] = offset
		e.add("issuer "+u.Host, "answers")
	}
	for i := range c.Toolgate.Auth.JWT {
		j := &c.Toolgate.Auth.JWT[i]
		try("auth.jwt", j.Issuer)
		try("auth.jwt", j.JWKS)
	}
	try("auth.introspection", c.Toolgate.Auth.Introspection.Endpoint)
}

// literalSecret names the first credential of a configuration that one of its files contains
// literally; empty for none.
func literalSecret(c *config.Config, path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		for _, kind := range []struct {
			name   string
			values map[string]secret.Text
		}{{"env", s.Env}, {"headers", s.Headers}} {
			for _, name := range slices.Sorted(keysOf(kind.values)) {
				value := kind.values[name].Reveal()
				if !secretValue(name, value) {
					continue
				}
				if quoted, err := json.Marshal(value); err == nil && strings.Contains(string(data), strings.Trim(string(quoted), `"`)) {
					return "servers." + s.Key + "." + kind.name + "." + name
				}
			}
		}
	}
	return ""
}

// confinement reports what has less confinement than it should.
func (e *examination) confinement(c *config.Config) {
	found := []doctor.Finding{}
	for _, u := range daemon.UnconfinedOf(c, sandbox.Available) {
		code := doctor.CodeLoose
		if u.Refused {
			code = doctor.CodeUnconfined
		}
		found = append(found, doctor.Found(code, u.Subject, u.Why, ""))
	}
	if n := &c.Toolgate.Native; n.Code != nil || len(n.Plugins) > 0 || len(found) > 0 {
		e.add("confinement", "", found...)
	}
}
