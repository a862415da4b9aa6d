package build

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/registry"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/declared"
)

// DeclaredTools returns the tools of a configuration by namespace. Their commands have
// no access to the protected files. The error joins all problems with them.
func DeclaredTools(c *config.Config, off *KeptOff) (map[string][]declared.Tool, error) {
	out := make(map[string][]declared.Tool)
	checker := schema.New(schema.Options{})
	var wrong []error
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		made, err := declaredTool(c, t, off)
		err = errors.Join(err, declaredSchemas(checker, t))
		if t.Of != "" && err == nil {
			made.Within, made.Fits = t.Within, fitsTemplate(checker, t)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the tool %s: %w", t.Name, err))
			continue
		}
		out[t.Namespace] = append(out[t.Namespace], made)
	}
	return out, errors.Join(wrong...)
}

// fitsTemplate holds arguments against the schema of the template that a tool was made of.
func fitsTemplate(checker *schema.Checker, t *declared.Settings) func(args []byte) string {
	return func(args []byte) string {
		s, err := checker.Compile(t.Within)
		if err != nil {
			return "The schema of the template cannot be used: " + err.Error() + "."
		}
		if result := s.Check(schema.ReadArguments(args)); !result.Valid {
			return result.Text()
		}
		return ""
	}
}

// CheckSchema says what is wrong with a schema that somebody wrote for a tool: what cannot
// be checked completely is an error.
func CheckSchema(raw []byte) error {
	return checkSchema(schema.New(schema.Options{}), raw)
}

// declaredSchemas refuses schemas that cannot be checked in full: an operator who
// writes a schema relies on all of it.
func declaredSchemas(checker *schema.Checker, t *declared.Settings) error {
	var wrong []error
	for name, raw := range map[string][]byte{"input_schema": t.InputSchema, "output_schema": t.OutputSchema} {
		if len(raw) == 0 {
			continue
		}
		if err := checkSchema(checker, raw); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(wrong...)
}

func checkSchema(checker *schema.Checker, raw []byte) error {
	s, err := checker.Compile(raw)
	if err != nil {
		return err
	}
	if left := s.Partial(); len(left) > 0 {
		return fmt.Errorf("this cannot be checked, write it in another way: %s", strings.Join(left, "; "))
	}
	return nil
}

func declaredTool(c *config.Config, t *declared.Settings, off *KeptOff) (declared.Tool, error) {
	readOnly, destructive := governance.ClassWord(t.Class)
	out := declared.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, Input: t.InputSchema, Output: t.OutputSchema, Template: t.Template,
		Version: t.Version, VersionKey: registry.VersionKey,
		ReadOnly: readOnly, Destructive: destructive, Timeout: t.Timeout, MaxBytes: int64(t.MaxBytes),
		OpenWorld: new(t.Type == "http" || t.Network == "full"),
	}
	if t.Idempotent {
		out.Idempotent = new(true)
	}
	if t.Type == "steps" {
		out.Steps, out.RunAs, out.OpenWorld = t.Declaration(), t.RunAs, nil // what its steps are
		if onlyReads(c, t) {
			out.ReadOnly = new(true)
		}
		return out, nil
	}
	out.Answer = t.Path()
	if t.Type == "http" {
		out.HTTP = &declared.HTTP{
			Method: t.Method, URL: t.URL, Headers: secret.Reveal(t.Headers), Query: secret.Reveal(t.Query), HeaderTemplates: t.HeaderTemplates,
			Body: t.Body, Redirects: t.Redirects,
		}
		for _, text := range t.AllowAddresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return out, fmt.Errorf("allow_addresses: %w", err)
			}
			out.HTTP.Allow = append(out.HTTP.Allow, prefix)
		}
		return out, nil
	}
	var err error
	out.Command, err = DeclaredCommand(c, t, off)
	return out, err
}

// systemPrograms are the folders of the system's programs.
var systemPrograms = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// DeclaredCommand returns the command that a declared tool runs.
func DeclaredCommand(c *config.Config, t *declared.Settings, off *KeptOff) (*declared.Command, error) {
	if t.Type == "python" {
		return pythonCommand(c, t, off)
	}
	program, err := programPath(c, t.Args[0])
	if err != nil {
		return nil, err
	}
	var library []string
	if launched(t.Args[0]) {
		program, library = RealPython(program)
	}
	return confined(t, off, library, &declared.Command{
		Args: append([]string{program}, t.Args[1:]...), Dashes: t.Dashes, Stdin: t.Stdin, Dir: t.Cwd,
	})
}

