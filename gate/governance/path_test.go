package governance_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/gate/governance"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

const home = "/home/u"

// rules makes rules for the home directory of the tests.
func rules(t testing.TB, all ...governance.Rule) *governance.Rules {
	t.Helper()
	r, err := governance.New(all, governance.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pathCall is a call with one path.
func pathCall(path string) governance.Call {
	arguments, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		panic(err)
	}
	if !json.Valid(arguments) {
		panic(path)
	}
	return call("files__read", string(arguments))
}

// prepared returns what prepares a schema.
func prepared(text string) func() (*schema.Schema, error) {
	c := schema.New(schema.Options{})
	return func() (*schema.Schema, error) { return c.Compile([]byte(text)) }
}

func call(name, arguments string) governance.Call {
	return governance.Call{Name: name, Kind: mcp.Tool, Mode: governance.Normal, Arguments: schema.ReadArguments([]byte(arguments))}
}

func TestForbiddenPathsInEveryDress(t *testing.T) {
	r := rules(t, governance.Rule{
		Match: "files__*", Tool: governance.Tool{ForbiddenPaths: []string{"$HOME/.ssh/**", "/etc/**", "**/.env", "*.pem", `C:\Secret\**`, "https://internal.example/**"}},
	})
	forbidden := []string{
		"/home/u/.ssh/id_rsa", "/home/u/.ssh", "/home/u/.ssh/", "~/.ssh/id_rsa", "$HOME/.ssh/id_rsa", "${HOME}/.ssh/id_rsa", "%USERPROFILE%/.ssh/id_rsa",
		"%HOME%/.ssh/x", "$home/.ssh/x", "$env:HOME/.ssh/x", `~\.ssh\id_rsa`, "/home//u///.ssh//id_rsa", "/home/u/./.ssh/./id_rsa", "/home/u/work/../.ssh/id_rsa",
		"/home/x/../u/.ssh/id_rsa", "/../../home/u/.ssh/id_rsa", "//home/u/.ssh/id_rsa", "/home/u/.ssh/id_rsa/", "/home/u/.ssh./id_rsa", "/home/u/.ssh /id_rsa",
		"/home/u/.ssh::$INDEX_ALLOCATION/id_rsa", "/home/u/.ssh\\id_rsa", "\\home\\u\\.ssh\\id_rsa", "/home/u/work\\..\\.ssh\\id_rsa", " /home/u/.ssh/id_rsa", "/home/u/.ssh/id_rsa ",
		"file:///home/u/.ssh/id_rsa", "FILE:///home/u/.ssh/id_rsa", "file:/home/u/.ssh/id_rsa", "file:home/u/.ssh/id_rsa", "file://localhost/home/u/.ssh/id_rsa",
		"file://home/u/.ssh/id_rsa", "file://elsewhere/home/u/.ssh/id_rsa", "view-source:file:///home/u/.ssh/id_rsa", "vscode-file:///home/u/.ssh/id_rsa",
		"file:///home/u/.ssh/id_rsa?x=1", "file:///home/u/.ssh/id_rsa#x", "file:///home/u/.ssh?/id_rsa", "file:~/.ssh/id_rsa", "file:///~/../home/u/.ssh/id_rsa",
		"/home/u/%2essh/id_rsa", "/home/u/%2E%73sh/id_rsa", "%2fhome%2fu%2f.ssh%2fid_rsa", "/home/u/work/%2e%2e/.ssh/id_rsa", "/home/u/%252essh/id_rsa", "/home/u/%25252essh/id_rsa",
		"file%3a%2f%2f%2fhome%2fu%2f.ssh%2fid_rsa", "%7e/.ssh/id_rsa", "%24HOME/.ssh/id_rsa", "/home/u/.ssh%5cid_rsa", "/home/u/work%5c..%5c.ssh%5cid_rsa", "/home/u/%u002essh/id_rsa",
		"/home/u/.SSH/id_rsa", "/HOME/U/.ssh/id_rsa", "/home/u/.ſſh/id_rsa", "/home/u/.ｓｓｈ/id_rsa", "/home/u/.%EF%BD%93sh/id_rsa",
		".ssh/id_rsa", "../.ssh/id_rsa", "../../u/.ssh/id_rsa", "u/.ssh/x", "etc/passwd", "../../../../etc/passwd", "x/../../etc/passwd",
		"/etc/passwd", "/etc", "/etc/", "/proc/self/root/etc/passwd", "/proc/1/task/1/root/etc/passwd", "/private/etc/passwd", "/System/Volumes/Data/home/u/.ssh/x",
		".env", "a/.env", "/srv/app/.env", "/srv/.env/x", "/srv/.env.", "/srv/.env:stream", "key.pem", "/srv/key.pem", "/srv/KEY.PEM",
		`C:\Secret\x`, `c:\secret\x`, "C:/Secret/x", "file:///C:/Secret/x", "file:///c:/secret/x", `\\?\C:\Secret\x`, `\\.\C:\Secret\x`, `C:\x\..\Secret`, `C:Secret\x`,
		"https://internal.example/", "https://internal.example/a/b", "HTTPS://INTERNAL.example/a", "https://internal.example./a", "https://internal.example/%2e%2e/a",
	}
	for _, path := range forbidden {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Deny || v.Change == nil || v.Rule.Text == "" {
			t.Errorf("%q: %+v", path, v)
		}
	}
	fine := []string{
		"/home/u/work/a.go", "~/work/a.go", "/home/u/.sshx", "/home/u/ssh/x", "/home/u/work/a b.txt", "/home/u/work/100%.txt", "/home/u/work/%41.txt", "src/main.go", "../src/main.go",
		"/etcetera", "a.pem.txt", "/srv/env", `C:\Users\x`, `D:\Secret\x`, "https://docs.example/a", "https://docs.example/etc/passwd", "/home/u/日本語/ファイル", "/home/u/naïve", "", ".", "/",
		"file:///home/u/work/a%20b", "Foo$Bar.class", "/home/u/Bildschirmfoto 12.00.png", "notes:today",
	}
	for _, path := range fine {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Pass {
			t.Errorf("%q: %s", path, v.Reason)
		}
	}
}

// unreadable are texts that are denied whatever the globs are.
var unreadable = []string{
	"/a\x00b", "/a%00b", "/a%2500b", "/a\nb", "/a\rb", "/a\x7fb", "/a\u0085b", "/a\u200bb", "/a\u202eb", "/a\u2066b", "/a\ufeffb", "/a\U000e0041b", "/a\ufe0fb", "/a\u00adb", "/a\u2028b",
	"/a\uff0fb", "/a\u2044b", "/a\u2215b", "/a\u29f8b", "/a\uff3cb", "/a\u2216b", "/\uff0e\uff0e/b", "/\u2024\u2024/b", "/\u2025/b", "\uff5e/b", "/a\uff05b", "/a%ef%bc%8fb",
	"/a%c0%afb", "/a%c0%ae%c0%ae/b", "/a%ffb", "/a%ud800b", "/a\ufffdb", "~root/.ssh", "~root", "${SECRET}/x", "$SECRET/x", "/x/${HOME}", "$(pwd)/x", "%APPDATA%/x",
	"https://user@docs.example/", "https://docs.example\\@evil.example/", "https:///x", "http:x",
	"aa:bb:cc:dd:ee:ff:x", strings.Repeat("/a", 5000), "/" + strings.Repeat("%25", 1) + "25252525252525252525252525" + "2e",
}

func TestWhatCannotBeReadIsDenied(t *testing.T) {
	for name, rule := range map[string]governance.Rule{
		"forbidden": {Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/nowhere/**"}}},
		"allowed":   {Match: "*", Tool: governance.Tool{AllowedPaths: []string{"/**", "**", "https://*/**"}}},
	} {
		r := rules(t, rule)
		for _, path := range unreadable {
			if v := r.Judge(pathCall(path)); v.Outcome != governance.Deny {
				t.Errorf("%s: %.60q passes", name, path)
			}
		}
	}
	if v := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/x"}}}).Judge(call("t", `{"path":"\ud800"}`)); v.Outcome != governance.Deny {
		t.Error("half of a character passes")
	}
	unknown, err := governance.New([]governance.Rule{{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/x/**"}}}}, governance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := unknown.Judge(pathCall("~/x")); v.Outcome != governance.Deny {
		t.Error("a home directory that is not known passes")
	}
}

func TestAllowedPathsInEveryReading(t *testing.T) {
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{AllowedPaths: []string{"$HOME/work/**", "docs/*.md", `D:\data\**`, "https://docs.example/v1/**"}}})
	for path, want := range map[string]governance.Outcome{
		"/home/u/work": governance.Pass, "/home/u/work/a/b": governance.Pass, "~/work/a": governance.Pass, "file:///home/u/work/a%20b": governance.Pass, "/home/u/work/x/../y": governance.Pass,
		"docs/a.md": governance.Pass, "./docs/a.md": governance.Pass, `D:\data\x`: governance.Pass, "d:/data/x": governance.Pass, "file:///D:/data/x": governance.Pass,
		"https://docs.example/v1/a": governance.Pass, "https://DOCS.example/v1/a?q=1": governance.Pass,
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != want {
			t.Errorf("%q: %s %s, want %s", path, v.Outcome, v.Reason, want)
		}
	}
	for _, path := range []string{
		"", ".", "/", "/home/u", "/home/u/work2", "/home/u/work/..", "/home/u/work/../.ssh", "/home/u/work/%2e%2e/.ssh", "/home/u/work/%252e%252e/.ssh", `/home/u/work/..\..\x`, "/home/u/work/x%2f..%2f..%2fy",
		"/HOME/u/work/a", "work/a", "docs/x/a.md", "docs/../a.md", "../docs/a.md", "/docs/a.md", "docs/a.md/x", `D:\rest`, "D:data", "file://elsewhere/home/u/work/../../../../x",
		"https://docs.example/v2", "https://docs.example/v1/../v2", "https://docs.example/v1/%2e%2e/v2", "https://docs.example.evil/v1/a", "http://docs.example/v1/a", "ftp://docs.example/v1/a", "s3://home/u/work",
		"https://docs.example:8443/v1/a", "/home/u/work\\..\\..\\x", "/home/u/work/... /../..",
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Deny || v.Change == nil {
			t.Errorf("%q passes", path)
		}
	}
	anywhere := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{AllowedPaths: []string{"**"}}})
	if in, out := anywhere.Judge(pathCall("a/../b")), anywhere.Judge(pathCall("a/../../b")); in.Outcome != governance.Pass || out.Outcome != governance.Deny {
		t.Errorf("a relative glob allows %s below and %s above", in.Outcome, out.Outcome)
	}
	none := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{AllowedPaths: []string{}}})
	if v := none.Judge(pathCall("/x")); v.Outcome != governance.Deny {
		t.Error("an empty list allows a path")
	}
	if v := none.Judge(call("t", `{"other":"/x"}`)); v.Outcome != governance.Pass {
		t.Errorf("what is not a path is denied: %s", v.Reason)
	}
}

func TestCase(t *testing.T) {
	tests := []struct {
		how                governance.Case
		forbidden, allowed governance.Outcome // of the other case
	}{
		{governance.CaseSafe, governance.Deny, governance.Deny},
		{governance.CaseExact, governance.Pass, governance.Deny},
		{governance.CaseFold, governance.Deny, governance.Pass},
	}
	for _, tt := range tests {
		forbid := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{Case: tt.how, ForbiddenPaths: []string{"/srv/Key/**"}}})
		allow := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{Case: tt.how, AllowedPaths: []string{"/srv/Key/**"}}})
		if got := forbid.Judge(pathCall("/SRV/key/x")).Outcome; got != tt.forbidden {
			t.Errorf("%q forbids: %s", tt.how, got)
		}
		if got := allow.Judge(pathCall("/SRV/key/x")).Outcome; got != tt.allowed {
			t.Errorf("%q allows: %s", tt.how, got)
		}
		if forbid.Judge(pathCall("/srv/Key/x")).Outcome != governance.Deny || allow.Judge(pathCall("/srv/Key/x")).Outcome != governance.Pass {
			t.Errorf("%q: the case that is written does not match", tt.how)
		}
	}
}

func TestPathsAreFoundAnywhere(t *testing.T) {
	const text = `{"properties":{"where":{"type":"string","format":"file-path"},"link":{"anyOf":[{"type":"string","format":"uri"}]},"list":{"items":{"$ref":"#/$defs/p"}}},"$defs":{"p":{"properties":{"at":{"format":"uri-reference"}}}}}`
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**"}}})
	for arguments, want := range map[string]governance.Outcome{
		`{"where":"/etc/x"}`:                           governance.Deny,
		`{"link":"file:///etc/x"}`:                     governance.Deny,
		`{"list":[{"at":"/x"},{"at":"/etc/x"}]}`:       governance.Deny,
		`{"unknown":{"deep":[{"filePath":"/etc/x"}]}}`: governance.Deny,
		`{"paths":["/x","/etc/x"]}`:                    governance.Deny,
		`{"source_files":[["/etc/x"]]}`:                governance.Deny,
		`{"outputDir":"/etc"}`:                         governance.Deny,
		`{"destination":"/etc"}`:                       governance.Deny,
		`{"resource_uri":"/etc"}`:                      governance.Deny,
		`{"file_content":"/etc/x\n"}`:                  governance.Pass,
		`{"profile":"/etc/x","direction":"/etc/x"}`:    governance.Pass,
		`{"text":"see /etc/x"}`:                        governance.Pass,
		`{"path":7}`:                                   governance.Pass,
	} {
		c := call("t", arguments)
		c.Schema = prepared(text)
		if v := r.Judge(c); v.Outcome != want {
			t.Errorf("%s: %s %s, want %s", arguments, v.Outcome, v.Reason, want)
		}
	}
	c := call("t", `{}`)
	c.Schema = prepared(`{"$ref":"#"}`)
	if v := r.Judge(c); v.Outcome != governance.Deny {
		t.Error("a schema that cannot be used lets a call pass")
	}
}

// A program may take any text for a path, fill in variables wherever they stand,
// and follow the links of its kernel.
func TestForbiddenPathsByDetours(t *testing.T) {
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"$HOME/.ssh/**", "/etc/**", "**/.env"}}})
	for _, path := range []string{
		"http://x/../../../../home/u/.ssh/id_rsa", "https://h/%2e%2e/../../../etc/passwd", "ws://x/../../etc/passwd", "http://../../etc/passwd",
		`HTTP://x/../../../home/u/app/.env`, "http://x/../../.env",
		"/proc/self/root/../etc/passwd", "/proc/self/cwd/../etc/passwd", "/proc/self/cwd/etc/passwd", "/proc/self/task/7/cwd/../etc/passwd",
		"/proc/self/fd/3/etc/passwd", "/dev/fd/3/.ssh/id_rsa", "/proc/./self//root/proc/self/root/../etc/passwd", "file:///proc/self/root/../etc/passwd",
		"/PRIVATE/etc/passwd", "/private/ETC/passwd", "/system/volumes/data/etc/passwd",
		"/$HOME/.ssh/id_rsa", "./$HOME/.ssh/id_rsa", "x/../$home/.ssh/id_rsa", "/home/$USER/.ssh/id_rsa", "/home/%USERNAME%/.ssh/id_rsa",
		"/home/u/.s$x/id_rsa$HOME", "/home/u/.ssh$z/id_rsa", "/home/u/.s${z}sh/id_rsa", "/home/u/$a.ssh/id_rsa",
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Deny {
			t.Errorf("%q passes", path)
		}
	}
	for _, path := range []string{
		"https://h/.env", "https://h/a/../etc/passwd", "https://h/../b", "/srv/app/routes/$id.tsx", "/srv/$types.ts", "/srv/Foo$Bar.class", "/srv/100%/x",
		"/proc/self/status", "/proc/cpuinfo", "/dev/fd", "/private/home/x",
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Pass {
			t.Errorf("%q: %s", path, v.Reason)
		}
	}
	allowed := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{AllowedPaths: []string{"/srv/**", "/proc/**", "https://h/**"}}})
	for path, want := range map[string]governance.Outcome{
		"/srv/$id.tsx": governance.Pass, "/proc/self/status": governance.Pass, "https://h/a/../b": governance.Pass,
		"/proc/self/root/srv/x": governance.Pass, "/proc/self/root/../usr": governance.Deny, "/proc/self/cwd/../usr": governance.Deny,
	} {
		if v := allowed.Judge(pathCall(path)); v.Outcome != want {
			t.Errorf("%q: %s %s, want %s", path, v.Outcome, v.Reason, want)
		}
	}
}

func TestNamedPathsAreTheOnlyOnes(t *testing.T) {
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{PathsIn: []string{"/a", "/list/*/p", "/x~1y", "/deep"}, ForbiddenPaths: []string{"/etc/**"}}})
	for arguments, want := range map[string]governance.Outcome{
		`{"a":"/etc/x"}`:                             governance.Deny,
		`{"list":[{"p":"/x"},{"p":"/etc/x"}]}`:       governance.Deny,
		`{"list":{"any":{"p":"/etc/x"}}}`:            governance.Deny,
		`{"x/y":"/etc/x"}`:                           governance.Deny,
		`{"deep":{"b":[{"c":"/etc/x"}]}}`:            governance.Deny,
		`{"path":"/etc/x","b":"/etc/x"}`:             governance.Pass,
		`{"list":[{"q":"/etc/x"}],"x":{"y":"/etc"}}`: governance.Pass,
	} {
		if v := r.Judge(call("t", arguments)); v.Outcome != want {
			t.Errorf("%s: %s %s, want %s", arguments, v.Outcome, v.Reason, want)
		}
	}
}

