package opa_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	opabundle "github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/opa"
)

// pemOf returns a private key and its public one.
func pemOf(t testing.TB, private, own any) (signing string, public []byte) {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown})
}

// replaceCopy writes another bundle in the place of the one copy.
func replaceCopy(t testing.TB, dir string, raw []byte) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "policy-*.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("copies %q, error %v", found, err)
	}
	if err := os.WriteFile(found[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// signature is what `opa sign` writes for files.
func signature(t testing.TB, f files, key, algorithm string) string {
	t.Helper()
	var list []opabundle.FileInfo
	for name, text := range f {
		hash, err := opabundle.NewSignatureHasher(opabundle.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		var value any = []byte(text)
		if opabundle.IsStructuredDoc(name) {
			if err := util.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := hash.HashFile(value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, opabundle.NewFile(name, hex.EncodeToString(sum), string(opabundle.SHA256)))
	}
	token, err := opabundle.GenerateSignedToken(list, opabundle.NewSigningConfig(key, algorithm, ""), "theirs")
	if err != nil {
		t.Fatal(err)
	}
	return `{"signatures": ["` + token + `"]}`
}

// built is what `opa build --signing-key` makes of files.
func built(t testing.TB, f files, key string) []byte {
	t.Helper()
	b, err := opabundle.NewReader(bytes.NewReader(bundle(t, f))).Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.GenerateSignature(opabundle.NewSigningConfig(key, "RS256", ""), "theirs", false); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := opabundle.NewWriter(&out).Write(b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func with(f files, name, text string) files {
	f = maps.Clone(f)
	f[name] = text
	return f
}

func without(f files, name string) files {
	f = maps.Clone(f)
	delete(f, name)
	return f
}

// With a key, a policy is the one that was signed, whole and as it was, and no other.
func TestSignedBundle(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	other, err2 := rsa.GenerateKey(rand.Reader, 2048)
	curve, err3 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	plain := files{
		"policy.rego":   "package toolgate\n\ndefault decision := false\n\ndecision if not input.tool_name in data.own.denied\n",
		"own/data.json": `{"denied": ["bad"]}`, ".manifest": `{"revision": "7", "roots": [""], "rego_version": 1}`,
	}
	key, public := pemOf(t, private, &private.PublicKey)
	otherKey, _ := pemOf(t, other, &other.PublicKey)
	curveKey, curvePublic := pemOf(t, curve, &curve.PublicKey)
	sum := signature(t, plain, key, "RS256")
	signed := with(plain, ".signatures.json", sum)
	for name, tt := range map[string]struct {
		files  files
		key    []byte
		reason string // empty: it is loaded
	}{
		"signed":                {signed, public, ""},
		"spelled otherwise":     {with(signed, "own/data.json", "{ \"denied\" : [\"bad\"] }"), public, ""},
		"signed on a curve":     {with(plain, ".signatures.json", signature(t, plain, curveKey, "ES256")), curvePublic, ""},
		"not signed":            {plain, public, "it is not signed"},
		"signed by another":     {with(plain, ".signatures.json", signature(t, plain, otherKey, "RS256")), public, "not one of opa.bundle_key"},
		"another algorithm":     {signed, curvePublic, "not one of opa.bundle_key"},
		"signed with the key":   {with(plain, ".signatures.json", signature(t, plain, string(public), "HS256")), public, "not one of opa.bundle_key"},
		"another rule":          {with(signed, "policy.rego", "package toolgate\n\ndecision := true\n"), public, "policy.rego"},
		"other data":            {with(signed, "own/data.json", `{"denied": []}`), public, "own/data.json"},
		"another manifest":      {with(signed, ".manifest", `{"revision": "8"}`), public, ".manifest"},
		"a further rule":        {with(signed, "more.rego", "package toolgate\n\ndecision if true\n"), public, "more.rego not included"},
		"data taken out":        {without(signed, "own/data.json"), public, "own/data.json is signed and not in it"},
		"manifest taken out":    {without(signed, ".manifest"), public, ".manifest is signed and not in it"},
		"no signature in it":    {with(plain, ".signatures.json", `{"signatures": []}`), public, "not one of opa.bundle_key"},
		"a plugin that is none": {with(plain, ".signatures.json", strings.Replace(sum, "{", `{"plugin": "mine", `, 1)), public, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBundleServer(t, bundle(t, tt.files))
			p, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: s.URL, BundleKey: keyFile(t, tt.key)}})
			if tt.reason != "" {
				if err == nil || !strings.Contains(err.Error(), tt.reason) {
					t.Fatalf("error %v, want %q", err, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantAllow(t, decide(t, p, call("good", "{}")))
			wantDeny(t, decide(t, p, call("bad", "{}")), "policy_denied")
		})
	}
	made := newBundleServer(t, built(t, plain, key))
	p := newPhase(t, opa.Options{Settings: opa.Settings{Bundle: made.URL, BundleKey: keyFile(t, public)}})
	wantAllow(t, decide(t, p, call("good", "{}")))
	wantDeny(t, decide(t, p, call("bad", "{}")), "policy_denied")
}

// A copy that somebody has put in the place of the last good one is not used.
func TestSignedCopy(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, public := pemOf(t, private, &private.PublicKey)
	plain := files{"policy.rego": "package toolgate\n\ndefault decision := false\n", ".manifest": `{"roots": [""], "rego_version": 1}`}
	s := newBundleServer(t, bundle(t, with(plain, ".signatures.json", signature(t, plain, key, "RS256"))))
	o := opa.Options{Settings: opa.Settings{Bundle: s.URL, BundleKey: keyFile(t, public)}, CopyDir: t.TempDir()}
	newPhase(t, o)
	s.set(nil, "", http.StatusInternalServerError)
	wantDeny(t, decide(t, newPhase(t, o), call("x", "{}")), "policy_denied")
	replaceCopy(t, o.CopyDir, bundle(t, policy("decision := true")))
	if _, err := opa.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it is not signed") {
		t.Errorf("error %v", err)
	}
}

// keyFile writes a key into a file.
func keyFile(t *testing.T, key []byte) string {
	t.Helper()
	if key == nil {
		return ""
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBundleKeyThatIsNone(t *testing.T) {
	t.Parallel()
	_, edward, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, public := pemOf(t, edward, edward.Public())
	for text, want := range map[string]string{
		"":                      "one public key in PEM",
		"secret":                "one public key in PEM",
		private:                 "must hold a public key",
		string(public):          "with which bundles are not signed",
		string(public) + "more": "one public key in PEM",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n": "cannot be read",
	} {
		if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: "https://policy.example/b", BundleKey: keyFile(t, []byte(text))}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{Bundle: "https://policy.example/b", BundleKey: filepath.Join(t.TempDir(), "none")}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// What decides does not come from afar in clear, nor what is shown to get it.
func TestPolicyInClear(t *testing.T) {
	t.Parallel()
	for _, o := range []opa.Options{
		{Settings: opa.Settings{Bundle: "http://policy.example/bundle.tar.gz"}, Header: http.Header{"Authorization": {"Bearer x"}}},
		{Settings: opa.Settings{URL: "http://opa.policy.svc:8181"}},
		{Settings: opa.Settings{URL: "http://127.0.0.1.nip.io:8181"}},
		{Settings: opa.Settings{URL: "http://10.0.0.1:8181"}},
		{Settings: opa.Settings{URL: "http://0.0.0.0:8181"}},
	} {
		if _, err := opa.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "must begin with https://") {
			t.Errorf("%s%s: %v", o.Bundle, o.URL, err)
		}
	}
	for _, url := range []string{"http://localhost:8181", "http://[::1]:8181", "http://127.0.0.2:8181", "https://opa.policy.svc"} {
		p, err := opa.New(t.Context(), opa.Options{Settings: opa.Settings{URL: url}})
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if d := decide(t, p, nil); d.Effect == gate.Allow {
			t.Error("nothing is allowed")
		}
	}
}
