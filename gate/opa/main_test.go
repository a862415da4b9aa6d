package opa_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/mcp"
)

// shipped is the folder of the policy that we ship, and of data that it reads.
const shipped = "../../examples/policies/policies"

// defaultPolicy is a folder with the policy that we ship and its tests, without data.
var defaultPolicy string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "policy")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"default.rego", "default_test.rego"} {
		text, err := os.ReadFile(filepath.Join(shipped, name))
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			panic(err)
		}
	}
	defaultPolicy = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if os.RemoveAll(dir) != nil {
			code = 1
		}
		os.Exit(code)
	}))
}

var _ gate.Phase = (*opa.Phase)(nil)

// files are the contents of a folder by name.
type files map[string]string

// policy is the files of a policy that is one module.
func policy(rego string) files { return files{"policy.rego": "package toolgate\n\n" + rego} }

// folder writes files into a new folder.
func folder(t testing.TB, f files) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, f)
	return dir
}

func write(t testing.TB, dir string, f files) {
	t.Helper()
	for name, text := range f {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// bundle packs files as `opa build` does.
func bundle(t testing.TB, f files) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := w.WriteHeader(&tar.Header{Name: "/" + name, Mode: 0o600, Size: int64(len(f[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// newPhase returns a phase that must load. Where a test does not say how long
// decisions may take, they may take long: the machine has other things to do.
func newPhase(t testing.TB, o opa.Options) *opa.Phase {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.ListTimeout == 0 {
		o.ListTimeout = time.Minute
	}
	p, err := opa.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asking returns a phase for a policy of one module.
func asking(t testing.TB, rego string) *opa.Phase {
	t.Helper()
	return newPhase(t, opa.Options{Settings: opa.Settings{Path: folder(t, policy(rego))}})
}

func alice() *gate.Identity {
	return gate.NewIdentity(gate.Identity{
		Principal: gate.Principal{Issuer: "https://issuer.example", Tenant: "acme", Subject: "alice"},
		Persona:   "bot", Groups: []string{"dev"}, Scopes: []string{"read"}, Plan: "team",
	})
}

// call is a request for a tool.
func call(name, args string) *gate.Request {
	r := &gate.Request{
		Action: gate.Call, Kind: mcp.Tool, Server: "fs", Original: "read", Exposed: name,
		CapabilityID: "cap_1", Identity: alice(),
	}
	if args != "" {
		r.Args = []byte(args)
	}
	return r
}

func view(name string) *gate.Request {
	r := call(name, "")
	r.Action = gate.View
	return r
}

func enable(name string) *gate.Request {
	r := call(name, "")
	r.Action = gate.Enable
	return r
}

// decide asks a phase as a gate does, in which nothing else denies.
func decide(t testing.TB, p gate.Phase, r *gate.Request) gate.Decision {
	t.Helper()
	return gate.NewChain(p).Decide(t.Context(), r)
}

// wantAllow and wantDeny check a decision and its identity.
func wantAllow(t testing.TB, d gate.Decision) {
	t.Helper()
	if d.Effect != gate.Allow || d.Err != nil || d.Reason != "" {
		t.Errorf("decision %+v, want an allow", d)
	}
	wantIdentity(t, d)
}

func wantDeny(t testing.TB, d gate.Decision, reason string) {
	t.Helper()
	if d.Effect != gate.Deny || d.Reason != reason || (d.Err != nil) != (reason == "policy_error") {
		t.Errorf("decision %+v, want a deny for %q", d, reason)
	}
	wantIdentity(t, d)
}

func wantIdentity(t testing.TB, d gate.Decision) {
	t.Helper()
	if d.ID == "" || d.Revision == "" || d.Phase != "opa" {
		t.Errorf("decision %+v has no id, revision or phase", d)
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
