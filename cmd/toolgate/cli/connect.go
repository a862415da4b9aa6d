package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/target"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/spelling"
	"github.com/toolgate/toolgate/proxy"
)

// connection holds the options of `connect`.
type connection struct {
	scope   string
	remote  bool
	capsule string
	key     string // name of a variable
	only    bool
	show    bool
	view    string // full or find; empty for the one that fits the client
}

func newConnect(o *command.Options) *cobra.Command {
	var want connection
	var undo, restore bool
	c := &cobra.Command{
		Use:   "connect CLIENT [FILE]",
		Short: "Point a client at toolgate",
		Long: `Write an entry for toolgate into the file of a client, and leave everything else in
it as it is. The client then starts toolgate stdio with the configuration FILE. With
--http it calls the running gateway of that configuration instead. A copy of the old
file is kept beside it.

A client that shows its model all tools at once gets the find view if the tools of the
running gateway are more than it accepts, or cost its model more than about 20,000
tokens. One that refuses a part of JSON Schema is listed strict schemas. --view decides
otherwise.

--undo removes the entry again. If nothing else in the file has changed since, it
becomes byte for byte what it was; --restore restores it even if something has
changed.

Clients: ` + strings.Join(clients.Names(), ", ") + `.`,
		Example: "  toolgate connect cursor\n  toolgate connect claude-code --scope project --http --key-env TOOLGATE_API_KEY\n  toolgate connect codex --print\n  toolgate connect cursor --undo",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			if undo || restore {
				if len(args) == 2 {
					return failure.Newf(failure.Usage, "--undo takes no FILE; leave out %s", args[1])
				}
				return disconnectClient(o, client, want.scope, restore)
			}
			if len(args) == 2 {
				o.Config = args[1]
			}
			if _, ok := proxy.ScopeOfView(want.view); !ok {
				return failure.Newf(failure.Usage, "unknown view %q; %s", want.view, viewNames)
			}
			return connectClient(o, cmd.Context(), client, want)
		},
		ValidArgsFunction: completeClients,
	}
	c.Flags().StringVar(&want.scope, "scope", "user", "which `file` of the client: user, or project for the one in this folder")
	c.Flags().BoolVar(&want.remote, "http", false, "call the running gateway over HTTP instead of starting toolgate stdio")
	c.Flags().StringVar(&want.capsule, "capsule", "", "show the client one `capsule` only; needs --http")
	c.Flags().StringVar(&want.key, "key-env", "", "`variable` that holds the client's API key; needs --http")
	c.Flags().StringVar(&want.view, "view", "", "which `view` the client is listed: full for all tools, find for the tools by which a model finds the others, strict, compact or verbatim for how schemas are listed, or strict/find; by default the one that fits it")
	c.Flags().BoolVar(&want.only, "only", false, "remove the client's other servers; toolgate serves them")
	c.Flags().BoolVar(&want.show, "print", false, "only print the entry")
	c.Flags().BoolVar(&undo, "undo", false, "remove the entry again")
	c.Flags().BoolVar(&restore, "restore", false, "restore the file as it was before, whatever has changed since")
	return c
}

func newDisconnect(o *command.Options) *cobra.Command {
	var scope string
	var restore bool
	c := &cobra.Command{
		Use:    "disconnect CLIENT",
		Short:  "Remove toolgate from a client's file; see toolgate connect --undo",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			return disconnectClient(o, client, scope, restore)
		},
		ValidArgsFunction: completeClients,
	}
	c.Flags().StringVar(&scope, "scope", "user", "which `file` of the client: user, or project for the one in this folder")
	c.Flags().BoolVar(&restore, "restore", false, "restore the file as it was before toolgate connect, whatever has changed since")
	return c
}

func clientNamed(name string) (*clients.Client, error) {
	if c, ok := clients.Find(name); ok {
		return c, nil
	}
	hint := ""
	for _, known := range clients.Names() {
		if hint == "" && spelling.Similar(name, known) {
			hint = "; did you mean " + known + "?"
		}
	}
	return nil, failure.Newf(failure.Usage, "unknown client %q%s; known are %s", name, hint, strings.Join(clients.Names(), ", "))
}

