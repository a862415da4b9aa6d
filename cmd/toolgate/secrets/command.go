package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/keyring"
)

// New returns the command `secret`.
func New() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets in the key ring, for ${keyring:NAME}",
		Long: `Keep secrets outside files. A configuration refers to them as ${keyring:NAME}, wherever
it may say ${NAME}. They are in the key ring of the system, or, where it has none, sealed in
a file of the state folder (docs/secrets.md). All configurations of a user share them.`,
	}
	set := &cobra.Command{
		Use:   "set NAME",
		Short: "Keep a secret, or replace it",
		Long: `Keep a secret under a name. It is asked for on a terminal, without showing it. Without a
terminal it is everything on stdin but the line break at its end. It is never an argument,
because other programs and the history of the shell would have it.`,
		Example: "  toolgate secret set GITHUB_TOKEN\n  gh auth token | toolgate secret set GITHUB_TOKEN",
		Args:    oneName,
		RunE:    func(c *cobra.Command, args []string) error { return set(c.Context(), c, args[0]) },
	}
	ls := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the names of the secrets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			names, err := names()
			for _, name := range names {
				fmt.Fprintln(c.OutOrStdout(), name)
			}
			if len(names) == 0 && err == nil {
				output.Note("no secrets are kept yet; `toolgate secret set NAME` keeps one") // not on stdout, which has names alone
			}
			return err
		},
	}
	rm := &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove"},
		Short: "Forget a secret",
		Args:  oneName,
		RunE:  func(c *cobra.Command, args []string) error { return remove(c.Context(), c.OutOrStdout(), args[0]) },
	}
	for _, sub := range []*cobra.Command{set, rm} {
		sub.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			known, _ := names() // completion has nobody to tell
			return known, cobra.ShellCompDirectiveNoFileComp
		}
	}
	c.AddCommand(set, ls, rm)
	return c
}

// oneName refuses a secret on the command line, and does not repeat it.
func oneName(c *cobra.Command, args []string) error {
	if len(args) == 1 && secret.Name(args[0]) {
		return nil
	}
	if c.Name() == "set" && (len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "=")) {
		return failure.Newf(failure.Usage, "takes a name alone, and asks for the value or reads it from stdin; the shell and other programs have seen what stood on the command line, so replace that secret where it comes from")
	}
	if len(args) != 1 {
		return failure.Newf(failure.Usage, "takes one name")
	}
	return failure.Newf(failure.Usage, `cannot take %.60q: a name begins with a letter, digit or "_", and has up to %d of these, "-" and "."`, args[0], secret.MaxName)
}

func set(ctx context.Context, c *cobra.Command, name string) error {
	store, err := Store()
	if err != nil {
		return err
	}
	value, err := read(ctx, c.InOrStdin(), c.ErrOrStderr(), name)
	if err != nil {
		return err
	}
	place, err := store.Set(ctx, name, value)
	if err != nil {
		return failure.Newf(failure.Config, "keep the secret %s: %w", name, err)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s is in %s; refer to it as ${keyring:%s}. Gateways that run read it with toolgate reload.\n", name, place, name)
	return nil
}

func names() ([]string, error) {
	store, err := Store()
	if err != nil {
		return nil, err
	}
	all, err := store.Names()
	return all, failure.New(failure.Config, err)
}

func remove(ctx context.Context, out io.Writer, name string) error {
	store, err := Store()
	if err != nil {
		return err
	}
	switch err := store.Remove(ctx, name); {
	case errors.Is(err, keyring.ErrNone):
		return failure.Newf(failure.Usage, "there is no secret %s; `toolgate secret ls` lists them", name)
	case err != nil:
		return failure.Newf(failure.Config, "forget the secret %s: %w", name, err)
	}
	fmt.Fprintf(out, "%s is forgotten. Gateways that run have it until they end or read their configuration again.\n", name)
	return nil
}

// read reads a secret: from a person, who does not see it, or else all of the input but the
// line break at its end.
func read(ctx context.Context, in io.Reader, ask io.Writer, name string) (string, error) {
	var value []byte
	var err error
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		value, err = hidden(ctx, f, ask, name)
	} else {
		value, err = io.ReadAll(io.LimitReader(in, keyring.MaxValue+3))
	}
	if err != nil {
		return "", failure.Newf(failure.Usage, "read the secret %s: %w", name, err)
	}
	text, cut := strings.CutSuffix(string(value), "\n")
	if cut {
		text = strings.TrimSuffix(text, "\r")
	}
	switch {
	case text == "":
		return "", failure.Newf(failure.Usage, "the secret %s is empty, so nothing was changed; `toolgate secret rm %s` forgets it", name, name)
	case len(text) > keyring.MaxValue:
		return "", failure.Newf(failure.Usage, "the secret %s has more than %d bytes", name, keyring.MaxValue)
	}
	return text, nil
}

// hideTime bounds the wait for a terminal that is to hide what is typed.
const hideTime = time.Second

// hidden asks a person. When the command is interrupted, the terminal shows again what is
// typed. It asks only once the terminal hides it: an answer that comes at once is not
// shown, and an interrupt cannot come before the terminal is changed.
func hidden(ctx context.Context, f *os.File, ask io.Writer, name string) ([]byte, error) {
	before, err := term.GetState(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	type typed struct {
		value []byte
		err   error
	}
	done := make(chan typed, 1)
	go func() { // ends with the line, or with the process
		value, err := term.ReadPassword(int(f.Fd()))
		done <- typed{value, err}
	}()
	for until := time.Now().Add(hideTime); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if now, err := term.GetState(int(f.Fd())); err != nil || !reflect.DeepEqual(now, before) {
			break
		}
	}
	fmt.Fprintf(ask, "%s: ", name)
	select {
	case t := <-done:
		fmt.Fprintln(ask)
		return t.value, t.err
	case <-ctx.Done():
		fmt.Fprintln(ask)
		return nil, errors.Join(errors.New("interrupted, so nothing was changed"), term.Restore(int(f.Fd()), before))
	}
}
