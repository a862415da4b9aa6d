package clients

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/tree"
)

// Variables replaces the variables of one file. It remembers the answers to
// inputs, so that each is asked for once.
//
// The zero value knows no variable and refuses each. One goroutine may use it at a time.
type Variables struct {
	// Client decides which spellings are variables beside ${NAME}.
	Client Client
	// Lookup looks up variables of the environment. Nil: none is set.
	Lookup func(name string) (value string, ok bool)
	// Ask asks a person for an input. It is called at most once per id. Nil: there is
	// nobody to ask.
	Ask func(id, description string, password bool) (string, error)
	// Secret looks up a secret that is kept outside the configuration. [secret.ErrNone] is
	// that there is none. Nil: there is none.
	Secret func(name string) (string, error)
	// Inputs are the definitions of inputs, by id.
	Inputs map[string]*tree.Node
	// Home is ${userHome} and "~", Workspace is ${workspaceFolder}. Empty: not known.
	Home, Workspace string
	// Raw writes variables as ${NAME} instead of replacing them.
	Raw bool

	answers map[string]answer
	secrets []secret.Text // those that were put in since [Variables.Secrets]
	// quiet is set for servers that will not run, for whose sake nobody is
	// asked anything.
	quiet bool
	// foreign refuses variables: the text is not of an operator's file.
	foreign bool
}

// errForeign refuses a variable in a text that is of no file of an operator.
var errForeign = errors.New("variables are of files of this machine alone, and this document is none; write the value, or put the tool into a file")

// ErrUnset is that a variable of the environment or a secret is used and not set.
var ErrUnset = errors.New("a variable is not set")

// known is an error that shows what happened, and is one that [errors.Is] finds.
type known struct {
	text string
	is   error
}

func (e *known) Error() string { return e.text }
func (e *known) Unwrap() error { return e.is }

type answer struct {
	text string
	err  error
}

// errQuiet is the answer to an input nobody was asked for.
var errQuiet = errors.New("not asked for")

// Expand replaces, in one pass and never again in what it put in:
//
//	${VAR}  ${VAR:-default}  ${env:VAR}  ${keyring:NAME}  ${input:id}
//	${workspaceFolder}  ${workspaceFolderBasename}  ${userHome}  ${pathSeparator}
//	${{ secrets.VAR }}  in any file, from the environment
//	$VAR                in Gemini's files
//	{env:VAR}           in OpenCode's files
//
// Everything that begins like a variable and cannot be replaced is an error;
// nothing of that kind is ever passed on as text. A "$" before anything else
// stands for itself.
func (x *Variables) Expand(text string) (string, error) {
	if !strings.ContainsAny(text, "${") {
		return text, nil
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		rest := text[i:]
		var body string
		var resolve func(string) (string, error)
		var n int
		switch {
		case strings.HasPrefix(rest, "${{"):
			end := strings.Index(rest, "}}")
			if end < 0 {
				return "", fmt.Errorf("a variable begins with ${{ and has no }}")
			}
			body, resolve, n = rest[3:end], x.template, end+2
		case strings.HasPrefix(rest, "${"):
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				return "", fmt.Errorf("a variable begins with ${ and has no }")
			}
			body, resolve, n = rest[2:end], x.variable, end+1
		case x.Client == ClientGemini && rest[0] == '$':
			n = 1
			for n < len(rest) && nameByte(rest[n], n == 1) {
				n++
			}
			body, resolve = rest[1:n], x.env
			if n == 1 {
				resolve = nil
			}
		case x.Client == ClientOpenCode && strings.HasPrefix(rest, "{env:"):
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				return "", fmt.Errorf("a variable begins with {env: and has no }")
			}
			body, resolve, n = rest[len("{env:"):end], x.env, end+1
		case x.Client == ClientOpenCode && strings.HasPrefix(rest, "{file:"):
			return "", errors.New("{file:...} is not supported; put the value into a variable and write {env:NAME}")
		default:
			n = 1
		}
		switch {
		case resolve == nil:
			out.WriteString(rest[:n])
		case x.foreign:
			return "", errForeign
		default:
			v, err := resolve(body)
			if err != nil {
				return "", err
			}
			out.WriteString(v)
		}
		i += n
	}
	return out.String(), nil
}

// RefuseVariables returns a text that has no variable as it is, and an error for any other.
// It is for documents that are no file of an operator.
func RefuseVariables(text string) (string, error) { return (&Variables{foreign: true}).Expand(text) }

func nameByte(c byte, first bool) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || !first && c >= '0' && c <= '9'
}

// template resolves the body of ${{ ... }}.
func (x *Variables) template(body string) (string, error) {
	if name, ok := strings.CutPrefix(strings.TrimSpace(body), "secrets."); ok {
		return x.env(name)
	}
	return "", fmt.Errorf("${{%.60s}} is not a variable known here; write ${{ secrets.NAME }} or ${NAME}", body)
}

