package cli

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	clientfiles "github.com/toolgate/toolgate/config/clients"
	"github.com/toolgate/toolgate/config/secret"
)

// moveSecrets replaces the credentials of a server by references, and returns the
// variables that hold them.
func (p *importPlan) moveSecrets(s *config.Server) []string {
	var names []string
	keep := func(wanted, value string) string {
		name := p.keep(s.Key, wanted, value)
		names = append(names, name)
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

// keep finds a variable for a credential: the wanted name, or one with the server's name
// if the wanted one has another value.
func (p *importPlan) keep(server, wanted, value string) string {
	name := clientfiles.VariableName(wanted)
	for n := 1; ; n++ {
		there, taken := p.kept[name]
		if !taken && os.Getenv(name) == "" || taken && there == value {
			if !taken {
				p.kept[name] = value
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
