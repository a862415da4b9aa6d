package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/upstream"
)

func newDoctor(o *command.Options) *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:   "doctor [FILE...]",
		Short: "Find out what does not work, and how to fix it",
		Long: `Check a configuration, this machine and the clients on it, and say what does not work
and how to fix it. No server is started and nothing is changed. Remote servers get one
ping with the headers of the file. Every finding has a code; see docs/doctor.md, or
toolgate doctor explain CODE.`,
		Example: "  toolgate doctor\n  toolgate doctor explain TG2101",
		Args:    command.FilesArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &examination{o: o, offline: offline, now: time.Now()}
			e.run(cmd.Context())
			return printChecks(o, e.checks)
		},
	}
	c.Flags().BoolVar(&offline, "offline", false, "make no requests over the network")
	o.OutputFlag(c)
	explain := &cobra.Command{
		Use:   "explain CODE",
		Short: "Explain a code, and what to do about it",
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
				return failure.Newf(failure.Usage, "there is no code %s; see `toolgate doctor codes`", args[0])
			}
			output.Say("%s  %s (%s)\n\n%s\n\nWhat to do: %s\n", code.ID, code.Title, code.Level, code.Means, code.Fix)
			return nil
		},
	}
	codes := &cobra.Command{
		Use:   "codes",
		Short: "List all codes",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := output.Table{Header: []string{"CODE", "LEVEL", "FINDING"}}
			for _, code := range doctor.Codes() {
				t.Rows = append(t.Rows, []string{code.ID, string(code.Level), code.Title})
				t.Names = append(t.Names, code.ID)
			}
			t.Data = map[string]any{"codes": doctor.Codes()}
			return o.Print(os.Stdout, t)
		},
	}
	o.OutputFlag(codes)
	c.AddCommand(explain, codes)
	return c
}

// printChecks prints the findings. If one of them is an error, the exit code is that of a
// configuration error.
func printChecks(o *command.Options, checks []doctor.Check) error {
	t := output.Table{Header: []string{"LEVEL", "CODE", "SUBJECT", "WHAT"}}
	found := []doctor.Finding{}
	var fine [][]string
	for _, c := range checks {
		if len(c.Findings) == 0 && (o.Output == "wide" || !strings.HasPrefix(c.What, "client ")) {
			fine = append(fine, []string{"ok", "", c.What, c.Note})
		}
		for _, f := range c.Findings {
			found = append(found, f)
			t.Rows = append(t.Rows, []string{string(f.Level), f.Code, f.Subject, output.FirstLine(f.What, 100)})
			t.Names = append(t.Names, f.Code)
		}
	}
	slices.SortStableFunc(t.Rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) }) // errors first
	t.Rows = append(t.Rows, fine...)
	wrong, warnings := doctor.Errors(checks)
	t.Data = map[string]any{"checks": checks, "findings": found, "errors": wrong, "warnings": warnings}
	if err := o.Print(os.Stdout, t); err != nil {
		return err
	}
	if o.Output == "table" || o.Output == "wide" {
		for _, f := range found {
			output.Say("\n")
			output.Paragraph(os.Stdout, fmt.Sprintf("%s %s: %s", f.Code, f.Subject, f.What))
			output.Paragraph(os.Stdout, "  fix: "+f.Fix)
		}
		output.Say("\n%d ok, %s, %s\n", len(checks)-failing(checks), screen.Count(warnings, "warning"), screen.Count(wrong, "error"))
	}
	if wrong > 0 {
		return failure.Newf(failure.Config, "%s found; `toolgate doctor explain CODE` says more", screen.Count(wrong, "error"))
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

// examination runs all checks, one after the other.
type examination struct {
	o       *command.Options
	offline bool
	now     time.Time
	checks  []doctor.Check
	offsets map[string]time.Duration // clock offsets of other machines, by name
	ready   map[string]bool          // servers that the running gateway uses
	failing map[string]string        // servers that the running gateway cannot use, and why
}

// addServer adds what was found about a server. If nothing explains why the running
// gateway cannot use it, the gateway's own words do.
func (e *examination) addServer(s *config.Server, remark string, found ...doctor.Finding) {
	reason, failing := e.failing[s.Key]
	delete(e.failing, s.Key)
	if failing && !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Level == doctor.Error }) {
		fix := "Check that it runs, and that its address is right."
		if s.Transport == upstream.Stdio {
			fix = "See what it wrote: `toolgate logs " + s.Key + "`."
		}
		found = append(found, doctor.Found(doctor.CodeFailing, s.Key, reason, fix))
	}
	e.add("server "+s.Key, remark, found...)
}

func (e *examination) add(what, remark string, found ...doctor.Finding) {
	if found == nil {
		found = []doctor.Finding{}
	}
	e.checks = append(e.checks, doctor.Check{What: what, Note: remark, Findings: found})
}

