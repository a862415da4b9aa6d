package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/cmd/toolgate/secrets"
	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/keyring"
	"github.com/toolgate/toolgate/upstream"
)

// moveSecrets replaces the credentials of a server by references, and returns the names of
// the variables or secrets that hold them.
func (p *importPlan) moveSecrets(s *config.Server) []string {
	var names []string
	keep := func(wanted, value string) string {
		name := p.keep(s.Key, wanted, value)
		names = append(names, name)
		if p.secrets {
			return "${keyring:" + name + "}"
		}
		return "${" + name + "}"
	}
	own := func(name, value string) string { return keep(s.Key+"_"+name, value) }
	for _, name := range slices.Sorted(keysOf(s.Env)) {
		if value := s.Env[name].Reveal(); secretValue(name, value) {
			s.Env[name] = secret.Text(keep(name, value))
		}
	}
	for _, name := range slices.Sorted(keysOf(s.Headers)) {
		if value := s.Headers[name].Reveal(); secretValue(name, value) {
			s.Headers[name] = secret.Text(keepHeader(name, value, own))
		}
	}
	flag := ""
	for i, arg := range s.Args {
		s.Args[i] = moveFromArgument(flag, arg, own)
		if flag = ""; strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
			flag = strings.TrimLeft(arg, "-")
		}
	}
	s.URL = moveFromURL(s.URL, own)
	return names
}

// moveFromArgument replaces the credential in an argument, which may be the value of the
// flag before it.
func moveFromArgument(flag, arg string, keep func(name, value string) string) string {
	if before, value, joined := strings.Cut(arg, "="); joined {
		name := strings.TrimLeft(before, "-")
		if header, ok := moveFromHeader(name, value, keep); ok {
			return before + "=" + header
		}
		if secretValue(name, value) {
			return before + "=" + keep(name, value)
		}
	}
	if header, ok := moveFromHeader(flag, arg, keep); ok {
		return header
	}
	if moved := moveFromURL(arg, keep); moved != arg {
		return moved
	}
	if flag != "" && !strings.HasPrefix(arg, "-") && secretValue(flag, arg) {
		return keep(flag, arg)
	}
	if secretValue("", arg) {
		return keep("SECRET", arg)
	}
	return arg
}

// moveFromHeader replaces the credential in a header that is the value of a flag, as in
// --header "Authorization: Bearer TOKEN".
func moveFromHeader(flag, arg string, keep func(name, value string) string) (string, bool) {
	if flag != "H" && !strings.EqualFold(flag, "header") {
		return "", false
	}
	name, rest, ok := strings.Cut(arg, ":")
	value := strings.TrimLeft(rest, " ")
	if !ok || !secretValue(name, value) {
		return "", false
	}
	return name + ":" + rest[:len(rest)-len(value)] + keepHeader(name, value, keep), true
}

// keepHeader moves the value of a header, and keeps the scheme before it.
func keepHeader(name, value string, keep func(name, value string) string) string {
	scheme, token, ok := strings.Cut(value, " ")
	if !ok {
		scheme, token = "", value
	} else {
		scheme += " "
	}
	if strings.EqualFold(name, "Authorization") {
		name = "TOKEN"
	}
	return scheme + keep(name, token)
}

// moveFromURL replaces the credentials in a URL: the password before the host, anything
// that looks like a token in the path, and credentials in the query. It leaves anything
// that is not a URL unchanged.
func moveFromURL(text string, keep func(name, value string) string) string {
	base, query, asks := strings.Cut(text, "?")
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok || strings.ContainsAny(scheme, " /") {
		return text
	}
	parts := strings.Split(rest, "/")
	if at := strings.LastIndexByte(parts[0], '@'); at >= 0 {
		user, password, _ := strings.Cut(parts[0][:at], ":")
		switch {
		case password != "" && !placeholder.MatchString(password):
			parts[0] = user + ":" + keep("PASSWORD", password) + parts[0][at:]
		case password == "" && secretValue("", user):
			parts[0] = keep("SECRET", user) + parts[0][at:]
		}
	}
	for i, part := range parts[1:] {
		if secretValue("", part) {
			parts[i+1] = keep("SECRET", part)
		}
	}
	base = scheme + "://" + strings.Join(parts, "/")
	if !asks {
		return base
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil && secretValue(name, plain) {
			pairs[i] = name + "=" + keep(name, value)
		}
	}
	return base + "?" + strings.Join(pairs, "&")
}

