package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/daemon/signin"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy/auth"
	"github.com/toolgate/toolgate/upstream/oauth"
)

// loginPause is how often the command asks whether a login in a browser is finished.
const loginPause = 250 * time.Millisecond

// asFlags say whose credential a command is about.
func asFlags(c *cobra.Command, who *admin.Who) {
	c.Flags().StringVar(&who.Subject, "as", "", "whose credential: the `subject` of a caller")
	c.Flags().StringVar(&who.Tenant, "tenant", "", "`tenant` of that caller")
	c.Flags().StringVar(&who.Issuer, "issuer", "", "`issuer` of that caller, if it does not use an API key of the file")
}

// whom completes the caller that the flags describe.
func whom(who admin.Who) (admin.Who, error) {
	switch {
	case who.Subject == "" && who != (admin.Who{}):
		return who, failure.Newf(failure.Usage, "--tenant and --issuer describe the caller of --as; add --as")
	case who.Subject != "" && who.Issuer == "":
		who.Issuer = auth.KeyIssuer
	}
	return who, nil
}

// withLogins calls use with a running gateway, or with one started for this command.
func withLogins(o *command.Options, ctx context.Context, use func(ctx context.Context, l admin.Logins) error) error {
	return o.WithGateway(ctx, func(ctx context.Context, control *admin.Client, own *daemon.Daemon) error {
		var err error
		if own != nil {
			err = use(ctx, own.Control())
		} else {
			err = use(ctx, control)
		}
		if _, coded := errors.AsType[*failure.Error](err); err == nil || coded {
			return err
		}
		if control != nil {
			return command.ControlError(err)
		}
		return failure.New(failure.Auth, err)
	})
}

func newLogin(o *command.Options) *cobra.Command {
	var who admin.Who
	var noBrowser bool
	c := &cobra.Command{
		Use:   "login [SERVER]",
		Short: "Sign in to a server, or list who is signed in where",
		Long: `Sign in to a server. The command opens the browser at the server's authorization
server. On a machine without a browser, open the printed address elsewhere and paste
back the address that you are redirected to, even if the browser says that it cannot
be reached. If the server wants an API key, the command asks for it.

Without SERVER it lists who is signed in where, and who has to sign in.`,
		Example: "  toolgate login\n  toolgate login linear\n  toolgate login linear --as alice",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return logins(cmd.Context(), o)
			}
			as, err := whom(who)
			if err != nil {
				return err
			}
			return withLogins(o, cmd.Context(), func(ctx context.Context, l admin.Logins) error {
				begun, err := l.BeginLogin(ctx, args[0], as)
				if err != nil {
					return err
				}
				switch begun.Mode {
				case "key":
					err = enterKey(ctx, l, args[0], as, cmd.InOrStdin())
				case "oauth":
					err = signIn(o, ctx, l, args[0], as, begun, cmd.InOrStdin(), !noBrowser)
				default:
					return failure.Newf(failure.Usage, "%s needs no login: the gateway gets its own tokens (auth.mode: %s)", args[0], begun.Mode)
				}
				if err == nil {
					output.Say("signed in to %s\n", args[0])
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address; do not open the browser")
	asFlags(c, &who)
	o.OutputFlag(c)
	return c
}

// enterKey asks for a key without echoing it.
func enterKey(ctx context.Context, l admin.Logins, server string, as admin.Who, in io.Reader) error {
	var key []byte
	var err error
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		output.Ask("API key for " + server)
		var text string
		text, err = screen.ReadLine(f, true)
		key = []byte(text)
	} else {
		key, err = bufio.NewReader(io.LimitReader(in, 64<<10)).ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	return l.EnterKey(ctx, server, as, string(key))
}

// signIn opens the browser and waits until the login is finished, by a redirect to the
// gateway or by a pasted address.
func signIn(o *command.Options, ctx context.Context, l admin.Logins, server string, as admin.Who, begun admin.Begun, in io.Reader, browser bool) error {
	began := time.Now()
	output.Say("open  %s\n", begun.URL)
	if browser {
		openBrowser(ctx, begun.URL)
	}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		output.Note("waiting for the browser; if it is on another machine, paste the address that it is redirected to")
	}
	pasted := make(chan string, 1)
	go func() { // ends with the input, or with the process
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" {
				pasted <- text
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, signin.ReturnTime)
	defer cancel()
	tick := time.NewTicker(loginPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return failure.Newf(failure.Auth, "nobody signed in to %s in time", server)
		case address := <-pasted:
			return l.FinishLogin(ctx, address)
		case <-tick.C:
		}
		list, err := l.Logins(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(e admin.Login) bool {
			whose := as == (admin.Who{}) || e.Who == as.Subject && e.Issuer == as.Issuer
			return e.Server == server && whose && e.State == "signed_in" && e.Since != nil && e.Since.After(began)
		}) {
			return nil
		}
	}
}

// openBrowser opens an http or https address. It checks the scheme again before it hands
// the address to a program. A failure is no error, because the address is printed too.
func openBrowser(ctx context.Context, address string) {
	if oauth.CheckBrowserURL(address) != nil {
		return
	}
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // ends with the program that was opened
	}
}

func newLogout(o *command.Options) *cobra.Command {
	var who admin.Who
	c := &cobra.Command{
		Use: "logout SERVER", Short: "Delete a login, and have its tokens revoked", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := whom(who)
			if err != nil {
				return err
			}
			return withLogins(o, cmd.Context(), func(ctx context.Context, l admin.Logins) error {
				had, err := l.Logout(ctx, args[0], as)
				if err == nil && !had {
					return failure.Newf(failure.Auth, "nobody was signed in to %s", args[0])
				}
				if err == nil {
					output.Say("signed out of %s\n", args[0])
				}
				return err
			})
		},
	}
	asFlags(c, &who)
	return c
}

// newLogins is how `toolgate login` without a server can be typed, too.
func newLogins(o *command.Options) *cobra.Command {
	c := &cobra.Command{
		Use: "logins", Short: "List who is signed in where; see toolgate login", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return logins(cmd.Context(), o) },
	}
	o.OutputFlag(c)
	return c
}

// logins lists who is signed in where, and who has to sign in.
func logins(ctx context.Context, o *command.Options) error {
	return withLogins(o, ctx, func(ctx context.Context, l admin.Logins) error {
		list, err := l.Logins(ctx)
		if err != nil {
			return err
		}
		t := output.Table{Header: []string{"SERVER", "WHO", "STATE", "SINCE", "WHY", "TENANT", "ISSUER", "AT"}, Wide: 3, Data: list, Empty: "no server needs a login"}
		for _, e := range list {
			since := ""
			if e.Since != nil {
				since = e.Since.Local().Format(time.DateTime)
			}
			t.Rows = append(t.Rows, []string{e.Server, e.Who, e.State, since, e.Why, e.Tenant, e.Issuer, e.At})
			t.Names = append(t.Names, e.Server)
		}
		return o.Print(os.Stdout, t)
	})
}
