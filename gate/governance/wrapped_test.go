package governance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/governance"
)

// A path may stand behind a sign, in quotes, in braces, or be meant by what
// stands for several names.
func TestForbiddenPathsInWrappings(t *testing.T) {
	t.Parallel()
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"$HOME/.ssh/**", "/etc/**", ".env", "*.pem"}}})
	for _, path := range []string{
		"@/etc/passwd", "@~/.ssh/id_rsa", "@@/etc/passwd", " @/etc/passwd", "</etc/passwd", "@file:///etc/passwd",
		`"/etc/passwd"`, `'/etc/passwd'`, "`/etc/passwd`", `/etc/"passwd"`, `"@/etc/passwd"`, `@"/etc/passwd"`, `/"etc"/x`, `'~/.ssh/x'`,
		"data=@/etc/passwd", "if=/etc/passwd", "--file=/etc/passwd", "-d@/etc/passwd", "-I/etc/ssl", "-f~/.ssh/id_rsa", "--key=$HOME/.ssh/id_rsa", `--key="/etc/x"`,
		"%40/etc/passwd", "%22/etc/passwd%22", "file:////etc/passwd", `file:\\\etc\passwd`, `FILE:\etc\passwd`, "file:/\\/etc/passwd", "file://127.0.0.1/etc/passwd", "url:file:///etc/passwd",
		"jar:file:/etc/x!/y", "file:etc/passwd", "file:%2Fetc%2Fpasswd", "file://%2fetc/passwd",
		"/etc/pass*", "/et?/passwd", "/e*c/passwd", "/[e]tc/passwd", "/[!a]tc/passwd", "/*/passwd", "/**", "/**/passwd", "/home/*/.ssh/id_rsa", "/home/u/.s*", "~/.ss?/id_rsa",
		"/home/u/.s[a-z]h/x", "%2fet%3f/passwd", "/home/u/**/id_rsa", "/srv/.en*", ".en?", "/srv/*.pem", "*.p?m", "/srv/.[e]nv",
		"/{etc,usr}/passwd", "/{,usr/}etc/passwd", "/e{t,x}c/passwd", "/{a,{b,etc}}/passwd", "{/etc/passwd,/x}", "/home/u/.{ssh,x}/id_rsa", "/{{..},etc}/passwd", "/}/{../etc,x}/passwd", "/{x/{../{etc,y},z}/passwd", "/{a..f}tc/passwd", "~/{.ssh,x}/y",
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Deny || v.Change == nil {
			t.Errorf("%q: %+v", path, v)
		}
	}
	for _, path := range []string{
		"me@example.com", "/srv/@scope/package", "@scope/package", "a=b", "x=/srv/y", "-v", "--verbose", "-I/srv/include", `/srv/"a"`, "/srv/Bob's file", "`ls`",
		"*", "**", "**/*", "*.go", "src/**/*.go", "/srv/*", "/srv/**", "/srv/**/*.ts", "/srv/app/[id].tsx", "/srv/[slug]/page.tsx", "/home/u/work/*", "/home/u/work/**/*.md", "a?b",
		"/srv/{a,b}", "/srv/{}", "/srv/{a}", "{", "/srv/a{b", "/srv/a}b,c", "/srv/{1..3}", "pages/{x,y}.go", "file:///srv/a", "/srv/100*", "?", "C*/x",
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != governance.Pass {
			t.Errorf("%q: %s", path, v.Reason)
		}
	}
}

// What is allowed is allowed in braces, and by what stands for several names as
// long as it stays where it is.
func TestAllowedPathsInWrappings(t *testing.T) {
	t.Parallel()
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{AllowedPaths: []string{"/srv/**"}}})
	for path, want := range map[string]governance.Outcome{
		"/srv/*": governance.Pass, "/srv/**/*.go": governance.Pass, "/srv/{a,b}/c": governance.Pass, "/srv/[id].tsx": governance.Pass, "/srv/.e*": governance.Pass,
		"/srv/{a,../etc}/x": governance.Deny, "/srv/{..,a}/etc": governance.Deny, "{/srv,/etc}/x": governance.Deny, "/srv/.*/x": governance.Deny, "/srv/.?/etc": governance.Deny,
		"/*/x": governance.Deny, "@/srv/x": governance.Deny, `"/srv/x"`: governance.Deny, "/srv/" + strings.Repeat("{a,b}", 40): governance.Deny, "/srv/{a,b}{c,d}": governance.Pass,
	} {
		if v := r.Judge(pathCall(path)); v.Outcome != want {
			t.Errorf("%q: %s %s, want %s", path, v.Outcome, v.Reason, want)
		}
	}
}

