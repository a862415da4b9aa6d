package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/documents"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/envfile"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/upstream"
)

func newImport(o *command.Options) *cobra.Command {
	var how importing
	c := &cobra.Command{
		Use:   "import [CLIENT | FILE ...]",
		Short: "Import the servers of your clients into the file",
		Long: `Read the files of the clients on this machine, or of the named ones, and plan how to
write their servers into the configuration file. The same program in several clients is
one server: equal command, arguments, variables, URL and headers. --all imports each.
Credentials in these files become references: the values go into the .env file beside the
configuration, which only you may read, or with --secrets into the key ring (see toolgate
secret). On a terminal you are asked which. Nothing is written without --write, which also
keeps a copy of the old configuration beside it. The clients' own files stay as they are.

A FILE may also hold rules of governance (tools: { NAME: ... }) of another tool system, which
become rules of the configuration, or specifications of tools (tools: [ ... ]), which are read
as they are. Of a list of tools as a request to a model has it (type: mcp, server_url, ...), the
servers are imported. Each line that cannot be kept is named with what to write, and then
nothing is imported.`,
		Example: "  toolgate import\n  toolgate import cursor claude-code --write\n  toolgate import ~/Downloads/mcp.json\n  toolgate import governance.yaml --namespace fs --write",
		RunE: func(c *cobra.Command, args []string) error {
			how.asks = how.write && !c.Flags().Changed("secrets")
			return importServers(o, c, args, how)
		},
		ValidArgsFunction: completeClients,
	}
	c.Flags().BoolVar(&how.write, "write", false, "carry out the plan")
	c.Flags().BoolVar(&how.all, "all", false, "import the same program once for each client")
	c.Flags().StringVar(&how.namespace, "namespace", "", "`namespace` of the tools that rules of governance are about")
	c.Flags().BoolVar(&how.secrets, "secrets", false, "put credentials into the key ring instead of the .env file")
	o.OutputFlag(c)
	return c
}

// fileItself is the client of a file that is named directly.
const fileItself = "file"

// importing says how servers are imported.
type importing struct {
	write, all bool
	namespace  string
	secrets    bool // credentials go into the key ring
	asks       bool // a person on the terminal is asked where they go
}

// The actions for a server that was found.
const (
	importNew    = "new"
	importSame   = "there already"
	importRename = "new, under another name"
	importNot    = "left out"
)

// imported is a server that was found, and the action for it.
type imported struct {
	Name    string   `json:"name"` // in the configuration
	Client  string   `json:"client"`
	File    string   `json:"file"`
	Action  string   `json:"action"`
	Reason  string   `json:"reason,omitempty"`
	Secrets []string `json:"secrets"` // variables that replace credentials

	entry edit.Map
}

// importPlan is what an import will do.
type importPlan struct {
	importing
	items    []imported
	taken    map[string]string // by name of a server, what it is; see sameEntry
	programs map[string]origin // by program
	spare    map[string]string // name by namespace
	kept     map[string]string // variables of the file beside the configuration
	ring     *keptSecrets      // what the key ring has
	added    []string          // what is new among the variables, or in the key ring
}

// origin is the first server that runs a program.
type origin struct{ name, file string }

func importServers(o *command.Options, c *cobra.Command, args []string, how importing) error {
	files, err := importFiles(args)
	if err != nil {
		return err
	}
	path, before, section, err := ownFile(o)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, isDocument) {
		return how.documents(c.Context(), o, files, path, before)
	}
	if how.namespace != "" {
		return failure.Newf(failure.Usage, "--namespace is for files of rules")
	}
	if err := checkDefinitions(files); err != nil {
		return err
	}
	plan, after, err := planImport(o, files, path, before, section, how)
	if err != nil {
		return err
	}
	if len(plan.added) > 0 && how.asks {
		if how.secrets, err = wantsKeyring(c, plan, path); err != nil {
			return err
		}
		if how.secrets {
			if plan, after, err = planImport(o, files, path, before, section, how); err != nil {
				return err
			}
		}
	}
	changes := string(before) != string(after)
	if how.write && changes {
		if err := plan.write(c.Context(), path, before, after); err != nil {
			return err
		}
	}
	return printPlan(o, plan, files, path, how.write, changes)
}

// isDocument tells whether a file holds rules or specifications of tools.
func isDocument(f clients.Found) bool {
	kind := documentOf(f)
	return kind == documents.Rules || kind == documents.Tools
}

