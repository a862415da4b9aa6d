package governance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
)

var (
	keyPattern   = regexp.MustCompile(`^governance\.tools\.(.+)\.(paths_in|allowed_paths|forbidden_paths|max_bytes|forbidden_in_modes|commands|patterns)((?:\[[0-9+]+\])?)((?:\.(?:allow|deny))?)((?:\[[0-9+]+\])?)$`)
	indexPattern = regexp.MustCompile(`[0-9]+`)
)

// entry changes a list as a change asks for.
func entry(t *testing.T, list []string, index, value string) []string {
	t.Helper()
	if index == "[+]" {
		return append(slices.Clone(list), value)
	}
	i, err := strconv.Atoi(strings.Trim(index, "[]"))
	if err != nil || value != "" {
		t.Fatalf("entry %q is to be %q", index, value)
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// apply does what a change asks for, to the rules or to the call.
func apply(t *testing.T, all []governance.Rule, c *governance.Call, change *gate.Change) []governance.Rule {
	t.Helper()
	switch {
	case change.Text == "":
		t.Fatal("the change says nothing to a person")
	case change.Where == "governance.mode":
		mode, err := governance.ParseMode(change.Value)
		if err != nil {
			t.Fatal(err)
		}
		c.Mode = mode
		return all
	case change.Where == "arguments":
		c.Arguments = nil
		return all
	case strings.HasPrefix(change.Where, "arguments/"):
		c.Arguments = without(t, c.Arguments, change.Where)
		return all
	}
	m := keyPattern.FindStringSubmatch(change.Where)
	if m == nil {
		t.Fatalf("a change at %q", change.Where)
	}
	all = slices.Clone(all)
	i := slices.IndexFunc(all, func(r governance.Rule) bool { return r.Match == m[1] })
	r := &all[i]
	switch m[2] {
	case "paths_in":
		if err := json.Unmarshal([]byte(change.Value), &r.PathsIn); err != nil {
			t.Fatalf("%+v: %v", change, err)
		}
	case "allowed_paths":
		r.AllowedPaths = entry(t, r.AllowedPaths, m[3], change.Value)
	case "forbidden_paths":
		r.ForbiddenPaths = entry(t, r.ForbiddenPaths, m[3], change.Value)
	case "max_bytes":
		n, err := strconv.ParseInt(change.Value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r.MaxBytes = units.Size(n)
	case "forbidden_in_modes":
		r.ForbiddenInModes = slices.Delete(slices.Clone(r.ForbiddenInModes), 0, 1)
	case "patterns":
		n, _ := strconv.Atoi(indexPattern.FindString(m[3]))
		r.Patterns = slices.Delete(slices.Clone(r.Patterns), n, n+1)
	case "commands":
		n, _ := strconv.Atoi(indexPattern.FindString(m[3]))
		r.Commands = slices.Clone(r.Commands)
		if m[4] == ".allow" {
			r.Commands[n].Allow = entry(t, r.Commands[n].Allow, m[5], change.Value)
		} else {
			r.Commands[n].Deny = entry(t, r.Commands[n].Deny, m[5], change.Value)
		}
	}
	return all
}

// without leaves out the argument, or the member of one, at a place.
func without(t *testing.T, arguments *schema.Arguments, where string) *schema.Arguments {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(where, "arguments/"), "/")
	members, err := arguments.Object()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := members[name]; !ok {
		t.Fatalf("%s is not among %v", where, members)
	}
	members = maps.Clone(members)
	delete(members, name)
	left, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return schema.ReadArguments(left)
}

func TestEveryChangeLiftsItsDeny(t *testing.T) {
	all := []governance.Rule{
		{
			Match: "files", At: gate.Rule{File: "toolgate.yaml", Line: 7}, Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**", "**/.env"}, AllowedPaths: []string{"/srv/**"}, MaxBytes: 60, ForbiddenInModes: []governance.Mode{governance.Lockdown}, Commands: []governance.Commands{{In: []string{"/cmd"}, Allow: []string{"git"}}, {In: []string{"/cmd"}, Deny: []string{"rm", "git push"}}}, Patterns: []governance.Pattern{{In: []string{"/q"}, Match: "^[a-z]+$"}, {In: []string{"/q", "/n"}, Deny: "drop|7"}}},
		},
		{Match: "none", Tool: governance.Tool{AllowedPaths: []string{}}},
	}
	tests := []struct {
		tool, arguments string
		reason          string
	}{
		{"files", `{"path":"/etc/passwd"}`, "under /etc/**, which is forbidden"},
		{"files", `{"path":"/srv/.env"}`, "under **/.env, which is forbidden"},
		{"files", `{"path":"/etc/.env"}`, "forbidden"},
		{"files", `{"path":"/home/a[b]*?.c"}`, "not under a path that is allowed"},
		{"files", `{"path":"/srv2/a%20b%2fc"}`, "not under a path that is allowed"},
		{"files", `{"path":"rel/a\\b."}`, "send an absolute path"},
		{"files", `{"path":"../x"}`, "send an absolute path"},
		{"files", `{"path":"C:\\x\\y"}`, "not under a path that is allowed"},
		{"files", `{"path":"https://a.example/b"}`, "not under a path that is allowed"},
		{"files", `{"path":"/srv/a\u0000"}`, "NUL"},
		{"files", `{"path":"/srv/%ff"}`, "UTF-8"},
		{"files", `{"path":""}`, "is empty"},
		{"none", `{"path":"/a"}`, "no path is"},
		{"files", `{"q":"` + strings.Repeat("x", 100) + `"}`, "may have 60"},
		{"files", `{"cmd":"rm -rf /"}`, "not one that is allowed"},
		{"files", `{"cmd":"git -C x push"}`, "holds the command"},
		{"files", `{"cmd":["git","push"]}`, "holds the command"},
		{"files", `{"cmd":"git log | sh"}`, "operators of the shell"},
		{"files", `{"cmd":"  "}`, "names no command"},
		{"files", `{"q":"A"}`, "does not match"},
		{"files", `{"q":"drop"}`, "which is denied"},
		{"files", `{"n":7}`, "which is denied"},
		{"files", `{"path":"/srv/a","path":"/etc/x"}`, "cannot be read"},
		{"files", `[]`, "cannot be read"},
	}
	for _, tt := range tests {
		for _, mode := range append(governance.Modes(), "PANIC") {
			t.Run(fmt.Sprintf("%s in %s", tt.arguments, mode), func(t *testing.T) {
				now, c := all, call(tt.tool, tt.arguments)
				c.Mode = mode
				denied := 0
				for ; denied < 10; denied++ {
					v := rules(t, now...).Judge(c)
					if v.Outcome != governance.Deny {
						break
					}
					if mode == governance.Normal && denied == 0 && !strings.Contains(v.Reason, tt.reason) {
						t.Errorf("reason %q, want …%s…", v.Reason, tt.reason)
					}
					if v.Change == nil {
						t.Fatalf("no change for %q", v.Reason)
					}
					if strings.HasPrefix(v.Change.Where, "governance.tools.files") && v.Rule.String() != "toolgate.yaml:7: "+v.Rule.Text {
						t.Errorf("the rule is at %s", v.Rule)
					}
					now = apply(t, now, &c, v.Change)
				}
				if denied == 0 || denied == 10 {
					t.Errorf("denied %d times: %+v", denied, rules(t, now...).Judge(c))
				}
			})
		}
	}
}

func TestAllRulesOfATool(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "gh__*", Tool: governance.Tool{RequiresApprovalInModes: []governance.Mode{governance.Alert}}},
		governance.Rule{Match: "gh__delete", Tool: governance.Tool{ForbiddenInModes: []governance.Mode{governance.Alert}}},
		governance.Rule{Match: "gh__read", Tool: governance.Tool{Risk: governance.High}},
	)
	class := governance.Class{OperatorClassed: true, ReadOnly: true, Risk: governance.Low}
	for name, want := range map[string]governance.Outcome{"gh__list": governance.Ask, "gh__delete": governance.Deny, "gh__read": governance.Ask, "gl__x": governance.Pass, "xgh__list": governance.Pass} {
		v := r.Judge(governance.Call{Name: name, Class: class, Mode: governance.Alert})
		if v.Outcome != want || want == governance.Ask && (v.Reason == "" || v.Change != nil) {
			t.Errorf("%s: %+v, want %s", name, v, want)
		}
	}
}

func TestCommands(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "deny", Tool: governance.Tool{Commands: []governance.Commands{{In: []string{"/c"}, Deny: []string{"rm", "curl*", "git push"}}}}},
		governance.Rule{Match: "allow", Tool: governance.Tool{Commands: []governance.Commands{{In: []string{"/c"}, Allow: []string{"git status", "go", "/usr/bin/make"}}}}},
		governance.Rule{Match: "nothing", Tool: governance.Tool{Commands: []governance.Commands{{In: []string{"/c"}, Allow: []string{}}}}},
	)
	for _, text := range []string{
		`"rm x"`, `"/bin/rm x"`, `"RM x"`, `"rm.exe x"`, `"ls; rm x"`, `"ls&&rm x"`, `"r''m x"`, `"\\rm x"`, `"r\"\"m x"`, `"$(rm x)"`, "\"`rm x`\"", `"sh -c 'rm x'"`, `["sh","-c","rm x"]`,
		`["rm","x"]`, `"curl-7 x"`, `"git  push"`, `"git -C x push"`, `{"run":["rm x"]}`, `"xargs\trm"`, `"env A=1 rm"`, `"A=rm;$A"`, `[["rm"]]`,
	} {
		if v := r.Judge(call("deny", `{"c":`+text+`}`)); v.Outcome != governance.Deny {
			t.Errorf("%s is not denied", text)
		}
	}
	for _, text := range []string{`"ls -l"`, `"farm"`, `"rmdir x"`, `"git pull"`, `["git","status"]`, `"push git"`, `7`, `null`, `[]`} {
		if v := r.Judge(call("deny", `{"c":`+text+`}`)); v.Outcome != governance.Pass {
			t.Errorf("%s: %s", text, v.Reason)
		}
	}
	for text, want := range map[string]governance.Outcome{
		`"git status -s"`: governance.Pass, `["git","status"]`: governance.Pass, `"git.exe status"`: governance.Pass,
		`"/usr/bin/git status"`: governance.Deny, `"./git status"`: governance.Deny, `["./go","build"]`: governance.Deny, `".\\go build"`: governance.Deny, `"/elsewhere/go build"`: governance.Deny,
		`"../go build"`: governance.Deny, `"/usr/bin/../bin/make x"`: governance.Deny, `"./usr/bin/make x"`: governance.Deny,
		`"go build ./..."`: governance.Pass, `"/usr/bin/make x"`: governance.Pass, `["go","test","a;b"]`: governance.Pass,
		`"git"`: governance.Deny, `"git push"`: governance.Deny, `"git status; rm x"`: governance.Deny, `"go\nrm"`: governance.Deny, `"go $(rm x)"`: governance.Deny, `"go > x"`: governance.Deny, `"make"`: governance.Deny,
		`"/tmp/make"`: governance.Deny, `"A=1 go"`: governance.Deny, `""`: governance.Deny, `[]`: governance.Deny, `"GO"`: governance.Deny, `{"a":"rm"}`: governance.Deny, `7`: governance.Deny,
	} {
		if v := r.Judge(call("allow", `{"c":`+text+`}`)); v.Outcome != want {
			t.Errorf("%s: %s %s, want %s", text, v.Outcome, v.Reason, want)
		}
	}
	if v := r.Judge(call("nothing", `{"c":"ls"}`)); v.Outcome != governance.Deny {
		t.Error("an empty list allows a command")
	}
}

