package opa_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/testwait"
)

// What is wrong with a policy is said with file and line, and all of it.
func TestLoadErrors(t *testing.T) {
	t.Parallel()
	const good = "package toolgate\n\ndecision := true\n"
	tests := []struct {
		name string
		f    files
		want []string
	}{
		{"syntax", files{"a.rego": "package toolgate\n\ndecision := {\n", "b/b.rego": "package toolgate\n\nx = = 1\n"}, []string{"a.rego:4: rego_parse_error", "b.rego:3: rego_parse_error"}},
		{"type", policy("decision := true if 1 + \"a\" == 2"), []string{"policy.rego:3: rego_type_error"}},
		{"unused variable", policy("decision := true if {\n\tx := 1\n}"), []string{"policy.rego:4: rego_compile_error"}},
		{"http.send", policy(`decision := http.send({"method": "get", "url": "http://127.0.0.1"}).status_code == 200`), []string{"policy.rego:3: rego_type_error: undefined function http.send"}},
		{"opa.runtime", policy(`decision := opa.runtime().env.SECRET == "a"`), []string{"undefined function opa.runtime"}},
		{"net.lookup_ip_addr", policy(`decision := count(net.lookup_ip_addr("localhost")) > 0`), []string{"undefined function net.lookup_ip_addr"}},
		{"rand.intn", policy(`decision := rand.intn("a", 2) == 1`), []string{"undefined function rand.intn"}},
		{"trace", policy(`decision := trace("a")`), []string{"undefined function trace"}},
		{"uuid", policy(`decision := uuid.rfc4122("a") != ""`), []string{"undefined function uuid.rfc4122"}},
		{"a schema of a file", policy(`decision := json.verify_schema({"$ref": "file:///etc/passwd"})[0]`), []string{"policy.rego:3: rego_type_error: undefined function json.verify_schema"}},
		{"a match with a schema of a file", policy(`decision := json.match_schema({}, {"$ref": "file:///etc/passwd"})[0]`), []string{"policy.rego:3: rego_type_error: undefined function json.match_schema"}},
		{"http.send by another name", policy("decision if f(1)\nf(x) := true with http.send as f"), []string{"rego_"}},
		{"no decision", policy("decisions := true"), []string{"no rule data.toolgate.decision"}},
		{"decision in data", files{"a.rego": "package other\n\nx := 1\n", "toolgate/data.json": `{"decision": true}`}, []string{"no rule data.toolgate.decision"}},
		{"decision is a function", policy("decision(x) := x"), []string{"policy.rego:3: data.toolgate.decision is a function"}},
		{"nothing", files{"README.md": "hello"}, []string{"no rule"}},
		{"only tests", files{"a_test.rego": good}, []string{"no rule"}},
		{"wrong type in the first question", policy("decision := 1"), []string{"first question", "a number"}},
		{"builtin error in the first question", policy("decision := to_number(input.server)"), []string{"policy.rego:3: eval_builtin_error"}},
		{"conflict in the first question", policy("decision := true\ndecision := false if input"), []string{"eval_conflict_error"}},
		{"data under another name", files{"a.rego": good, "deny.json": `{}`, "b/tools.yaml": `{}`}, []string{"deny.json: is not loaded under this name", "b/tools.yaml: is not loaded"}},
		{"data is broken", files{"a.rego": good, "data.json": "{\n\"a\": 1,\n}"}, []string{"data.json:3:"}},
		{"key twice", files{"a.rego": good, "data.json": "{\n\"global_tool_deny\": [\"a\"],\n\"global_tool_deny\": []}"}, []string{"data.json:3:"}},
		{"key twice in YAML", files{"a.rego": good, "data.yaml": "global_tool_deny: [a]\nglobal_tool_deny: []\n"}, []string{"data.yaml:", "already defined"}},
		{"key in two files", files{"a.rego": good, "data.json": `{"a": {"b": 1}}`, "a/data.yaml": "b: 2\n"}, []string{"data.a.b is in another file"}},
		{"data is a list", files{"a.rego": good, "data.json": `[]`}, []string{"data.json: is an array"}},
		{"data is where a rule is", files{"a.rego": good, "toolgate/data.json": `{"decision": true}`}, []string{"a.rego:3", "conflict"}},
		{"wrong shape in a folder", files{"a.rego": good, "tenant_tool_flags/data.yaml": "acme: {x: off}\n"}, []string{"data.yaml: tenant_tool_flags.acme.x is a string"}},
		{"manifest", files{"a.rego": good, ".manifest": `{"revision": 7}`}, []string{".manifest: not a manifest"}},
		{"delta", files{"a.rego": good, "patch.json": `{}`}, []string{"delta bundles"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			packed := filepath.Join(t.TempDir(), "policy.tar.gz")
			if err := os.WriteFile(packed, bundle(t, tt.f), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{folder(t, tt.f), packed} {
				_, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: path}})
				if err == nil {
					t.Fatalf("%s was loaded", path)
				}
				for _, want := range tt.want {
					if path == packed && tt.name == "nothing" {
						want = "no file of a policy"
					}
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want %q", err, want)
					}
				}
			}
		})
	}
}