// variable resolves the body of ${...}.
func (x *Variables) variable(body string) (string, error) {
	switch body {
	case "workspaceFolder", "workspaceFolderBasename":
		if x.Workspace == "" {
			return "", fmt.Errorf("${%s} is not known for this file; write the folder itself", body)
		}
		if body == "workspaceFolder" {
			return x.Workspace, nil
		}
		return filepath.Base(x.Workspace), nil
	case "userHome":
		if x.Home == "" {
			return "", errors.New("${userHome} is not known; set HOME")
		}
		return x.Home, nil
	case "pathSeparator", "/":
		return string(filepath.Separator), nil
	}
	if id, ok := strings.CutPrefix(body, "input:"); ok {
		return x.input(id)
	}
	if name, ok := strings.CutPrefix(body, "keyring:"); ok {
		return x.secret(name)
	}
	name, def, hasDefault := strings.Cut(strings.TrimPrefix(body, "env:"), ":-")
	if strings.Contains(def, "${") {
		return "", fmt.Errorf("the default of ${%s:-...} holds another variable; write a plain default", name)
	}
	if hasDefault && decode.EnvName(name) && x.Raw {
		return "${" + name + ":-" + def + "}", nil
	}
	if hasDefault && decode.EnvName(name) {
		if v, ok := x.lookupEnv(name); ok && v != "" {
			return v, nil
		}
		return def, nil
	}
	if !decode.EnvName(name) {
		return "", fmt.Errorf("${%.60s} is not a variable known here; write ${NAME}, ${NAME:-default} or the value itself", body)
	}
	return x.env(name)
}

// env is the value of a variable that must be set.
func (x *Variables) env(name string) (string, error) {
	if !decode.EnvName(name) {
		return "", fmt.Errorf("%.60q is not a name of an environment variable", name)
	}
	if x.Raw {
		return "${" + name + "}", nil
	}
	if v, ok := x.lookupEnv(name); ok {
		return v, nil
	}
	return "", &known{fmt.Sprintf("the environment variable %s is not set; set it before starting toolgate", name), ErrUnset}
}

func (x *Variables) lookupEnv(name string) (string, bool) {
	if x.Lookup == nil {
		return "", false
	}
	return x.Lookup(name)
}

// secret is the secret of a name.
func (x *Variables) secret(name string) (string, error) {
	switch {
	case !secret.Name(name):
		return "", fmt.Errorf("%.60q is no name of a secret; write ${keyring:NAME}, where NAME has letters, digits, \"_\", \"-\" and \".\"", name)
	case x.Raw:
		return "${keyring:" + name + "}", nil
	case x.quiet:
		return "", errQuiet
	}
	err := secret.ErrNone
	if x.Secret != nil {
		var v string
		if v, err = x.Secret(name); err == nil {
			x.secrets = append(x.secrets, secret.Text(v))
			return v, nil
		}
	}
	if errors.Is(err, secret.ErrNone) {
		return "", &known{fmt.Sprintf("the secret %s is not set; run `toolgate secret set %s`", name, name), ErrUnset}
	}
	return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
}

// Secrets returns the secrets that were put into texts since it was last called.
func (x *Variables) Secrets() []secret.Text {
	out := x.secrets
	x.secrets = nil
	return out
}

// input is the answer of the person to an input of the file.
func (x *Variables) input(id string) (string, error) {
	if x.Raw {
		return "${" + VariableName(id) + "}", nil
	}
	if a, ok := x.answers[id]; ok {
		return a.text, a.err
	}
	if x.quiet {
		return "", errQuiet
	}
	a := answer{}
	def := x.Inputs[id]
	switch {
	case def == nil:
		a.err = fmt.Errorf("the input %q is not defined under inputs", id)
	case def.Get("type") != nil && def.Get("type").Value == "command":
		a.err = fmt.Errorf("the input %q comes from an editor command, which exists only there; write ${env:NAME} instead", id)
	case x.Ask == nil:
		a.err = fmt.Errorf("the input %q must be typed in and there is nobody to ask; start toolgate on a terminal or write ${env:NAME} instead", id)
	default:
		password := def.Get("password") != nil && def.Get("password").Value == "true"
		a.text, a.err = x.Ask(id, inputDescription(def), password)
		if a.err != nil {
			a.err = fmt.Errorf("asking for the input %q: %w", id, a.err)
		}
	}
	if x.answers == nil {
		x.answers = map[string]answer{}
	}
	x.answers[id] = a
	return a.text, a.err
}

// VariableName makes the name of a variable of the environment out of another
// name: github-token becomes GITHUB_TOKEN.
func VariableName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(name) {
		if r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9' || b.Len() == 0) {
			r = '_'
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// inputDescription is what to ask, with the choices of a pick list.
func inputDescription(def *tree.Node) string {
	text := ""
	if d := def.Get("description"); d != nil {
		text = d.Value
	}
	options := def.Get("options")
	if !options.IsList() {
		return text
	}
	var names []string
	for _, o := range options.Items {
		if v := o.Get("value"); v != nil {
			o = v
		}
		names = append(names, o.Value)
	}
	return strings.TrimSpace(text + " (" + strings.Join(names, ", ") + ")")
}