func (e *examination) run(ctx context.Context) {
	e.offsets = map[string]time.Duration{}
	path, err := e.o.FindFile()
	if err != nil {
		e.add("configuration", "", doctor.Found(doctor.CodeFile, "configuration", err.Error(), ""))
		return
	}
	if dir, err := statedir.Find(path); err == nil {
		if own, ok := dir.Running(ctx); ok && len(e.o.With) == 0 {
			e.o.With = own.With
		}
	}
	e.otherFiles(path)
	e.clients()
	c, err := e.o.ReadConfigWith(path, nil)
	if err != nil {
		e.add("configuration", "", fileFindings(path, err)...)
		return
	}
	e.configuration(c)
	state, err := statedir.Find(c.Path)
	if err != nil {
		e.add("state folder", "", doctor.Found(doctor.CodeState, "TOOLGATE_STATE", err.Error(), ""))
		return
	}
	running := e.running(ctx, state)
	if ok, err := command.Accepted(e.o, c, state); (!ok || err != nil) && running == nil {
		e.offline = true // a request to its servers would have the credentials of the user
		e.add("acceptance", "", doctor.Found(doctor.CodeNotAccepted, c.Path, "it is not accepted as it is now, so none of its servers was asked", ""))
	}
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
	for _, name := range slices.Sorted(keysOf(e.failing)) {
		e.add("server "+name, "", doctor.Found(doctor.CodeFailing, name, e.failing[name], "See `toolgate status`."))
	}
	e.confinement(c)
	e.issuers(ctx, c)
	if len(e.offsets) > 0 {
		e.add("clock", "compared with "+screen.Count(len(e.offsets), "server"), doctor.Clocks(e.offsets)...)
	}
}

// fileFindings are the findings about a configuration that cannot be used.
func fileFindings(path string, err error) []doctor.Finding {
	faults := faultsOf(err)
	out := make([]doctor.Finding, 0, len(faults))
	for _, fault := range faults {
		code := doctor.CodeFile
		switch {
		case errors.Is(fault, config.ErrNamespace):
			code = doctor.CodeNamespace
		case errors.Is(fault, clientfiles.ErrUnset):
			code = doctor.CodeUnset
		}
		subject, fix := path, ""
		if e, ok := errors.AsType[*tree.Error](fault); ok {
			if e.Key != "" {
				subject = e.Key
			}
			fix = e.Hint
		}
		out = append(out, doctor.Found(code, subject, fault.Error(), sentence(fix)))
	}
	return out
}

// faultsOf splits an error of package config into the faults that it joins.
func faultsOf(err error) []error {
	if e, ok := err.(*failure.Error); ok { //nolint:errorlint // this layer alone is taken off
		return faultsOf(e.Err)
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// sentence starts a hint with a capital letter and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// configuration checks a usable file.
func (e *examination) configuration(c *config.Config) {
	var found []doctor.Finding
	name := c.Path
	if name == "" {
		name = "none: the built-in demo"
	} else if len(c.Servers)+len(c.Toolgate.Tools) == 0 {
		found = append(found, doctor.Found(doctor.CodeNoServers, c.Path, noServers(c), ""))
	}
	for _, file := range append([]config.Source{{Path: c.Path}}, c.With...) {
		info, err := os.Stat(file.Path)
		if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if where := literalSecret(c, file.Path); where != "" {
			found = append(found, doctor.Found(doctor.CodeReadable, where,
				fmt.Sprintf("%s contains a credential and has the mode %#o", file.Path, info.Mode().Perm()), ""))
		}
	}
	e.add("configuration", name+", "+screen.Count(len(c.Servers), "server"), found...)
}

// running returns the status of the configuration's gateway; nil if none answers.
func (e *examination) running(ctx context.Context, state *statedir.Dir) *admin.Status {
	token, err := os.ReadFile(filepath.Join(state.Path, "admin.token"))
	if err != nil {
		return nil
	}
	control := &admin.Client{Path: state.Socket, Token: strings.TrimSpace(string(token)), Timeout: 5 * time.Second}
	status, err := control.Status(ctx)
	if err != nil {
		return nil
	}
	var found []doctor.Finding
	if status.NotReady != "" {
		found = append(found, doctor.Found(doctor.CodeNotReady, status.NotReady, status.Detail, ""))
	}
	e.ready, e.failing = map[string]bool{}, map[string]string{}
	for i := range status.Servers {
		e.ready[status.Servers[i].Name] = status.Servers[i].State == mcp.Ready.String()
		if s := &status.Servers[i]; s.State == mcp.Failed.String() || s.Breaker != "" {
			e.failing[s.Name] = s.Reason
		} else if s.Unreviewed != nil {
			found = append(found, doctor.Found(doctor.CodeUnreviewed, s.Name, s.Reason, s.Unreviewed.Fix))
		}
	}
	for _, f := range status.PolicyFailures {
		found = append(found, doctor.Found(doctor.CodePolicyFails, f.Name, f.What, ""))
	}
	for _, text := range status.Misfits {
		found = append(found, doctor.Found(doctor.CodeMisfit, "steps", text, ""))
	}
	e.add("running gateway", screen.Count(len(status.Servers), "server"), found...)
	return &status
}
