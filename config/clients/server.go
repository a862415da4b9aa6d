package clients

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/upstream"
	"github.com/toolgate/toolgate/upstream/credential"
)

// Server is a server as its client's file has it, every variable expanded. What the
// entry does not say is the zero value.
type Server struct {
	Entry
	Transport upstream.Transport

	// Command and Args start a stdio server. They may hold expanded secrets:
	// show Written instead.
	Command string   `json:"-"`
	Args    []string `json:"-"`
	// Env is what the entry sets, its env file included; EnvInherit are the names of
	// variables handed on from our own environment where they are set.
	Env        map[string]secret.Text
	EnvInherit []string
	// Cwd is the absolute working folder.
	Cwd string

	// URL and Headers reach a remote server. URL may hold an expanded secret: show
	// Written instead.
	URL     string `json:"-"`
	Headers map[string]secret.Text

	// Secrets are those that were kept outside the file and stand in the fields above.
	Secrets []secret.Text `json:"-"`

	// Written is how the entry spells what is started or reached.
	Written Written

	// Disabled is that the client would not start it.
	Disabled bool
	// Include are the only tools to list: nil is all, empty is none. Exclude are
	// tools not to list.
	Include, Exclude []string
	// Timeouts are the deadlines that the entry names. Hard is set where its client
	// takes the deadline of a call for one that progress does not extend.
	Timeouts upstream.Timeouts
	// Auth is as which OAuth client to sign in, and for what.
	Auth credential.Auth

	// Refused are the reasons why the server cannot be started as written.
	Refused tree.Problems `json:"-"`
	// Warnings are what does not keep it from starting.
	Warnings []tree.Warning
	// Files are the absolute paths of the files that the entry names.
	Files []string
	// Origins says where values came from, by their names: url, env.TOKEN.
	Origins map[string]tree.Origin
}

// Format writes the server's key and transport whatever the verb, because its
// command line and address may hold expanded secrets.
func (s Server) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "server %s (%s)", s.Key, s.Transport)
}

// Written is a server's command line or address as the file spells it. Secrets
// that the file itself spells out are in it.
type Written struct {
	Command string
	Args    []string
	URL     string
}

// Reader turns entries of one file into servers. One goroutine may use it at a time.
type Reader struct {
	File *File
	// Dir is the folder that relative folders and env files are relative to, where
	// Vars has no workspace.
	Dir string
	// Vars are the variables of the file. It must not be nil.
	Vars *Variables
}

// reading is the state of one entry being read.
type reading struct {
	*Reader
	Entry
	s Server
}

// Read turns one entry into a server. What makes it impossible to start is in
// Refused, for a disabled server too. Nobody is asked for the inputs of a disabled one.
// It reads the env file that the entry names, and no other file.
func (r *Reader) Read(e Entry) Server {
	x := &reading{Reader: r, Entry: e}
	x.s = Server{Entry: e, Refused: tree.Problems{File: r.File.name}, Origins: map[string]tree.Origin{}}
	x.s.Disabled = r.File.switchedOff(e.Key)
	if !e.Node.IsMap() {
		x.refuse(e.Node, "", "write { command: ... } or { url: ... }", "expected a map, found %s", kindOf(e.Node))
		return x.s
	}
	if x.disabled() {
		x.s.Disabled = true
	}
	x.Vars.quiet = x.s.Disabled
	x.Vars.Secrets() // those of others
	x.transport()
	x.command()
	x.environment()
	x.address()
	x.headers()
	x.tools()
	x.unsupported()
	x.timeouts()
	x.misspelt()
	x.s.Secrets = x.Vars.Secrets()
	return x.s
}

func kindOf(n *tree.Node) tree.Kind {
	if n == nil {
		return tree.KindNull
	}
	return n.Kind
}

// refuse notes a reason why this server cannot be started.
func (x *reading) refuse(at *tree.Node, key, hint, form string, args ...any) {
	if at == nil {
		at = x.Node
	}
	x.s.Refused.At(at, tree.Join(x.Path, key), hint, form, args...)
}