func TestRulesThatCannotBeMeant(t *testing.T) {
	bad := map[string]governance.Rule{
		"needs the name":         {},
		"not a risk":             {Match: "x", Tool: governance.Tool{Risk: "huge"}},
		"not a way":              {Match: "x", Tool: governance.Tool{Case: "upper"}},
		"must not be negative":   {Match: "x", Tool: governance.Tool{MaxBytes: -1}},
		"not a mode":             {Match: "x", Tool: governance.Tool{RequiresApprovalInModes: []governance.Mode{"alert"}, ForbiddenInModes: []governance.Mode{"PANIC"}}},
		"write \"/path\"":        {Match: "x", Tool: governance.Tool{PathsIn: []string{"path"}}},
		"write ~ as ~0":          {Match: "x", Tool: governance.Tool{PathsIn: []string{"/a~b"}}},
		"no .. in it":            {Match: "x", Tool: governance.Tool{AllowedPaths: []string{"/a/../b"}}},
		"stands alone":           {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"/a/b**"}}},
		"bracket":                {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"/a/[b"}}},
		"names something":        {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"./"}}},
		"1 to 4096":              {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{""}}},
		"64 parts":               {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{strings.Repeat("/a", 65)}}},
		"variable":               {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"$DATA/x"}}},
		"looks like":             {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"/a\uff0fb"}}},
		"globs of URLs":          {Match: "x", Tool: governance.Tool{ForbiddenPaths: []string{"ftp://a/b"}}},
		"need the pointers":      {Match: "x", Tool: governance.Tool{Commands: []governance.Commands{{Allow: []string{"a"}}}}},
		"entry names a program":  {Match: "x", Tool: governance.Tool{Commands: []governance.Commands{{In: []string{"/a"}, Deny: []string{" "}}}}},
		"needs pointers":         {Match: "x", Tool: governance.Tool{Patterns: []governance.Pattern{{Match: "a"}}}},
		"missing closing":        {Match: "x", Tool: governance.Tool{Patterns: []governance.Pattern{{In: []string{"/a"}, Match: "["}}}},
		"home directory, which":  {Match: "nohome", Tool: governance.Tool{ForbiddenPaths: []string{"~/x"}}},
		"governance.tools.where": {Match: "where", Tool: governance.Tool{Risk: "?"}},
	}
	var all []governance.Rule
	for want, rule := range bad {
		o := governance.Options{Home: home}
		if rule.Match == "nohome" {
			o.Home = "relative"
		} else {
			all = append(all, rule)
		}
		r, err := governance.New([]governance.Rule{rule}, o)
		if err == nil || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want …%s…", err, want)
		}
	}
	_, err := governance.New(all, governance.Options{Home: home})
	for want, rule := range bad {
		if rule.Match != "nohome" && !strings.Contains(err.Error(), want) {
			t.Errorf("the joined error has no …%s…", want)
		}
	}
	if _, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); !ok {
		t.Errorf("%T cannot be taken apart", err)
	}
}

