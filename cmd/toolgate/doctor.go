package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/admin"
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/headroom"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/store"
)

func newDoctor(o *options) *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:   "doctor [FILE]",
		Short: "Find out what does not work, and what to do about it",
		Long: `Look at a configuration, at this machine and at the clients on it, and say what
does not work and what to do. No server is started and nothing is changed; servers
that are elsewhere are sent one ping with the headers of the file. Every finding
has a code; see docs/doctor.md, or toolgate doctor explain CODE.`,
		Example: "  toolgate doctor\n  toolgate doctor explain TG2101",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &examination{o: o, offline: offline, now: time.Now()}
			e.run(cmd.Context(), file(args))
			return o.printChecks(e.checks)
		},
	}
	c.Flags().BoolVar(&offline, "offline", false, "ask nobody over the network")
	o.outputFlag(c)
	explain := &cobra.Command{
		Use:   "explain CODE",
		Short: "Say what a code means and what to do",
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			for _, code := range doctor.Codes() {
				out = append(out, describe(code.ID, code.Title))
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			code, ok := doctor.Find(strings.ToUpper(args[0]))
			if !ok {
				return exitf(exitUsage, "there is no code %s; see `toolgate doctor codes`", args[0])
			}
			say("%s  %s (%s)\n\n%s\n\nWhat to do: %s\n", code.ID, code.Title, code.Level, code.Means, code.Fix)
			return nil
		},
	}
	codes := &cobra.Command{
		Use:   "codes",
		Short: "List all codes",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := table{header: []string{"CODE", "LEVEL", "FINDING"}}
			for _, code := range doctor.Codes() {
				t.rows = append(t.rows, []string{code.ID, string(code.Level), code.Title})
				t.names = append(t.names, code.ID)
			}
			t.data = map[string]any{"codes": doctor.Codes()}
			return o.print(os.Stdout, t)
		},
	}
	o.outputFlag(codes)
	c.AddCommand(explain, codes)
	return c
}

// printChecks prints what was found. With an error among it the exit code is that
// of a configuration.
func (o *options) printChecks(checks []doctor.Check) error {
	t := table{header: []string{"LEVEL", "CODE", "SUBJECT", "WHAT"}}
	found := []doctor.Finding{}
	for _, c := range checks {
		if len(c.Findings) == 0 {
			t.rows = append(t.rows, []string{"ok", "", c.What, c.Note})
		}
		for _, f := range c.Findings {
			found = append(found, f)
			t.rows = append(t.rows, []string{string(f.Level), f.Code, f.Subject, firstLine(f.What, 100)})
			t.names = append(t.names, f.Code)
		}
	}
	wrong, warnings := doctor.Errors(checks)
	t.data = map[string]any{"checks": checks, "findings": found, "errors": wrong, "warnings": warnings}
	if err := o.print(os.Stdout, t); err != nil {
		return err
	}
	if o.output == "table" || o.output == "wide" {
		for _, f := range found {
			say("\n%s %s: %s\n  fix: %s\n", f.Code, f.Subject, f.What, f.Fix)
		}
		say("\n%d ok, %d warnings, %d errors\n", len(checks)-failing(checks), warnings, wrong)
	}
	if wrong > 0 {
		return exitf(exitConfig, "%d errors were found; `toolgate doctor explain CODE` says more", wrong)
	}
	return nil
}

func failing(checks []doctor.Check) int {
	n := 0
	for _, c := range checks {
		if len(c.Findings) > 0 {
			n++
		}
	}
	return n
}

// examination looks at everything, one thing after the other.
type examination struct {
	o       *options
	offline bool
	now     time.Time
	checks  []doctor.Check
	offsets map[string]time.Duration // of the clocks of others, by who they are
	ready   map[string]bool          // servers that the running gateway uses
}

func (e *examination) add(what, remark string, found ...doctor.Finding) {
	if found == nil {
		found = []doctor.Finding{}
	}
	e.checks = append(e.checks, doctor.Check{What: what, Note: remark, Findings: found})
}