// However a path is written, reading it takes about as long as it is long: no
// caller may hold a processor with one argument.
func TestPathsAreReadInTheTimeOfTheirLength(t *testing.T) {
	t.Parallel()
	r := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**", ".env", "*.k?y", "/a/**/b/**/c/**/*.d"}}})
	for name, path := range map[string]string{
		"closed braces": strings.Repeat("{", 2700) + strings.Repeat("a,b}", 1300), "open braces": strings.Repeat("{", 8000), "open commas": strings.Repeat("{,", 4000),
		"braces of one": strings.Repeat("{", 4000) + strings.Repeat("}", 4000), "many braces": strings.Repeat("{a,b}", 1600), "ranges": strings.Repeat("{a..b}", 1300),
		"commas": "{" + strings.Repeat(",", 8000) + "}", "relative": strings.Repeat("a/", 4000), "wild": strings.Repeat("a*/", 2700), "absolute": strings.Repeat("/a*", 2700),
	} {
		const most = 4 * time.Second
		took := most + 1
		for try := 0; took > most && try < 5; try++ { // the machine may be busy with something else
			begin := time.Now()
			for range 16 { // as many as a call may well have
				r.Judge(pathCall(path))
			}
			took = time.Since(begin)
		}
		if took > most {
			t.Errorf("%s: %v", name, took)
		}
	}
}

// Names of members are paths where files are given by them.
func TestPathsThatAreNames(t *testing.T) {
	t.Parallel()
	byName := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{ForbiddenPaths: []string{"/etc/**", ".env", "$HOME/.ssh/**"}}})
	for arguments, want := range map[string]governance.Outcome{
		`{"files":{"/etc/passwd":"x"}}`:                  governance.Deny,
		`{"files":{"app/.env":"x"}}`:                     governance.Deny,
		`{"files":[{"sub/.env":"x"}]}`:                   governance.Deny,
		`{"changes":{"/etc/passwd":"x"}}`:                governance.Deny,
		`{"changes":{"~/.ssh/id_rsa":{"add":"x"}}}`:      governance.Deny,
		`{"changes":{"file:///etc/passwd":1}}`:           governance.Deny,
		`{"changes":{"../../etc/passwd":1}}`:             governance.Deny,
		`{"a":{"b":[{"/etc/./passwd":null}]}}`:           governance.Deny,
		`{"files":{"lib/a.go":"/etc/passwd is a file"}}`: governance.Pass,
		`{"headers":{"text/.env":"x"}}`:                  governance.Pass, // of which nothing says that it is a path
		`{"content":{"application/json":{"a":1}}}`:       governance.Pass,
		`{"files":{".env-like":"x"}}`:                    governance.Pass,
		`{"env":{".env":"x","etc":"y"}}`:                 governance.Pass,
	} {
		if v := byName.Judge(call("t", arguments)); v.Outcome != want {
			t.Errorf("%s: %s %s, want %s", arguments, v.Outcome, v.Reason, want)
		}
	}
	named := rules(t, governance.Rule{Match: "*", Tool: governance.Tool{PathsIn: []string{"/changes"}, AllowedPaths: []string{"/srv/**"}}})
	for arguments, want := range map[string]governance.Outcome{
		`{"changes":{"/srv/a":"/srv/b"}}`:                  governance.Pass,
		`{"changes":{"/etc/a":"/srv/b"}}`:                  governance.Deny,
		`{"changes":{"mode":"/srv/b"},"x":{"/etc/a":"y"}}`: governance.Pass,
		`{"changes":{"sub/a":"/srv/b"}}`:                   governance.Deny, // of a folder that is not known
	} {
		if v := named.Judge(call("t", arguments)); v.Outcome != want {
			t.Errorf("%s: %s %s, want %s", arguments, v.Outcome, v.Reason, want)
		}
	}
}

// An empty list of paths would switch the rules about paths off.
func TestNoPathsAreAnError(t *testing.T) {
	t.Parallel()
	for _, own := range []governance.Rule{
		{Match: "x", Tool: governance.Tool{PathsIn: []string{}, AllowedPaths: []string{"/srv/**"}}}, {Match: "x", Tool: governance.Tool{PathsIn: []string{}}},
	} {
		if _, err := governance.New([]governance.Rule{own}, governance.Options{Home: home}); err == nil || !strings.Contains(err.Error(), "paths_in: an empty list") {
			t.Errorf("%+v: %v", own, err)
		}
	}
}