// warn notes something that does not keep the server from starting.
func (x *reading) warn(at *tree.Node, key, text string) {
	x.s.Warnings = append(x.s.Warnings, tree.Warning{File: x.File.name, Line: at.Line, Key: tree.Join(x.Path, key), Text: text})
}

// origin notes where a value of the server came from.
func (x *reading) origin(key string, n *tree.Node) {
	x.s.Origins[key] = tree.OriginOf(x.File.name, n)
}

// first returns the first of several spellings of a key that is written.
func (x *reading) first(keys ...string) (string, *tree.Node) {
	for _, k := range keys {
		if n := x.Node.Get(k); !n.IsNull() {
			return k, n
		}
	}
	return "", nil
}

// text reads a string and expands it.
func (x *reading) text(key string, n *tree.Node) string {
	if n.Kind != tree.KindString {
		x.refuse(n, key, "put it in quotes", "expected text, found %s", n.Kind)
		return ""
	}
	return x.expand(key, n)
}

// scalar reads text, a number or a boolean as text, as clients do for
// arguments and variables, and expands it.
func (x *reading) scalar(key string, n *tree.Node) string {
	if n.Kind != tree.KindString && n.Kind != tree.KindNumber && n.Kind != tree.KindBool {
		x.refuse(n, key, "", "expected text, found %s", n.Kind)
		return ""
	}
	return x.expand(key, n)
}

func (x *reading) expand(key string, n *tree.Node) string {
	v, err := x.Vars.Expand(n.Value)
	switch {
	case errors.Is(err, errQuiet):
		return ""
	case err != nil:
		x.refuse(n, key, "", "%v", err)
		x.s.Refused.Because(err)
		return ""
	case strings.ContainsRune(v, 0):
		x.refuse(n, key, "", "a NUL character cannot be passed on")
		return ""
	}
	return v
}

// disabled reads both spellings; either can switch a server off.
func (x *reading) disabled() bool {
	off := false
	for key, want := range map[string]string{"disabled": "true", "enabled": "false"} {
		n := x.Node.Get(key)
		if n.IsNull() {
			continue
		}
		if n.Kind != tree.KindBool {
			x.refuse(n, key, "write true or false", "expected true or false, found %s", n.Describe())
			continue
		}
		if n.Value == want {
			off = true
		}
		x.origin("disabled", n)
	}
	return off
}

// tools reads the lists of tools that clients include or exclude. Goose writes
// an empty list where it means all.
func (x *reading) tools() {
	read := func(field string, keys ...string) []string {
		key, n := x.first(keys...)
		if n == nil {
			return nil
		}
		if !n.IsList() {
			x.refuse(n, key, "put it in [ ]", "expected a list, found %s", n.Kind)
			return nil
		}
		if len(n.Items) == 0 && key == "available_tools" {
			return nil
		}
		x.origin(field, n)
		names := make([]string, 0, len(n.Items))
		for _, item := range n.Items {
			if item.Kind != tree.KindString {
				x.refuse(item, key, "", "expected the name of a tool, found %s", item.Kind)
				continue
			}
			names = append(names, item.Value)
		}
		return names
	}
	x.s.Include = read("include", "enabled_tools", "includeTools", "available_tools")
	x.s.Exclude = read("exclude", "disabled_tools", "excludeTools", "disabledTools")
}

// unsupported refuses what cannot work without something only the client has.
func (x *reading) unsupported() {
	_, authorized := x.s.Headers["Authorization"]
	if n := x.Node.Get("headersHelper"); !n.IsNull() {
		x.refuse(n, "headersHelper", "write the header under headers, with ${NAME} for the secret", "toolgate does not run programs that make headers")
	}
	if n := x.Node.Get("authProviderType"); !n.IsNull() && n.Value != "dynamic_discovery" && !authorized {
		x.refuse(n, "authProviderType", "write an Authorization header under headers, or toolgate.servers.NAME.auth", "this way to log in is %s", decode.NotAvailable)
	}
	if authorized || x.s.Transport == upstream.Stdio {
		return
	}
	for _, key := range [...]string{"oauth", "auth"} {
		if n := x.Node.Get(key); n.IsMap() {
			x.signIn(key, n)
		}
	}
}
