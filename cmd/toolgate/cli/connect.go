package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/clients"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/edit"
	"github.com/toolgate/toolgate/config/format"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/spelling"
)

// connection is what `connect` was asked for.
type connection struct {
	scope   string
	remote  bool
	capsule string
	key     string // name of a variable
	only    bool
	show    bool
}

func newConnect(o *options) *cobra.Command {
	var want connection
	c := &cobra.Command{
		Use:   "connect CLIENT [FILE]",
		Short: "Point a client at toolgate",
		Long: `Write an entry for toolgate into the file of a client, and leave everything else in
it as it is. The client then starts toolgate stdio with the configuration FILE, or
with --http calls the gateway that runs with it. The file as it was is kept beside
it, and toolgate disconnect takes the entry out again.

Clients: ` + strings.Join(clients.Names(), ", ") + `.`,
		Example: "  toolgate connect cursor\n  toolgate connect claude-code --scope project --http --key-env TOOLGATE_API_KEY\n  toolgate connect codex --print",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			client, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			return o.connect(client, file(args[1:]), want)
		},
		ValidArgsFunction: completeClients,
	}
	c.Flags().StringVar(&want.scope, "scope", "user", "whose `file`: user or project, which is the one in this folder")
	c.Flags().BoolVar(&want.remote, "http", false, "call the running gateway over HTTP instead of starting `toolgate stdio`")
	c.Flags().StringVar(&want.capsule, "capsule", "", "show the client one `capsule` only; needs --http")
	c.Flags().StringVar(&want.key, "key-env", "", "`variable` that holds the client's API key; needs --http")
	c.Flags().BoolVar(&want.only, "only", false, "take the client's other servers out of its file, because toolgate has them")
	c.Flags().BoolVar(&want.show, "print", false, "print the entry and write nothing")
	return c
}