func (e *examination) run(ctx context.Context, arg string) {
	e.offsets = map[string]time.Duration{}
	path, err := e.o.findFile(arg)
	if err != nil {
		e.add("configuration", "", doctor.Found(doctor.CodeFile, "configuration", err.Error(), ""))
		return
	}
	e.otherFiles(arg, path)
	e.clients()
	c, err := e.o.readConfigWith(path, nil)
	if err != nil {
		e.add("configuration", "", fileFindings(path, err)...)
		return
	}
	e.configuration(c)
	state, err := findState(c.Path)
	if err != nil {
		e.add("state folder", "", doctor.Found(doctor.CodeState, "TOOLGATE_STATE", err.Error(), ""))
		return
	}
	running := e.running(ctx, state)
	e.state(ctx, c, state, running)
	e.listeners(ctx, c, running)
	e.gate(ctx, c)
	for i := range c.Servers {
		e.server(ctx, c, &c.Servers[i])
	}
	for _, name := range slices.Sorted(keysOf(c.Toolgate.Native.Plugins)) {
		p := c.Toolgate.Native.Plugins[name]
		e.add("plugin "+name, p.Path, doctor.Plugin(name, p.Path, p.SHA256)...)
	}
	e.issuers(ctx, c)
	if len(e.offsets) > 0 {
		e.add("clock", fmt.Sprintf("compared with %d servers", len(e.offsets)), doctor.Clocks(e.offsets)...)
	}
}

// fileFindings are the findings of a configuration that is not used.
func fileFindings(path string, err error) []doctor.Finding {
	faults := faultsOf(err)
	out := make([]doctor.Finding, 0, len(faults))
	for _, fault := range faults {
		code := doctor.CodeFile
		switch {
		case errors.Is(fault, config.ErrNamespace):
			code = doctor.CodeNamespace
		case errors.Is(fault, config.ErrUnset):
			code = doctor.CodeUnset
		}
		subject, fix := path, ""
		if e, ok := errors.AsType[*config.Error](fault); ok {
			if e.Key != "" {
				subject = e.Key
			}
			fix = e.Hint
		}
		out = append(out, doctor.Found(code, subject, fault.Error(), sentence(fix)))
	}
	return out
}