// dress encodes a path in a way that some server undoes, by the bytes of a
// recipe. It knows nothing of how the package decodes.
func dress(path string, recipe []byte) string {
	for _, step := range recipe {
		switch step % 16 {
		case 0: // all of it
			var b strings.Builder
			for _, c := range []byte(path) {
				fmt.Fprintf(&b, "%%%02x", c)
			}
			path = b.String()
		case 1:
			path = url.PathEscape(path)
		case 2:
			path = strings.ReplaceAll(path, "%", "%25")
		case 3:
			path = strings.Replace(path, "/", "//", 1)
		case 4:
			path = strings.Replace(path, "/", "/./", 1)
		case 5:
			if rest, ok := strings.CutPrefix(path, "/"); ok {
				path = "/nothing/../" + rest
			}
		case 6:
			path = strings.ReplaceAll(path, "/", `\`)
		case 7:
			if strings.HasPrefix(path, "/") {
				path = "file://" + path
			}
		case 8:
			if rest, ok := strings.CutPrefix(path, home+"/"); ok {
				path = []string{"~/", "$HOME/", "${HOME}/"}[int(step/12)%3] + rest
			}
		case 9:
			path = strings.ToUpper(path)
		case 10:
			if !strings.HasSuffix(path, ".") && !strings.HasSuffix(path, "/") {
				path += []string{".", " ", "/", "/."}[int(step/12)%4]
			}
		case 11:
			path = strings.ReplaceAll(path, ".", "%2e")
		case 12:
			path = []string{`"`, "'", "`"}[int(step/16)%3] + path + []string{`"`, "'", "`"}[int(step/16)%3]
		case 13:
			path = []string{"@", "--file=", "data=@", "-d@"}[int(step/16)%4] + path
		case 14:
			path = strings.Replace(path, "ss", []string{"s?", "*", "[s]s", "s{s,x}"}[int(step/16)%4], 1)
		case 15:
			if !strings.ContainsAny(path, "{},") {
				path = "{" + path + ",/x}"
			}
		}
		if len(path) > 4000 {
			return path
		}
	}
	return path
}

func FuzzForbiddenPathsStayForbidden(f *testing.F) {
	for step := range byte(60) {
		f.Add("id_rsa", []byte{step})
		f.Add("keys/a b", []byte{step, 0, step + 7})
		f.Add("x", []byte{step, 8, 1, step * 3, 0})
	}
	r := rules(f, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"$HOME/.ssh/**"}}})
	f.Fuzz(func(t *testing.T, name string, recipe []byte) {
		if len(recipe) > 6 || len(name) > 100 || strings.Contains(name, "..") {
			return
		}
		path := dress(home+"/.ssh/"+name, recipe)
		arguments, err := json.Marshal(map[string]string{"path": path})
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Judge(call("files__read", string(arguments))); v.Outcome != governance.Deny {
			t.Errorf("%q passes, made of %q by %v", path, name, recipe)
		}
	})
}