func newDisconnect(o *options) *cobra.Command {
	var scope string
	var restore bool
	c := &cobra.Command{
		Use:   "disconnect CLIENT",
		Short: "Take toolgate out of a client's file",
		Long: `Take the entry that toolgate connect has written out of the file of a client. Where
nothing else in the file has changed since, it becomes byte for byte what it was;
--restore brings that back even if something has.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			return o.disconnect(client, scope, restore)
		},
		ValidArgsFunction: completeClients,
	}
	c.Flags().StringVar(&scope, "scope", "user", "whose `file`: user or project, which is the one in this folder")
	c.Flags().BoolVar(&restore, "restore", false, "restore the file as it was before `toolgate connect`, whatever has changed since")
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
	return nil, failure.Newf(failure.Usage, "the client %q is not known%s; known are %s", name, hint, strings.Join(clients.Names(), ", "))
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

// entry is what a client's file is to have for toolgate.
func (o *options) entry(client *clients.Client, arg string, want *connection) (edit.Map, error) {
	path, err := o.findFile(arg)
	if err != nil {
		return nil, err
	}
	if !want.remote {
		if want.capsule != "" || want.key != "" {
			return nil, failure.Newf(failure.Usage, "--capsule and --key-env need --http")
		}
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		args := []string{"stdio"}
		if path != "" {
			abs, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			args = append(args, abs)
		}
		return client.Stdio(program, args), nil
	}
	if client.Remote == nil {
		return nil, failure.Newf(failure.Usage, "%s has no servers over HTTP in its file; leave --http out", client.Title)
	}
	c, err := o.readConfigWith(path, nil)
	if err != nil {
		return nil, err
	}
	if c.Toolgate.Listen.HTTP == "" {
		return nil, failure.Newf(failure.Config, "%s listens nowhere; set toolgate.listen.http, or leave --http out", path)
	}
	url := strings.TrimRight(cmp.Or(c.Toolgate.Listen.PublicURL, httpURL(c)), "/") + "/mcp"
	if want.capsule != "" {
		if _, ok := c.Toolgate.Capsules[want.capsule]; !ok {
			return nil, failure.Newf(failure.Config, "%s has no capsule %q", path, want.capsule)
		}
		url += "/c/" + want.capsule
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

// httpURL is the address of the listener of a configuration.
func httpURL(c *config.Config) string {
	scheme := "http"
	if c.Toolgate.Listen.TLS.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + c.Toolgate.Listen.HTTP
}

func (o *options) connect(client *clients.Client, arg string, want connection) error {
	entry, err := o.entry(client, arg, &want)
	if err != nil {
		return err
	}
	path, err := clientHome(client, want.scope)
	if err != nil {
		return err
	}
	if want.show {
		say("%s:\n\n%s", path, shownEntry(client, path, entry))
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
		say("%s is connected already: %s\n", client.Title, path)
		return nil
	}
	kept, err := keepFormer(client, path, before, after, existed)
	if err != nil {
		return err
	}
	if err := replaceFile(path, after); err != nil {
		return err
	}
	if first := backupName(path, before); exists(first) { // it is kept beside what is there now
		if err := os.Remove(first); err != nil {
			return failure.New(failure.Config, err)
		}
	}
	say("%s is connected: %s\n", client.Title, path)
	if len(removed) > 0 {
		say("taken out of it: %s\n", strings.Join(removed, ", "))
	}
	if kept {
		say("as it was: %s\n", backupName(path, after))
	}
	note("%s", client.After)
	return nil
}

// keepFormer keeps a client's file as it was before it was first connected, beside
// what will be there, and tells whether it has. What is kept beside what is there now
// stays: the file may not be written after all.
func keepFormer(client *clients.Client, path string, before, after []byte, existed bool) (bool, error) {
	if !existed {
		return false, nil
	}
	if first := backupName(path, before); exists(first) { // it is connected now, in another way
		original, err := format.ReadFile(first)
		if err != nil {
			return false, failure.New(failure.Config, err)
		}
		return true, writeFile(backupName(path, after), original, 0o600)
	}
	if client.Whole {
		return false, nil // of toolgate alone
	}
	if without, err := edit.Delete(path, before, client.Section, clients.Entry); err != nil || !bytes.Equal(without, before) {
		return false, nil //nolint:nilerr // what cannot be taken out was there before, and how the file was then is not known
	}
	return true, writeFile(backupName(path, after), before, 0o600)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// made tells whether a client's file has nothing but what `connect` makes of no
// file, less the entry.
func made(client *clients.Client, path string, data []byte) bool {
	with, err := edit.Set(path, nil, client.Section, clients.Entry, edit.Map{{Key: "command", Value: "x"}})
	if err != nil {
		return false
	}
	without, err := edit.Delete(path, with, client.Section, clients.Entry)
	return err == nil && bytes.Equal(without, data)
}

// connected is a client's file with the entry in it; with only, it is the only one.
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

func (o *options) disconnect(client *clients.Client, scope string, restore bool) error {
	path, err := clientHome(client, scope)
	if err != nil {
		return err
	}
	now, err := format.ReadFile(path)
	if err != nil {
		return failure.Newf(failure.Config, "%s has no file to be disconnected from: %w", client.Title, err)
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
		say("%s is as it was before: %s\n", client.Title, path)
		return os.Remove(backup)
	}
	if client.Whole {
		say("%s is disconnected: %s is removed\n", client.Title, path)
		return os.Remove(path)
	}
	after, err := edit.Delete(path, now, client.Section, clients.Entry)
	if err != nil {
		return failure.Newf(failure.Config, "%s: %w; take %s out of it", path, err, clients.Entry)
	}
	if bytes.Equal(now, after) {
		say("%s was not connected: %s\n", client.Title, path)
		return nil
	}
	if made(client, path, after) {
		say("%s is disconnected: %s is removed\n", client.Title, path)
		return os.Remove(path)
	}
	if err := replaceFile(path, after); err != nil {
		return err
	}
	say("%s is disconnected: %s\n", client.Title, path)
	return nil
}

// clientHome is the file of a client in which an entry is written, with links
// followed: many keep such files elsewhere.
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

// followed is where the links at a path lead to, whether or not there is a file: one
// in the place of a link would take the link away.
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

// backupName is where a file is kept as it was before it was written as it is
// now, so that it is found only while nothing else has changed it.
func backupName(path string, written []byte) string {
	sum := sha256.Sum256(written)
	return path + ".before-toolgate-" + hex.EncodeToString(sum[:6])
}

func newestBackup(path string) (string, error) {
	found, err := filepath.Glob(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path) + ".before-toolgate-*")
	if err != nil || len(found) == 0 {
		return "", failure.Newf(failure.Config, "%s has not been kept as it was before", path)
	}
	newest, at := "", int64(0)
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && info.ModTime().UnixNano() > at {
			newest, at = f, info.ModTime().UnixNano()
		}
	}
	return newest, nil
}

// replaceFile writes a file wholly or not at all, where the links at its path lead
// to, with the mode that it has, or for its user alone.
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

// writeFile writes a file wholly or not at all, and in the place of a link.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".toolgate-*") // created with mode 0600
	if err != nil {
		return failure.Newf(failure.Config, "write %s: %w", path, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return failure.Newf(failure.Config, "write %s: %w", path, err)
	}
	return nil
}