// documentOf tells what kind of a document a file is that is named directly.
func documentOf(f clients.Found) documents.Kind {
	if f.Client.Name != fileItself {
		return documents.Other
	}
	return documents.Of(f.Path)
}

// checkDefinitions refuses lists of definitions of tools with a line that cannot be kept.
func checkDefinitions(files []clients.Found) error {
	var wrong []error
	for _, f := range files {
		if documentOf(f) == documents.Definitions {
			_, err := documents.ServersOf(f.Path)
			wrong = append(wrong, err)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return failure.Newf(failure.Config, "nothing is imported: %w", err)
	}
	return nil
}

// loadServers reads the servers of a client's file, or those that a list of definitions of
// tools names.
func loadServers(f clients.Found, opts config.Options) (*config.Config, error) {
	if documentOf(f) != documents.Definitions {
		return config.Load(f.Path, opts)
	}
	text, err := documents.ServersOf(f.Path)
	if err != nil {
		return nil, err
	}
	return config.Parse(f.Path, text, opts)
}

// documents imports files of rules and of specifications of tools.
func (how importing) documents(ctx context.Context, o *command.Options, files []clients.Found, path string, before []byte) error {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	prefix := ""
	if how.namespace != "" {
		prefix = how.namespace + "__"
	}
	items, after, err := documents.Plan(paths, prefix, path, before)
	if err != nil {
		return failure.Newf(failure.Config, "nothing is imported: %w", err)
	}
	if err := checkText(o, path, after, nil, ""); err != nil {
		return failure.Newf(failure.Config, "the file would not be usable after the import: %w", err)
	}
	changes := string(before) != string(after)
	if how.write && changes {
		if err := new(importPlan).write(ctx, path, before, after); err != nil {
			return err
		}
	}
	t := output.Table{Header: []string{"NAME", "KIND", "ACTION", "FILE", "TO DO"}, Data: map[string]any{"file": path, "items": items, "written": how.write && changes}}
	for _, item := range items {
		t.Rows = append(t.Rows, []string{item.Name, string(item.Kind), item.Action, item.File, item.Do})
		t.Names = append(t.Names, item.Name)
	}
	if err := o.Print(os.Stdout, t); err != nil || o.Output != "table" && o.Output != "wide" {
		return err
	}
	switch {
	case !changes:
		output.Say("%s stays as it is\n", path)
	case how.write:
		output.Say("written to %s\n", path)
	default:
		output.Say("Nothing is written to %s yet; run it with --write.\n", path)
	}
	return nil
}

// planImport plans an import, and returns the configuration after it.
func planImport(o *command.Options, files []clients.Found, path string, before []byte, section []string, how importing) (*importPlan, []byte, error) {
	plan := &importPlan{
		importing: how, taken: map[string]string{}, programs: map[string]origin{}, spare: map[string]string{},
		kept: map[string]string{}, ring: newKeptSecrets(),
	}
	if err := plan.existing(path, before); err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		plan.read(f, path)
	}
	after := before
	for i := range plan.items {
		item := &plan.items[i]
		if item.Action != importNew && item.Action != importRename {
			continue
		}
		var err error
		if after, err = edit.Set(path, after, section, item.Name, item.entry); err != nil {
			return nil, nil, failure.Newf(failure.Config, "add %s to %s: %w", item.Name, path, err)
		}
	}
	if err := plan.ring.err; err != nil {
		return nil, nil, failure.Newf(failure.Config, "look at the secrets that there are: %w; without --secrets credentials go into the .env file", err)
	}
	if err := checkText(o, path, after, plan.values(), ""); err != nil {
		return nil, nil, failure.Newf(failure.Config, "the file would not be usable after the import: %w", err)
	}
	return plan, after, nil
}

// importFiles returns the files of the named clients (all clients by default) and the
// files that were named directly.
func importFiles(args []string) ([]clients.Found, error) {
	if len(args) == 0 {
		return clients.Installed(places(here())), nil
	}
	var out []clients.Found
	for _, arg := range args {
		if c, ok := clients.Find(arg); ok {
			found := c.Existing(places(here()))
			if len(found) == 0 {
				return nil, failure.Newf(failure.Config, "%s has no file on this machine", c.Title)
			}
			out = append(out, found...)
			continue
		}
		if _, err := os.Stat(arg); err != nil {
			if _, unknown := clientNamed(arg); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, `/\.`) {
				return nil, unknown
			}
			return nil, failure.New(failure.Config, err)
		}
		if instead := documents.Instead(arg); instead != "" {
			return nil, failure.Newf(failure.Config, "%s is not imported: %s", arg, instead)
		}
		out = append(out, clients.Found{Client: &clients.Client{Name: fileItself, Title: arg}, Path: arg})
	}
	return out, nil
}