// pythonCommand returns the command that calls a function of a module: by the interpreter
// of code__execute, where that is configured.
func pythonCommand(c *config.Config, t *declared.Settings, off *KeptOff) (*declared.Command, error) {
	name := "python3"
	if code := c.Toolgate.Native.Code; code != nil && code.Python != "" {
		name = code.Python
	}
	program, err := programPath(c, name)
	if err != nil {
		return nil, err
	}
	program, library := RealPython(program)
	if err := moduleIn(t.Cwd, t.Module); err != nil {
		return nil, err
	}
	args, stdin := declared.Python(t.Cwd, t.Module, t.Function)
	return confined(t, off, library, &declared.Command{Args: append([]string{program}, args...), Stdin: stdin})
}

// moduleIn tells why a folder does not have a module, which is a file or a folder.
func moduleIn(folder, module string) error {
	path := filepath.Join(append([]string{folder}, strings.Split(module, ".")...)...)
	for _, form := range []string{path + ".py", path} {
		if _, err := os.Stat(form); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no module %s in %s; cwd names the folder that it is in", module, folder)
}

// confined completes a command with its environment, and with what it may do.
func confined(t *declared.Settings, off *KeptOff, library []string, command *declared.Command) (*declared.Command, error) {
	p := sandbox.Policy{
		Mode: t.Sandbox.ForCallers(), Read: slices.Clone(t.Read), Write: t.Write, Run: t.Run, Temp: true,
		CPU: t.Limits.CPU, Memory: int64(t.Limits.Memory), FileSize: int64(t.Limits.FileSize), Files: t.Limits.Files, Processes: t.Limits.Processes,
	}
	if t.Network == "full" {
		p.Network = sandbox.FullNetwork
	}
	p.Read = append(p.Read, library...)
	if t.Cwd != "" {
		p.Read = append(p.Read, t.Cwd)
	}
	if err := cmp.Or(keepsOff(&p, off.Own), off.check(p.Write)); err != nil {
		return nil, err
	}
	if p.Run == nil && runtime.GOOS != "windows" {
		for _, folder := range systemPrograms {
			if _, err := os.Stat(folder); err == nil {
				p.Run = append(p.Run, folder)
			}
		}
	}
	command.Env, command.Policy = secret.Reveal(t.Env), p
	return command, nil
}

// launched tells whether a program is a Python of the PATH, where a version manager puts a
// launcher script that fails with the environment of a tool.
func launched(name string) bool {
	return strings.HasPrefix(name, "python") && !strings.ContainsAny(name, `/\`)
}

// programPath returns the path of a program: with a slash relative to the file, else
// in the gateway's PATH.
func programPath(c *config.Config, name string) (string, error) {
	path := name
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) && c.Path != "" {
			path = filepath.Join(filepath.Dir(c.Path), name)
		}
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("the program %s is not there or cannot be run; write its path: %w", name, err)
	}
	return filepath.Abs(found)
}

// keepsOff refuses a command with access to the gateway's own files. Writing them
// means choosing what runs; reading them means knowing the gateway's secrets.
func keepsOff(p *sandbox.Policy, own []string) error {
	self, _ := os.Executable()
	real, _ := filepath.EvalSymlinks(self)
	for _, grant := range []struct {
		key   string
		paths []string
	}{{"write", p.Write}, {"read or cwd", p.Read}, {"run", p.Run}} {
		for _, path := range grant.paths {
			for _, form := range []string{path, realPath(path)} {
				for _, mine := range own {
					if grant.key != "write" && (mine == self || mine == real) {
						continue // the program itself holds no secret
					}
					if inside(mine, form) || inside(form, mine) {
						return fmt.Errorf("%s: %s would give a program of the configuration the gateway's own %s; move one of them", grant.key, path, mine)
					}
				}
			}
		}
	}
	return nil
}

// realPath returns a path without symbolic links, as far as it exists.
func realPath(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// inside tells whether a path is a folder or in it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// declaredRules returns the rules that the declarations contain for their tools.
func declaredRules(c *config.Config) []governance.Rule {
	var rules []governance.Rule
	for i := range c.Toolgate.Tools {
		t := &c.Toolgate.Tools[i]
		if t.Template {
			continue
		}
		r := governance.Rule{
			Match: NameOf(t.Namespace) + t.Name, At: RuleAt(c, fmt.Sprintf("tools[%d].", i)),
			Tool: governance.Tool{
				Risk: governance.Risk(t.Risk), Class: t.Class, Category: t.Category,
				HighCost: t.Queue || c.Toolgate.Queue.Of(t.Namespace, t.Name) != "", // mode DEGRADED denies them
			},
		}
		r.RequiresApproval = t.Approval
		rules = append(rules, r)
	}
	return rules
}

// NameOf returns the prefix of the names of a namespace.
func NameOf(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "__"
}