func completeClients(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []cobra.Completion
	for _, c := range clients.All() {
		out = append(out, describe(c.Name, c.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// toConnect returns the path of the configuration that a client is connected to; empty for
// a demo that runs. A client never gets an entry that cannot start.
func toConnect(o *command.Options, ctx context.Context, client *clients.Client, want *connection) (string, error) {
	path, err := o.Target(ctx)
	if err != nil {
		return "", err
	}
	if path != "" {
		_, err := o.ReadConfigWith(path, nil)
		return path, err
	}
	control, err := target.Client("")
	if err != nil {
		return "", err
	}
	if _, err := control.Status(ctx); err != nil || !want.remote {
		return "", failure.Newf(failure.Config, "there is no configuration to connect %s to; run `toolgate import --write` to make one of the servers that your clients have, or name one: toolgate connect %s FILE", client.Title, client.Name)
	}
	return "", nil
}

// clientEntry is the entry for toolgate in a client's file.
func clientEntry(o *command.Options, client *clients.Client, path string, want *connection) (edit.Map, error) {
	if !want.remote {
		if want.capsule != "" || want.key != "" {
			return nil, failure.Newf(failure.Usage, "--capsule and --key-env need --http")
		}
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		args := []string{"stdio"}
		for _, file := range append([]string{path}, o.With...) {
			abs, err := filepath.Abs(file)
			if err != nil {
				return nil, err
			}
			args = append(args, abs)
		}
		if want.view != clients.FullView {
			args = append(args, "--view", want.view)
		}
		return client.Stdio(program, args), nil
	}
	if client.Remote == nil {
		return nil, failure.Newf(failure.Usage, "the file of %s cannot have servers over HTTP; leave --http out", client.Title)
	}
	c, err := o.ReadConfigWith(path, nil)
	if err != nil {
		return nil, err
	}
	if c.Toolgate.Listen.HTTP == "" {
		return nil, failure.Newf(failure.Config, "%s sets no address to listen on; set toolgate.listen.http, or leave --http out", path)
	}
	url := strings.TrimRight(cmp.Or(c.Toolgate.Listen.PublicURL, httpURL(c)), "/") + "/mcp"
	if want.capsule != "" {
		if _, ok := c.Toolgate.Capsules[want.capsule]; !ok {
			return nil, failure.Newf(failure.Config, "%s has no capsule %q", path, want.capsule)
		}
		url += "/c/" + want.capsule
	}
	if want.view != clients.FullView {
		url += "/" + want.view
	}
	key := clients.Key{Variable: want.key}
	if want.key != "" {
		if client.Reference == "" && client.Name != "codex" {
			return nil, failure.Newf(failure.Usage, "files of %s cannot refer to a variable; leave --http and --key-env out, and set TOOLGATE_API_KEY for `toolgate stdio`", client.Title)
		}
		key.Reference = strings.ReplaceAll(client.Reference, "NAME", want.key)
	}
	return client.Remote(url, key), nil
}

// httpURL returns the URL of a configuration's listener.
func httpURL(c *config.Config) string {
	scheme := "http"
	if c.Toolgate.Listen.TLS.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + c.Toolgate.Listen.HTTP
}

func connectClient(o *command.Options, ctx context.Context, client *clients.Client, want connection) error {
	from, err := toConnect(o, ctx, client, &want)
	if err != nil {
		return err
	}
	why := "as --view says"
	if want.view == "" {
		want.view, why = viewFor(ctx, client, from, &want)
	}
	entry, err := clientEntry(o, client, from, &want)
	if err != nil {
		return err
	}
	path, err := clientHome(client, want.scope)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(append([]string{from}, o.With...), func(read string) bool { return sameFile(read, path) }) {
		if want.only {
			return failure.Newf(failure.Usage, "%s is the file that toolgate reads: without its servers there would be nothing to serve; run `toolgate import --write` first, and then `toolgate connect %s toolgate.yaml --only`", path, client.Name)
		}
		output.Warn("%s is the file that toolgate reads. This works, because toolgate skips the entry that starts it, but %s has each server twice: its own, and that of toolgate. To have each once, run `toolgate import --write`, and then `toolgate connect %s toolgate.yaml --only`", path, client.Title, client.Name)
	}
	if want.show {
		output.Say("%s:\n\n%s", path, shownEntry(client, path, entry))
		return nil
	}
	before, err := format.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, err)
	}
	existed := err == nil
	after, removed, err := connected(client, path, before, entry, want.only)
	if errors.Is(err, edit.ErrByHand) {
		return failure.Newf(failure.Config, "%s: %w; write this into it:\n\n%s", path, err, shownEntry(client, path, entry))
	}
	if err != nil {
		return failure.New(failure.Config, err)
	}
	if existed && bytes.Equal(before, after) {
		output.Say("%s is connected already: %s\n", client.Title, path)
		return nil
	}
	kept, err := keepFormer(client, path, before, after, existed)
	if err != nil {
		return err
	}
	if err := replaceFile(path, after); err != nil {
		return err
	}
	if first := backupName(path, before); exists(first) { // the copy is kept beside the current content
		if err := os.Remove(first); err != nil {
			return failure.New(failure.Config, err)
		}
	}
	output.Say("%s is connected: %s\n", client.Title, path)
	output.Say("its view is %s: %s\n", want.view, why)
	if len(removed) > 0 {
		output.Say("removed from it: %s\n", strings.Join(removed, ", "))
	}
	if kept {
		output.Say("the old file: %s\n", backupName(path, after))
	}
	output.Note("%s", client.After)
	return nil
}

// viewFor returns the view that fits a client, and why, by what the running gateway of a
// configuration lists. The list of a capsule is not known here.
func viewFor(ctx context.Context, client *clients.Client, path string, want *connection) (view, why string) {
	if want.capsule != "" {
		return client.WithSchemas(clients.FullView, "the capsule says what is listed")
	}
	tools, tokens := 0, 0
	if control, err := target.Client(path); err == nil {
		ctx, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		if now, err := control.Status(ctx); err == nil {
			for i := range now.Servers {
				tools, tokens = tools+now.Servers[i].Tools, tokens+now.Servers[i].Tokens
			}
		}
	}
	return client.WithSchemas(client.View(tools, tokens))
}

// viewTimeout is how long the running gateway has to say what it lists.
const viewTimeout = 2 * time.Second

// keepFormer keeps a copy of a client's file from before it was first connected, named
// after the content that will replace it, and tells whether it did. A copy that belongs
// to the current content stays: the file may not be written after all.
func keepFormer(client *clients.Client, path string, before, after []byte, existed bool) (bool, error) {
	if !existed {
		return false, nil
	}
	if first := backupName(path, before); exists(first) { // it is connected already, in another way
		original, err := format.ReadFile(first)
		if err != nil {
			return false, failure.New(failure.Config, err)
		}
		return true, writeFile(backupName(path, after), original, 0o600)
	}
	if client.Whole {
		return false, nil // a file of toolgate alone has no former content
	}
	if without, err := edit.Delete(path, before, client.Section, clients.Entry); err != nil || !bytes.Equal(without, before) {
		return false, nil //nolint:nilerr // what cannot be taken out was there before, and how the file was then is not known
	}
	return true, writeFile(backupName(path, after), before, 0o600)
}

// sameFile tells whether two paths lead to one file that exists.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// made tells whether, apart from the entry, a client's file contains only what `connect`
// writes into a new file.
func made(client *clients.Client, path string, data []byte) bool {
	with, err := edit.Set(path, nil, client.Section, clients.Entry, edit.Map{{Key: "command", Value: "x"}})
	if err != nil {
		return false
	}
	without, err := edit.Delete(path, with, client.Section, clients.Entry)
	return err == nil && bytes.Equal(without, data)
}

// connected returns a client's file with the entry added. With only, it is the only
// entry.
func connected(client *clients.Client, path string, before []byte, entry edit.Map, only bool) (after []byte, removed []string, err error) {
	if client.Whole {
		return edit.Whole(path, entry), nil, nil
	}
	after = before
	if only {
		root, err := format.ParseDocument(path, before)
		if err != nil {
			return nil, nil, err
		}
		for _, key := range client.Section {
			root = root.Get(key)
		}
		if root != nil {
			for _, f := range root.Fields {
				if f.Key == clients.Entry {
					continue
				}
				if after, err = edit.Delete(path, after, client.Section, f.Key); err != nil {
					return nil, nil, err
				}
				removed = append(removed, f.Key)
			}
		}
	}
	after, err = edit.Set(path, after, client.Section, clients.Entry, entry)
	return after, removed, err
}

func shownEntry(client *clients.Client, path string, entry edit.Map) string {
	if client.Whole {
		return string(edit.Whole(path, entry))
	}
	return edit.Text(path, client.Section, clients.Entry, entry)
}

func disconnectClient(o *command.Options, client *clients.Client, scope string, restore bool) error {
	path, err := clientHome(client, scope)
	if err != nil {
		return err
	}
	now, err := format.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Newf(failure.Usage, "%s is not connected: it has no file %s; `toolgate connect %s` connects it", client.Title, path, client.Name)
	}
	if err != nil {
		return failure.Newf(failure.Config, "the file of %s cannot be read: %w", client.Title, err)
	}
	backup := backupName(path, now)
	if _, err := os.Stat(backup); err != nil && restore {
		if backup, err = newestBackup(path); err != nil {
			return err
		}
	} else if err != nil {
		backup = ""
	}
	if backup != "" {
		before, err := format.ReadFile(backup)
		if err != nil {
			return failure.New(failure.Config, err)
		}
		if err := replaceFile(path, before); err != nil {
			return err
		}
		output.Say("%s is as it was before: %s\n", client.Title, path)
		return os.Remove(backup)
	}
	if client.Whole {
		output.Say("%s is disconnected: %s is removed\n", client.Title, path)
		return os.Remove(path)
	}
	after, err := edit.Delete(path, now, client.Section, clients.Entry)
	if err != nil {
		return failure.Newf(failure.Config, "%s: %w; remove %s from it by hand", path, err, clients.Entry)
	}
	if bytes.Equal(now, after) {
		output.Say("%s was not connected: %s\n", client.Title, path)
		return nil
	}
	if made(client, path, after) {
		output.Say("%s is disconnected: %s is removed\n", client.Title, path)
		return os.Remove(path)
	}
	if err := replaceFile(path, after); err != nil {
		return err
	}
	output.Say("%s is disconnected: %s\n", client.Title, path)
	return nil
}

// clientHome returns the client's file to write an entry into. It follows links, because
// many people keep such files elsewhere.
func clientHome(client *clients.Client, scope string) (string, error) {
	if scope != "user" && scope != "project" {
		return "", failure.Newf(failure.Usage, "unknown scope %q; write user or project", scope)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	path, err := client.Home(places(dir), scope)
	if _, wrong := errors.AsType[*fs.PathError](err); wrong {
		return "", failure.New(failure.Config, err)
	} else if err != nil {
		return "", failure.New(failure.Usage, err)
	}
	return followed(path)
}

// followed resolves the links at a path, whether or not the file exists: a file written
// in the place of a link would replace the link.
func followed(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if to, linked := os.Readlink(path); linked == nil {
		return "", failure.Newf(failure.Config, "%s is a link to %s, which cannot be followed: %w; make that file, or remove the link", path, to, err)
	}
	return path, nil
}

// backupName is where the copy of a file's former content is kept. The name depends on
// the current content, so the copy is found only while nothing else has changed the file.
func backupName(path string, written []byte) string {
	sum := sha256.Sum256(written)
	return path + ".before-toolgate-" + hex.EncodeToString(sum[:6])
}

func newestBackup(path string) (string, error) {
	found, err := filepath.Glob(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path) + ".before-toolgate-*")
	if err != nil || len(found) == 0 {
		return "", failure.Newf(failure.Config, "no copy of the old %s was kept", path)
	}
	newest, at := "", int64(0)
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && info.ModTime().UnixNano() > at {
			newest, at = f, info.ModTime().UnixNano()
		}
	}
	return newest, nil
}

// replaceFile writes a file atomically, at the place that links lead to, with its present
// mode, or for its user alone.
func replaceFile(path string, data []byte) error {
	path, err := followed(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failure.New(failure.Config, err)
	}
	return writeFile(path, data, mode)
}

// writeFile writes a file atomically. It replaces a link.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".toolgate-*") // created with mode 0600
	if err != nil {
		return notWritten(path, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return notWritten(path, err)
	}
	return nil
}

// notWritten says that a file cannot be written, and why. The temporary file beside it
// is of no interest.
func notWritten(path string, err error) error {
	dir, absErr := filepath.Abs(filepath.Dir(path))
	if absErr != nil {
		dir = filepath.Dir(path)
	}
	why := failure.Cause(&fs.PathError{Op: "open", Path: "the folder " + dir, Err: err})
	if why == "" || errors.Is(err, fs.ErrNotExist) { // it does exist, and takes no files
		why = "no file can be made in the folder " + dir
	}
	return failure.New(failure.Config, failure.Reworded(err, "%s is not written: %s; go to a folder that you may write to, or name a file with -c", path, why))
}