// A bundle that is damaged, cut off or too large is refused.
func TestBadBundles(t *testing.T) {
	t.Parallel()
	good := bundle(t, policy("decision := true"))
	for name, raw := range map[string][]byte{
		"empty": {}, "text": []byte("package toolgate"), "cut off": good[:len(good)/2], "without checksum": good[:len(good)-4],
		"damaged": append(append([]byte{}, good[:len(good)-8]...), 1, 2, 3, 4, 5, 6, 7, 8), "bomb": bomb(t, "data.json"), "bomb in a file that is skipped": bomb(t, "big.bin"),
		"outside": bundle(t, files{"../policy.rego": "package toolgate\n\ndecision := true\n"}),
	} {
		path := filepath.Join(t.TempDir(), "policy.tar.gz")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		want := path
		if strings.HasPrefix(name, "bomb") {
			want = "at most 4096 files and 64 MiB"
		}
		if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Path: path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// bomb is a small bundle with one large file. A gzip file may consist of
// several, so that one MiB has to be compressed only once.
func bomb(t *testing.T, name string) []byte {
	t.Helper()
	const mebibytes = 65
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: mebibytes << 20, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	part := func(raw []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	out := part(head.Bytes())
	out = append(out, bytes.Repeat(part(make([]byte, 1<<20)), mebibytes)...)
	return append(out, part(make([]byte, 1024))...) // the end of a tar
}

// A policy's own data are beside the gateway's. Where those have another shape, the
// former stay.
func TestDataOfBoth(t *testing.T) {
	t.Parallel()
	changes := 0
	p := newPhase(t, opa.Options{
		Settings: opa.Settings{
			Path: folder(t, files{
				"policy.rego":              "package toolgate\n\ndefault decision := false\n\ndecision if {\n\tinput.tool_name in data.own.names\n\tnot input.tool_name in data.global_tool_deny\n}\n",
				"own/data.yaml":            "names: [a, b]\n",
				"global_tool_deny/x.md":    "",
				"persona_tool_deny/a.rego": "package a.b\n",
			}),
		},
		OnChange: func() { changes++ },
	})
	first := p.Status()
	wantAllow(t, decide(t, p, view("a")))
	for range 2 {
		if err := p.SetData(opa.Data{GlobalToolDeny: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	}
	if changes != 1 {
		t.Errorf("%d changes were told, want 1", changes)
	}
	d := decide(t, p, view("a"))
	wantDeny(t, d, "policy_denied")
	if s := p.Status(); s.Revision == first.Revision || s.Revision != d.Revision || s.Err != nil || s.Since.Before(first.Since) {
		t.Errorf("status %+v after %+v, decision %+v", s, first, d)
	}
	wantAllow(t, decide(t, p, view("b")))
	for _, bad := range []opa.Data{
		{GlobalToolDeny: []string{""}},
		{TenantToolFlags: map[string]map[string]opa.Flag{"": {}}},
		{ToolCatalog: map[string]opa.Tool{"a": {Attributes: map[string]any{"f": func() {}}}}},
	} {
		if err := p.SetData(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	wantDeny(t, decide(t, p, view("a")), "policy_denied")
}

// The same bytes have the same revision wherever they are.
func TestRevision(t *testing.T) {
	t.Parallel()
	a, b := asking(t, "decision := true"), asking(t, "decision := true")
	if a.Status().Revision != b.Status().Revision {
		t.Errorf("revisions %q and %q", a.Status().Revision, b.Status().Revision)
	}
	f := policy("decision := true")
	f[".manifest"] = `{"revision": "v7"}`
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, f)}, Data: opa.Data{GlobalToolDeny: []string{}}})
	if got := decide(t, p, view("a")).Revision; !strings.HasPrefix(got, "v7+data:") {
		t.Errorf("revision %q", got)
	}
}

// Kubernetes mounts files as links into a folder that is replaced.
func TestFolderOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"..2026_01/policy.rego": "package toolgate\n\ndecision := true\n"})
	if err := os.Symlink("..2026_01", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..data/policy.rego", filepath.Join(dir, "policy.rego")); err != nil {
		t.Fatal(err)
	}
	wantAllow(t, decide(t, newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}}), view("a")))
}

// running starts a phase's Run and ends it with the test.
func running(t *testing.T, p *opa.Phase) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 2 * time.Minute