func TestZeroValuesDeny(t *testing.T) {
	for _, r := range []*governance.Rules{nil, {}} {
		if v := r.Judge(call("x", `{}`)); v.Outcome != governance.Deny || v.Change == nil {
			t.Errorf("%+v", v)
		}
		if len(governance.Check(r, nil)) != 1 {
			t.Error("rules that were not made are in order")
		}
	}
	if (governance.Verdict{}).Outcome != governance.Deny {
		t.Error("the zero verdict does not deny")
	}
	if v := rules(t).Judge(governance.Call{}); v.Outcome != governance.Deny {
		t.Error("the zero call passes")
	}
	if c := (*governance.Rules)(nil).Class(gate.Names{Exposed: "x"}, "", governance.Operator{ReadOnly: new(true)}, governance.Hints{}); c != (governance.Class{}) {
		t.Errorf("without rules %+v", c)
	}
}

func TestRulesAreNotTheCallersMemory(t *testing.T) {
	own := governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**"}, ForbiddenInModes: []governance.Mode{governance.Alert}}}
	r := rules(t, own)
	own.ForbiddenPaths[0], own.ForbiddenInModes[0] = "/x", governance.Normal
	if v := r.Judge(pathCall("/etc/x")); v.Outcome != governance.Deny || !strings.Contains(v.Reason, "/etc/**") {
		t.Errorf("%+v", v)
	}
}