// program is what a server runs or reaches, as a text that is equal for equal ones. It is
// taken before credentials are moved, and has the values of those that were. A deadline,
// whether a client starts it, and how a URL is to be reached are no part of it.
func (p *importPlan) program(s *config.Server) string {
	own := *s
	own.Timeouts.Call, own.Disabled = upstream.DefaultCall, false
	if s.Transport != upstream.Stdio {
		own.Transport = upstream.Auto
	}
	own.Command, own.Cwd, own.URL = p.replaced(s.Command), p.replaced(s.Cwd), p.replaced(s.URL)
	own.Args = make([]string, len(s.Args))
	for i, arg := range s.Args {
		own.Args[i] = p.replaced(arg)
	}
	own.Env, own.Headers = p.replacedAll(s.Env), p.replacedAll(s.Headers)
	return entryText(importEntry(&own))
}

// replaced puts the known values of variables and secrets into a text.
func (p *importPlan) replaced(text string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		parts := reference.FindStringSubmatch(ref)
		value, ok := p.kept[parts[2]]
		if parts[1] != "" {
			value, ok = p.ring.value(parts[2])
		}
		if !ok {
			return ref
		}
		return value
	})
}

func (p *importPlan) replacedAll(texts map[string]secret.Text) map[string]secret.Text {
	out := make(map[string]secret.Text, len(texts))
	for name, text := range texts {
		out[name] = secret.Text(p.replaced(text.Reveal()))
	}
	return out
}

// reference matches a variable or a secret that is kept outside the configuration.
var reference = regexp.MustCompile(`\$\{(keyring:)?([A-Za-z0-9_.-]+)\}`)

// keep finds a variable or a secret for a credential: the wanted name, or one with the
// server's name if the wanted one has another value.
func (p *importPlan) keep(server, wanted, value string) string {
	take := p.takeVariable
	if p.secrets {
		take = p.ring.take
	}
	name := clientfiles.VariableName(wanted)
	for n := 1; ; n++ {
		if ok, isNew := take(name, value); ok {
			if isNew {
				p.added = append(p.added, name)
			}
			return name
		}
		name = clientfiles.VariableName(server + "_" + wanted)
		if n > 1 {
			name += fmt.Sprint("_", n)
		}
	}
}

// takeVariable tells whether a variable can hold a value, and whether it is new.
func (p *importPlan) takeVariable(name, value string) (ok, isNew bool) {
	there, taken := p.kept[name]
	if taken || os.Getenv(name) != "" {
		return taken && there == value, false
	}
	p.kept[name] = value
	return true, true
}

// values are the variables and secrets that there will be.
func (p *importPlan) values() map[string]string {
	out := maps.Clone(p.kept)
	maps.Copy(out, p.ring.planned)
	return out
}

// keptSecrets are what the key ring has, and what it will have.
type keptSecrets struct {
	planned map[string]string
	lookup  func(name string) (string, error)
	place   keyring.Place // where the planned ones were put
	err     error         // why it cannot be read
}

func newKeptSecrets() *keptSecrets {
	lookup, _ := secrets.Reading()
	return &keptSecrets{planned: map[string]string{}, lookup: lookup}
}

// value returns a secret that is there, or will be.
func (k *keptSecrets) value(name string) (string, bool) {
	if v, ok := k.planned[name]; ok {
		return v, true
	}
	v, err := k.lookup(name)
	return v, err == nil
}

// take tells whether a name can hold a value, and whether it is new. Where that cannot be
// found out, the plan has an error and is not carried out.
func (k *keptSecrets) take(name, value string) (ok, isNew bool) {
	there, err := k.lookup(name)
	if planned, ok := k.planned[name]; ok {
		there, err = planned, nil
	}
	switch {
	case err == nil:
		return there == value, false
	case !errors.Is(err, secret.ErrNone):
		k.err = err
	}
	k.planned[name] = value
	return true, true
}

// set puts the planned secrets of these names into the key ring.
func (k *keptSecrets) set(ctx context.Context, names []string) error {
	store, err := secrets.Store()
	if err != nil {
		return err
	}
	for _, name := range names {
		if k.place, err = store.Set(ctx, name, k.planned[name]); err != nil {
			return failure.Newf(failure.Config, "keep the secret %s: %w; without --secrets it goes into the .env file", name, err)
		}
	}
	return nil
}

// wantsKeyring asks on a terminal whether credentials go into the key ring. Where nobody
// can be asked, they do not.
func wantsKeyring(c *cobra.Command, p *importPlan, path string) (bool, error) {
	in, ok := c.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return false, nil
	}
	output.Ask(fmt.Sprintf("%s (%s): keep in the key ring instead of %s? [Y/n]",
		screen.Count(len(p.added), "credential"), strings.Join(p.added, ", "), command.VariablesFile(path)))
	line, err := screen.ReadLine(in, false)
	if err != nil {
		return false, failure.Newf(failure.Usage, "nobody answered, so nothing was written; --secrets or --secrets=false answers beforehand")
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "", "y", "yes":
		return true, nil
	}
	return false, nil
}