// existing records what the configuration already has.
func (p *importPlan) existing(path string, data []byte) error {
	kept, err := envfile.Read(command.VariablesFile(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return failure.New(failure.Config, err)
	default:
		p.kept = kept
	}
	if len(data) == 0 {
		return nil
	}
	c, err := config.Parse(path, data, config.Options{Raw: true})
	if err != nil {
		return failure.New(failure.Config, err)
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		program := p.program(s)
		p.taken[s.Key], p.spare[s.Namespace] = sameEntry(program, s), s.Key
		if p.programs[program].name == "" {
			p.programs[program] = origin{s.Key, path}
		}
	}
	return nil
}

// read plans the import of the servers of a file.
func (p *importPlan) read(f clients.Found, target string) {
	note := func(name, reason string) {
		p.items = append(p.items, imported{Name: name, Client: f.Client.Name, File: f.Path, Action: importNot, Reason: reason, Secrets: []string{}})
	}
	if a, err := os.Stat(f.Path); err == nil {
		if b, err := os.Stat(target); err == nil && os.SameFile(a, b) {
			return
		}
	}
	self, _ := os.Executable() // the name is unknown, but toolgate's entry is still recognised
	c, err := loadServers(f, config.Options{Raw: true, Home: places("").Home, Self: []string{self}})
	if err != nil {
		if data, readErr := format.ReadFile(f.Path); readErr == nil {
			if _, syntax := format.ParseDocument(f.Path, data); syntax == nil {
				return // a settings file without servers
			}
		}
		note("", faultsOf(err)[0].Error())
		return
	}
	for _, s := range c.Skipped {
		note(s.Key, s.Reason)
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Refused != nil {
			note(s.Key, faultsOf(s.Refused)[0].Error())
			continue
		}
		p.add(s, f)
	}
}

func (p *importPlan) add(s *config.Server, f clients.Found) {
	item := imported{Name: s.Key, Client: f.Client.Name, File: f.Path, Action: importNew, Secrets: []string{}}
	program := p.program(s)
	entry := sameEntry(program, s)
	twin := p.programs[program]
	for n := 1; ; n++ {
		there, taken := p.taken[item.Name]
		if taken && there == entry {
			item.Action = importSame
			break
		}
		if !taken && p.spare[config.Namespace(item.Name)] == "" {
			break
		}
		item.Action, item.Reason = importRename, "another server is called "+s.Key
		item.Name = s.Key + "-" + f.Client.Name
		if n > 1 {
			item.Name += fmt.Sprint("-", n)
		}
	}
	switch {
	case item.Action == importSame:
		item.Reason = ""
	case twin.name != "" && twin.file != f.Path && !p.all:
		item.Name, item.Action, item.Reason = s.Key, importNot, "same program as "+twin.name+"; --all takes it"
		p.enable(twin.name, s)
	default:
		item.Secrets = append(item.Secrets, p.moveSecrets(s)...)
		item.entry = importEntry(s)
		p.taken[item.Name], p.spare[config.Namespace(item.Name)] = entry, item.Name
		if twin.name == "" {
			p.programs[program] = origin{item.Name, f.Path}
		}
	}
	p.items = append(p.items, item)
}

// enable has a server that will be imported started, because a client that has the same
// program starts it.
func (p *importPlan) enable(name string, s *config.Server) {
	for i := range p.items {
		item := &p.items[i]
		if item.Name == name && item.entry != nil && !s.Disabled {
			item.entry = slices.DeleteFunc(item.entry, func(f edit.Field) bool { return f.Key == "disabled" })
		}
	}
}

// sameEntry is equal for servers that are the same program with the same settings.
func sameEntry(program string, s *config.Server) string {
	return fmt.Sprint(s.Timeouts.Call, s.Disabled, s.Transport, program)
}

// importEntry returns a server as it is written into a configuration: in toolgate's
// spelling, whatever its client uses.
func importEntry(s *config.Server) edit.Map {
	var m edit.Map
	if s.Transport == upstream.Stdio {
		m = edit.Map{{Key: "command", Value: s.Command}}
		if len(s.Args) > 0 {
			m = append(m, edit.Field{Key: "args", Value: s.Args})
		}
		if s.Cwd != "" {
			m = append(m, edit.Field{Key: "cwd", Value: s.Cwd})
		}
		m = appendTexts(m, "env", secret.Reveal(s.Env))
		if len(s.EnvInherit) > 0 {
			m = append(m, edit.Field{Key: "env_vars", Value: s.EnvInherit})
		}
	} else {
		if s.Transport != upstream.Auto {
			m = append(m, edit.Field{Key: "type", Value: string(s.Transport)})
		}
		m = append(m, edit.Field{Key: "url", Value: s.URL})
		m = appendTexts(m, "headers", secret.Reveal(s.Headers))
	}
	if s.Include != nil {
		m = append(m, edit.Field{Key: "includeTools", Value: s.Include})
	}
	if len(s.Exclude) > 0 {
		m = append(m, edit.Field{Key: "excludeTools", Value: s.Exclude})
	}
	if s.Timeouts.Call != upstream.DefaultCall {
		m = append(m, edit.Field{Key: "timeout", Value: int(s.Timeouts.Call.Milliseconds())})
	}
	if s.Disabled {
		m = append(m, edit.Field{Key: "disabled", Value: true})
	}
	return m
}

func entryText(m edit.Map) string { return edit.Text("x.json", nil, "x", m) }

// write writes the configuration and its credentials, and keeps a copy of the old file.
func (p *importPlan) write(ctx context.Context, path string, before, after []byte) error {
	keep := p.writeVariables
	if p.secrets {
		keep = func(string) error { return p.ring.set(ctx, p.added) }
	}
	if len(p.added) > 0 {
		if err := keep(path); err != nil {
			return err
		}
	}
	if before != nil {
		if err := writeFile(backupName(path, after), before, 0o600); err != nil {
			return err
		}
	}
	if err := replaceFile(path, after); err != nil {
		return err
	}
	return command.AcceptWritten(path, before, after)
}

// writeVariables adds the new variables to the file beside the configuration.
func (p *importPlan) writeVariables(path string) error {
	name, err := followed(command.VariablesFile(path))
	if err != nil {
		return err
	}
	text, err := format.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for _, key := range p.added {
		text = append(text, key+"="+envQuote(p.kept[key])+"\n"...)
	}
	return writeFile(name, text, 0o600)
}

// envQuote quotes a value for an .env file.
func envQuote(value string) string {
	if !strings.ContainsAny(value, "'\n\r") {
		return "'" + value + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(value) + `"`
}

// importFile is a file that was read, as it is printed.
type importFile struct {
	Client string `json:"client"`
	File   string `json:"file"`
}

func printPlan(o *command.Options, p *importPlan, files []clients.Found, path string, written, changes bool) error {
	t := output.Table{Header: []string{"SERVER", "CLIENT", "ACTION", "SECRETS", "FILE", "REASON"}}
	looked := []importFile{}
	for _, f := range files {
		looked = append(looked, importFile{f.Client.Name, f.Path})
	}
	added := 0
	for i := range p.items {
		item := &p.items[i]
		if item.Action == importNew || item.Action == importRename {
			added++
		}
		t.Rows = append(t.Rows, []string{item.Name, item.Client, item.Action, strings.Join(item.Secrets, ","), item.File, item.Reason})
		t.Names = append(t.Names, item.Name)
	}
	variables, inRing, where := p.added, []string(nil), command.VariablesFile(path)
	if p.secrets {
		variables, inRing, where = nil, p.added, "the key ring"
		if p.ring.place != "" {
			where = p.ring.place.String()
		}
	}
	t.Data = map[string]any{
		"file": path, "files": looked, "servers": append([]imported{}, p.items...), "variables": append([]string{}, variables...),
		"variables_file": command.VariablesFile(path), "keyring": append([]string{}, inRing...), "written": written && changes,
	}
	if err := o.Print(os.Stdout, t); err != nil || o.Output != "table" && o.Output != "wide" {
		return err
	}
	switch {
	case len(files) == 0:
		output.Say("no client with a file was found on this machine\n")
	case !changes:
		output.Say("nothing new; %s stays as it is\n", path)
	case written:
		output.Say("added to %s: %s", path, screen.Count(added, "server"))
		if len(p.added) > 0 {
			output.Say(", %s in %s", screen.Count(len(p.added), "credential"), where)
		}
		output.Say(". Next: toolgate up, and then toolgate connect CLIENT --only\n")
	default:
		output.Say("Plan: %s into %s", screen.Count(added, "server"), path)
		if len(p.added) > 0 {
			output.Say(", %s into %s", screen.Count(len(p.added), "credential"), where)
		}
		output.Say(". Nothing is written yet; run it with --write.\n")
	}
	return nil
}