// faultsOf are the faults that an error of package config joins.
func faultsOf(err error) []error {
	if e, ok := err.(*exitError); ok { //nolint:errorlint // this layer alone is taken off
		return faultsOf(e.err)
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// sentence begins a hint with a capital letter and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// configuration judges a file that can be used.
func (e *examination) configuration(c *config.Config) {
	var found []doctor.Finding
	name := c.Path
	if name == "" {
		name = "none: the built-in demo"
	} else if len(c.Servers)+len(c.Toolgate.Tools) == 0 {
		found = append(found, doctor.Found(doctor.CodeNoServers, c.Path, noServers(c), ""))
	}
	if c.Path != "" && runtime.GOOS != "windows" {
		if info, err := os.Stat(c.Path); err == nil && info.Mode().Perm()&0o077 != 0 {
			if where := literalSecret(c); where != "" {
				found = append(found, doctor.Found(doctor.CodeReadable, where,
					fmt.Sprintf("%s spells out a credential and has the mode %#o", c.Path, info.Mode().Perm()), ""))
			}
		}
	}
	e.add("configuration", fmt.Sprintf("%s, %d servers", name, len(c.Servers)), found...)
}

// running asks for the gateway of the configuration; nil where none answers.
func (e *examination) running(ctx context.Context, state *stateDir) *admin.Status {
	token, err := os.ReadFile(filepath.Join(state.path, "admin.token"))
	if err != nil {
		return nil
	}
	control := &admin.Client{Path: state.socket, Token: strings.TrimSpace(string(token)), Timeout: 5 * time.Second}
	status, err := control.Status(ctx)
	if err != nil {
		return nil
	}
	var found []doctor.Finding
	if status.NotReady != "" {
		found = append(found, doctor.Found(doctor.CodeNotReady, status.NotReady, status.Detail, ""))
	}
	e.ready = map[string]bool{}
	for i := range status.Servers {
		e.ready[status.Servers[i].Name] = status.Servers[i].State == mcp.Ready.String()
		if s := &status.Servers[i]; s.State == "failed" || s.Breaker != "" {
			found = append(found, doctor.Found(doctor.CodeFailing, s.Name, s.Reason, ""))
		}
	}
	e.add("running gateway", fmt.Sprintf("%d servers", len(status.Servers)), found...)
	return &status
}

// minFree is how much of a disk has to be free, in bytes and in percent of it.
const (
	minFree        = 256 << 20
	minFreePercent = 1
)

func (e *examination) state(ctx context.Context, c *config.Config, state *stateDir, running *admin.Status) {
	found := doctor.Folder(doctor.CodeState, state.path, state.path)
	if len(found) == 0 {
		dir := state.path
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
	e.add("state folder", state.path, found...)
	if len(found) > 0 && found[0].Code == doctor.CodeState {
		return
	}
	e.store(ctx, c, state, running)
	path := c.Toolgate.Audit.Path
	if path == "" {
		path = filepath.Join(state.path, "audit.jsonl")
	}
	e.add("audit log", path, doctor.Appended(doctor.CodeAudit, "audit.path", path)...)
	if len(c.Toolgate.Keys) > 0 {
		var found []doctor.Finding
		if _, err := state.keyring(c.Toolgate.Keys); err != nil {
			found = append(found, doctor.Found(doctor.CodeKey, "keys", err.Error(), ""))
		}
		e.add("keys", "", found...)
	}
}

// store tries the lock of the store where no gateway of this configuration runs,
// and opens it for reading where it exists.
func (e *examination) store(ctx context.Context, c *config.Config, state *stateDir, running *admin.Status) {
	reading, err := storeForReading(c)
	if err != nil {
		e.add("store", "", doctor.Found(doctor.CodeStore, "store", err.Error(), ""))
		return
	}
	lock := reading.Path
	if lock == "" {
		lock = filepath.Join(state.path, "store.db")
	}
	if _, err := os.Stat(filepath.Dir(lock)); err == nil && running == nil {
		claim, err := store.Claim(lock)
		switch _, held := errors.AsType[*store.InUseError](err); {
		case held:
			e.add("store", "", doctor.Found(doctor.CodeStoreHeld, lock, err.Error(), ""))
			return
		case err != nil:
			e.add("store", "", doctor.Found(doctor.CodeStore, lock, err.Error(), ""))
			return
		}
		claim.Close()
	}
	shown := shownURL(c.Toolgate.Store)
	if reading.Path != "" {
		shown = reading.Path
		if _, err := os.Stat(reading.Path); errors.Is(err, fs.ErrNotExist) {
			e.add("store", shown+" (made at the first start)", doctor.Folder(doctor.CodeStore, "store", filepath.Dir(reading.Path))...)
			return
		}
	} else if e.offline {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	s, err := store.Open(ctx, reading)
	if err != nil {
		e.add("store", "", doctor.Found(doctor.CodeStore, "store", err.Error(), ""))
		return
	}
	s.Close()
	e.add("store", shown)
}

// listeners tries the addresses that the gateway would listen on; one that runs
// has them.
func (e *examination) listeners(ctx context.Context, c *config.Config, running *admin.Status) {
	l := &c.Toolgate.Listen
	if running == nil {
		for _, try := range [][2]string{{"listen.http", l.HTTP}, {"listen.admin", l.Admin}, {"listen.metrics", l.Metrics}} {
			if try[1] == "" || try[0] == "listen.metrics" && c.Origin(try[0]).Kind == config.OriginDefault {
				continue // without metrics on the default address, a gateway starts all the same
			}
			e.add(try[0], try[1], doctor.Listen(ctx, try[0], try[1])...)
		}
	}
	if l.HTTP != "" && !loopback(l.HTTP) && !c.Toolgate.Authenticates() {
		e.add("authentication", "", doctor.Found(doctor.CodeOpen, "listen.http", l.HTTP+" is not of this machine alone, and nothing authenticates callers", ""))
	}
	if l.TLS.Cert != "" {
		e.add("certificate", l.TLS.Cert, doctor.Certificate(l.TLS.Cert, l.TLS.Key, e.now)...)
	}
}

// gate makes what decides about calls, as a start would.
func (e *examination) gate(ctx context.Context, c *config.Config) {
	known, err := newIdentities(&c.Toolgate, "")
	if err != nil {
		e.add("authentication", "", doctor.Found(doctor.CodeIdentity, "auth", err.Error(), ""))
		return
	}
	known.close()
	g, err := newGates(ctx, c, c.Toolgate.Authenticates(), surroundings{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		code, subject := doctor.CodeGate, "gate"
		if errors.Is(err, opa.ErrNoDecision) {
			code, subject = doctor.CodeNoDecision, "opa"
		}
		e.add("gate", "", doctor.Found(code, subject, err.Error(), ""))
		return
	}
	var found []doctor.Finding
	inv, err := knownOffers(ctx, c)
	if err != nil {
		inv = newInventory(c)
	}
	if len(inv.servers)+len(inv.offers) > 0 {
		for _, p := range mentionedBy(c, g, known.scopes).aboutNothing(inv) {
			found = append(found, doctor.Found(doctor.CodeNames, p.Key, problemText(p), ""))
		}
	}
	e.add("gate", "", found...)
	if c.Toolgate.SpiceDB.Endpoint != "" && !e.offline {
		e.relations(ctx, c)
	}
}

func (e *examination) relations(ctx context.Context, c *config.Config) {
	phase, err := asked(c)
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

// server judges one server: its program or its address, and what is sent to it.
func (e *examination) server(ctx context.Context, c *config.Config, s *config.Server) {
	what := "server " + s.Key
	switch {
	case s.Disabled:
		e.add(what, "disabled")
		return
	case s.Refused != nil:
		var found []doctor.Finding
		for _, fault := range faultsOf(s.Refused) {
			code := doctor.CodeRefused
			if errors.Is(fault, config.ErrUnset) {
				code = doctor.CodeUnset
			}
			found = append(found, doctor.Found(code, s.Key, fault.Error(), ""))
		}
		e.add(what, "", found...)
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
	if s.Transport == config.TransportStdio {
		if s.Cwd != "" {
			if info, err := os.Stat(s.Cwd); err != nil || !info.IsDir() {
				found = append(found, doctor.Found(doctor.CodeNoFolder, s.Key, s.Cwd+" is no folder", ""))
			}
		}
		spec := upstreamSpec(s, c, false)
		path, err := spec.Executable()
		found = append(found, doctor.Command(s.Key, s.Command, path, err)...)
		e.add(what, path, found...)
		return
	}
	if s.URL == "" {
		return // the gateway's own tools, and plugins, which have a check of theirs
	}
	if e.offline {
		e.add(what, "not asked", found...)
		return
	}
	client, stop := prober()
	defer stop()
	asked, offset, known := doctor.Remote(ctx, client, s.Key, s.URL, headers)
	if known {
		e.offsets[s.Key] = offset
	}
	asked = slices.DeleteFunc(asked, func(f doctor.Finding) bool {
		return f.Code == doctor.CodeLogin && e.ready[s.Key] // somebody is signed in
	})
	e.add(what, shownURL(s.Written.URL), append(found, asked...)...)
}

// prober is a client that follows no redirects and keeps nothing.
func prober() (*http.Client, func()) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, transport.CloseIdleConnections
}

// issuers asks those who vouch for callers what time it is.
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

// literalSecret names the first credential that a file spells out; empty for none.
func literalSecret(c *config.Config) string {
	data, err := os.ReadFile(c.Path)
	if err != nil {
		return ""
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		for _, kind := range []struct {
			name   string
			values map[string]config.Secret
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