func TestCheck(t *testing.T) {
	r := rules(t,
		governance.Rule{Match: "files__*", Tool: governance.Tool{PathsIn: []string{"/path", "/nowhere"}}},
		governance.Rule{Match: "files__wirte", Tool: governance.Tool{Risk: governance.High}},
		governance.Rule{Match: "gh__*"},
		governance.Rule{Match: "shell", Tool: governance.Tool{Commands: []governance.Commands{{In: []string{"/command"}, Deny: []string{"rm"}}}, Patterns: []governance.Pattern{{In: []string{"/args/*"}, Deny: "x"}, {In: []string{"/agrs"}, Deny: "x"}}}},
		governance.Rule{Match: "broken", Tool: governance.Tool{PathsIn: []string{"/a"}}},
		governance.Rule{Match: "open", Tool: governance.Tool{PathsIn: []string{"/anything"}}},
		governance.Rule{Match: "files__read", Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**"}}},
	)
	got := governance.Check(r, map[string][]byte{
		"files__read":  []byte(`{"properties":{"path":{"type":"string"}}}`),
		"files__write": []byte(`{"properties":{"path":{"type":"string"},"content":{}}}`),
		"files__move":  []byte(`{"properties":{"source":{"type":"string"},"destination":{"type":"string"}}}`),
		"shell":        []byte(`{"properties":{"command":{"type":"string"},"args":{"items":{"type":"string"}}}}`),
		"broken":       []byte(`{"$ref":"#"}`),
		"open":         []byte(`{"additionalProperties":true}`),
	})
	want := []string{
		"governance.tools.files__*.paths_in: files__move has none of these arguments, so that its paths are not checked; give it a rule of its own",
		"governance.tools.files__*.paths_in: /nowhere is in no schema of files__move, files__read, files__write",
		`governance.tools.files__wirte: "files__wirte" matches no tool; did you mean "files__write"?`,
		`governance.tools.gh__*: "gh__*" matches no tool`,
		"governance.tools.shell.patterns[1]: /agrs is in no schema of shell",
		"governance.tools.broken: the schema of broken: the input schema cannot be used: the schema applies itself to the same value again and never ends",
		"governance.tools.open.paths_in: open has none of these arguments, so that its paths are not checked; give it a rule of its own",
		"governance.tools.open.paths_in: /anything is in no schema of open",
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want) || got[i].Error() != want[i]:
			t.Errorf("problem %d: %s", i, got[i].Error())
		}
	}
}

