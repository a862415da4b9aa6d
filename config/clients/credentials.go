package clients

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/envfile"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// environment reads the variables of a stdio server: an env file, over it the
// entry's own, and the names clients have for "hand this one on".
func (x *reading) environment() {
	if x.s.Transport != upstream.Stdio {
		return
	}
	x.s.Env = map[string]secret.Text{}
	if n := x.Node.Get("envFile"); !n.IsNull() {
		x.envFile(n)
	}
	key, env := x.first("env", "envs", "environment")
	if cmd := x.Node.Get("command"); env == nil && cmd.IsMap() {
		key, env = "command.env", cmd.Get("env")
	}
	switch {
	case env.IsNull():
	case !env.IsMap():
		x.refuse(env, key, "write { NAME: value }", "expected a map, found %s", env.Kind)
	default:
		for _, f := range env.Fields {
			if f.Key == "" || strings.ContainsAny(f.Key, "=\x00") {
				x.refuse(f.Value, key, "", "%.40q is not a name of an environment variable", f.Key)
				continue
			}
			if f.Value.IsNull() {
				continue
			}
			x.s.Env[f.Key] = secret.Text(x.scalar(key+"."+f.Key, f.Value))
			x.origin("env."+f.Key, f.Value)
		}
	}
	x.inherited()
	if len(x.s.Env) == 0 {
		x.s.Env = nil
	}
}

func (x *reading) envFile(n *tree.Node) {
	x.origin("envFile", n)
	path := x.text("envFile", n)
	if path == "" {
		return
	}
	path = x.absolute(path)
	x.s.Files = append(x.s.Files, path)
	vars, err := envfile.Read(path)
	if err != nil {
		x.refuse(n, "envFile", "", "the env file cannot be used: %v", err)
		return
	}
	for name, value := range vars {
		if strings.ContainsRune(value, 0) {
			x.refuse(n, "envFile", "", "the env file holds a NUL character in %s", name)
			continue
		}
		x.s.Env[name] = secret.Text(value)
		x.origin("env."+name, n)
	}
}

// inherited reads Codex's env_vars, which are handed on where they are set, and
// Goose's env_keys, secrets of its keyring that must be in our environment here.
func (x *reading) inherited() {
	if n := x.Node.Get("env_vars"); n.IsList() {
		for _, item := range n.Items {
			name := item
			if item.IsMap() {
				name = item.Get("name")
			}
			if name == nil || !decode.EnvName(name.Value) {
				x.refuse(item, "env_vars", "", "expected a name of an environment variable")
				continue
			}
			x.s.EnvInherit = append(x.s.EnvInherit, name.Value)
		}
		x.origin("env_inherit", n)
	}
	if n := x.Node.Get("env_keys"); n.IsList() {
		for _, item := range n.Items {
			if _, have := x.s.Env[item.Value]; have {
				continue
			}
			v, err := x.Vars.env(item.Value)
			if err != nil {
				x.refuse(item, "env_keys", "Goose keeps it in its keyring, where toolgate does not look", "%v", err)
				continue
			}
			x.s.Env[item.Value] = secret.Text(v)
			x.origin("env."+item.Value, item)
		}
	}
}

// headers reads the headers of a remote server, in all the places clients put
// them.
func (x *reading) headers() {
	if x.s.Transport == upstream.Stdio || x.s.Transport == "" {
		return
	}
	x.s.Headers = map[string]secret.Text{}
	key, n := x.first("headers", "http_headers")
	if n == nil {
		if n = x.Node.Get("requestOptions").Get("headers"); n != nil {
			key = "requestOptions.headers"
		}
	}
	switch {
	case n.IsNull():
	case !n.IsMap():
		x.refuse(n, key, "write { Name: value }", "expected a map, found %s", n.Kind)
	default:
		for _, f := range n.Fields {
			x.header(key+"."+f.Key, f.Key, f.Value, x.scalar(key+"."+f.Key, f.Value))
		}
	}
	if n := x.Node.Get("env_http_headers"); n.IsMap() {
		for _, f := range n.Fields {
			x.headerFromEnv("env_http_headers."+f.Key, f.Key, f.Value, "{token}")
		}
	}
	if n := x.Node.Get("bearer_token_env_var"); !n.IsNull() {
		x.headerFromEnv("bearer_token_env_var", "Authorization", n, "Bearer {token}")
	}
	if n := x.Node.Get("api_key_env"); !n.IsNull() && n.Value != "" {
		name, form := "Authorization", "Bearer {token}"
		if h := x.Node.Get("api_key_header"); !h.IsNull() {
			name = h.Value
		}
		if f := x.Node.Get("api_key_format"); !f.IsNull() {
			form = f.Value
		}
		x.headerFromEnv("api_key_env", name, n, form)
	}
	if len(x.s.Headers) == 0 {
		x.s.Headers = nil
	}
}

// headerFromEnv sets a header from a variable; {token} in the format is its
// value.
func (x *reading) headerFromEnv(key, name string, n *tree.Node, form string) {
	v, err := x.Vars.env(n.Value)
	if err != nil {
		x.refuse(n, key, "", "%v", err)
		return
	}
	x.header(key, name, n, strings.ReplaceAll(form, "{token}", v))
}

// hopHeaders are headers that the connection itself sets.
var hopHeaders = []string{"Connection", "Content-Length", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// header sets one header after checking that it is one: a value with a line
// break would smuggle in another.
func (x *reading) header(key, name string, n *tree.Node, value string) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !decode.HeaderName(name):
		x.refuse(n, key, "", "%.40q is not a name of a header", name)
	case slices.Contains(hopHeaders, canonical):
		x.refuse(n, key, "remove it", "the header %s is set by the connection itself", canonical)
	case strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }):
		x.refuse(n, key, "", "the value of the header has a line break or another control character")
	default:
		x.s.Headers[canonical] = secret.Text(value)
		x.origin("headers."+canonical, n)
	}
}

// signIn reads what clients write about signing in with OAuth: as which client, and
// for what.
func (x *reading) signIn(key string, n *tree.Node) {
	if e := n.Get("enabled"); e != nil && e.Value == "false" {
		return
	}
	own := &x.s.Auth
	own.Mode = credential.OAuth
	x.origin("auth", n)
	for _, f := range n.Fields {
		switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(f.Key)) {
		case "clientid":
			own.Client.ID = x.scalar(key+"."+f.Key, f.Value)
		case "clientsecret":
			own.Client.Secret = secret.Text(x.scalar(key+"."+f.Key, f.Value))
		case "scope", "scopes":
			if f.Value.IsList() {
				for _, item := range f.Value.Items {
					own.Scopes = append(own.Scopes, x.scalar(key+"."+f.Key, item))
				}
			} else if f.Value.Kind == tree.KindString {
				own.Scopes = strings.Fields(x.scalar(key+"."+f.Key, f.Value))
			}
		}
	}
}