// A folder is watched: what is changed, added and taken away takes effect, a
// broken policy does not, and its end ends the error.
func TestFolderIsWatched(t *testing.T) {
	t.Parallel()
	dir := folder(t, policy(`decision := {"allow": false, "reason": "one"}`))
	var changes atomic.Int32
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}, OnChange: func() { changes.Add(1) }})
	running(t, p)
	reason := func() string { return decide(t, p, view("a")).Reason }
	if got := reason(); got != "one" {
		t.Fatalf("reason %q", got)
	}
	// In a new folder, and then in that folder.
	write(t, dir, files{"policy.rego": "package toolgate\n\ndecision := {\"allow\": false, \"reason\": data.new.reason}\n", "new/data.json": `{"reason": "two"}`})
	testwait.Until(t, patience, "the new rule", func() bool { return reason() == "two" })
	write(t, dir, files{"new/data.json": `{"reason": "three"}`})
	testwait.Until(t, patience, "the new data", func() bool { return reason() == "three" })
	if p.Status().Err != nil || changes.Load() < 2 {
		t.Errorf("status %+v after %d changes", p.Status(), changes.Load())
	}
	before := p.Status().Revision
	write(t, dir, files{"policy.rego": "package toolgate\n\ndecision := {\n"})
	testwait.Until(t, patience, "the error", func() bool { return p.Status().Err != nil })
	if s := p.Status(); s.Revision != before || s.ErrSince.IsZero() || !strings.Contains(s.Err.Error(), "policy.rego:4") || reason() != "three" {
		t.Errorf("status %+v, reason %q", s, reason())
	}
	// By rename, as editors do.
	write(t, dir, files{".new": "package toolgate\n\ndecision := {\"allow\": false, \"reason\": \"four\"}\n"})
	if err := os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "policy.rego")); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the repaired rule", func() bool { return reason() == "four" && p.Status().Err == nil })
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the error of a folder that is gone", func() bool { return p.Status().Err != nil })
	if got := reason(); got != "four" {
		t.Errorf("reason %q", got)
	}
}

// A bundle on disk is watched in its folder.
func TestBundleFileIsWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.tar.gz")
	put := func(raw []byte) {
		if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	good := bundle(t, policy(`decision := {"allow": false, "reason": "two"}`))
	put(bundle(t, policy(`decision := {"allow": false, "reason": "one"}`)))
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: path}})
	running(t, p)
	put(good[:len(good)-10])
	testwait.Until(t, patience, "the error of a bundle that is cut off", func() bool { return p.Status().Err != nil })
	wantDeny(t, decide(t, p, view("a")), "one")
	put(good)
	testwait.Until(t, patience, "the new bundle", func() bool { return decide(t, p, view("a")).Reason == "two" })
	testwait.Until(t, patience, "the end of the error", func() bool { return p.Status().Err == nil })
}

// 96 policies take each other's place under load, a third of them broken; no
// decision is anything but that of one whole policy with its own data.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	rego := func(i int) string {
		return fmt.Sprintf("package toolgate\n\ndefault decision := false\n\ndecision := {\"allow\": false, \"reason\": sprintf(\"%%v %%v\", [%d, data.n])} if input\n", i)
	}
	dir := folder(t, files{"policy.rego": rego(0), "data.json": `{"n": 0}`})
	p := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				asked.Add(1)
				d, err := p.Check(context.WithoutCancel(ctx), call("a", `{}`))
				a, b, ok := strings.Cut(d.Reason, " ")
				if err != nil || !ok || a != b {
					t.Errorf("decision %+v, error %v", d, err)
					return
				}
			}
		})
	}
	packed := newPhase(t, opa.Options{Settings: opa.Settings{Path: dir}})
	for i := range 96 {
		f := files{"policy.rego": rego(i), "data.json": fmt.Sprintf(`{"n": %d}`, i)}
		switch i % 3 {
		case 0:
			f["policy.rego"] = "package toolgate\n\ndecision := {"
		case 1:
			if err := packed.SetData(opa.Data{GlobalToolDeny: []string{fmt.Sprint(i)}}); err != nil {
				t.Error(err)
			}
		}
		changed, err := opa.Replace(p, folder(t, f))
		if (err == nil) != (i%3 != 0) || changed != (i%3 != 0) {
			t.Errorf("%d: changed %v, error %v", i, changed, err)
		}
		if d, err := p.Check(t.Context(), &gate.Request{Identity: alice(), Action: gate.View, Kind: 1}); err != nil || i%3 != 0 && d.Reason != fmt.Sprintf("%d %d", i, i) {
			t.Errorf("%d: decision %+v, error %v", i, d, err)
		}
	}
	cancel()
	wg.Wait()
	if asked.Load() < 96 {
		t.Errorf("only %d decisions were asked for", asked.Load())
	}
}