func TestPathName(t *testing.T) {
	for name, want := range map[string]bool{
		"path": true, "filePath": true, "file_path": true, "PATH": true, "URI": true, "resourceURI": true, "HTMLFile": true, "source": true, "destination-dir": true, "file1": true, "paths": true,
		"root": true, "oldFileName": true, "file-path": true, "uri-reference": true,
		"": false, "profile": false, "content": false, "file_content": false, "direction": false, "pathology": false, "title": false, "file_type": false, "_": false, "sourceCode": false,
	} {
		if got := governance.PathName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	r := rules(b, governance.Rule{Match: "files__*", Tool: governance.Tool{ForbiddenPaths: []string{"$HOME/.ssh/**", "/etc/**", "**/.env", "**/*.pem"}, AllowedPaths: []string{"$HOME/work/**"}, MaxBytes: 1 << 20}})
	c := pathCall("/home/u/work/project/internal/file.go")
	c.Schema = prepared(`{"properties":{"path":{"type":"string"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if v := r.Judge(c); v.Outcome != governance.Pass {
			b.Fatal(v.Reason)
		}
	}
}

// What is said in two places of a tool is the stricter of both.
func TestOperatorWith(t *testing.T) {
	yes, no := new(true), new(false)
	for name, tc := range map[string]struct{ a, b, want governance.Operator }{
		"nothing":     {},
		"one place":   {a: governance.Operator{ReadOnly: yes, Risk: governance.Low}, want: governance.Operator{ReadOnly: yes, Risk: governance.Low}},
		"contrary":    {a: governance.Operator{ReadOnly: yes, Destructive: no}, b: governance.Operator{ReadOnly: no, Destructive: yes}, want: governance.Operator{ReadOnly: no, Destructive: yes}},
		"each a part": {a: governance.Operator{ReadOnly: no}, b: governance.Operator{Destructive: no, Risk: governance.High, HighCost: true}, want: governance.Operator{ReadOnly: no, Destructive: no, Risk: governance.High, HighCost: true}},
	} {
		for _, got := range []governance.Operator{tc.a.With(tc.b), tc.b.With(tc.a)} {
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}
