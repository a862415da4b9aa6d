//go:build !windows

package cli

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/testport"
)

// examined runs the doctor and returns its findings.
func (h *home) examined(t *testing.T, args ...string) (found []doctor.Finding, code int) {
	t.Helper()
	o := h.run(t, append([]string{"doctor", "-o", "json"}, args...)...)
	var out struct {
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil {
		t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
	}
	for _, f := range out.Findings {
		if _, known := doctor.Find(f.Code); !known || f.What == "" || f.Fix == "" || f.Subject == "" || f.Level == "" {
			t.Errorf("incomplete: %+v", f)
		}
	}
	ofDisk := func(f doctor.Finding) bool { return f.Code == doctor.CodeDisk } // the disk is that of the machine
	return slices.DeleteFunc(out.Findings, ofDisk), o.code
}

// withoutPath keeps programs of this machine out of a test.
func (h *home) withoutPath(t *testing.T) {
	t.Helper()
	bin := h.path("bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	h.env["PATH"] = bin
}

func (h *home) keep(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := h.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

// jwt is an unsigned token with an end, which is all that the doctor reads of one.
func jwtUntil(end time.Time) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":"a","exp":%d}`, end.Unix())) + "." + part("x")
}

// answering is a server that gives one answer.
func answering(t *testing.T, status int, header http.Header) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// foreign is this program with the header of one for a processor that nobody has.
func foreign(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	text = text[:min(len(text), 1<<16)]
	switch {
	case strings.HasPrefix(string(text), "\x7fELF"):
		text[18], text[19] = 8, 0 // e_machine: MIPS
	default:
		text[4], text[5], text[6], text[7] = 18, 0, 0, 0 // cputype: PowerPC
	}
	return string(text)
}

// Every condition gives its own code, by itself.
func TestDoctorFindsRealConditions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, code, subject string
		make                func(*testing.T, *home) // the condition
		warning             bool
		with                string // a further file
	}{
		{name: "command not found", code: doctor.CodeNoCommand, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"command": "no-such-program"}}, nil)
		}},
		{name: "wrong architecture", code: doctor.CodeArchitecture, subject: "a", make: func(t *testing.T, h *home) {
			path := h.keep(t, "program", foreign(t), 0o700)
			if _, err := os.StartProcess(path, []string{path}, &os.ProcAttr{}); err == nil {
				t.Fatal("this machine runs it")
			}
			h.write(t, servers{"a": {"command": path}}, nil)
		}},
		{name: "not executable", code: doctor.CodeNotExecutable, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"command": h.keep(t, "program", "#!/bin/sh\n", 0o600)}}, nil)
		}},
		{name: "no interpreter", code: doctor.CodeInterpreter, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"command": h.keep(t, "program", "#!/opt/no/such/python -u\n", 0o700)}}, nil)
		}},
		{name: "no node", code: doctor.CodeNoNode, subject: "a", make: func(t *testing.T, h *home) {
			h.withoutPath(t)
			h.write(t, servers{"a": {"command": "npx", "args": []string{"-y", "x"}}}, nil)
		}},
		{name: "no uv", code: doctor.CodeNoUV, subject: "a", make: func(t *testing.T, h *home) {
			h.withoutPath(t)
			h.write(t, servers{"a": {"command": "uvx"}}, nil)
		}},
		{name: "no docker", code: doctor.CodeNoDocker, subject: "a", make: func(t *testing.T, h *home) {
			h.withoutPath(t)
			h.write(t, servers{"a": {"command": "docker"}}, nil)
		}},
		{name: "no folder", code: doctor.CodeNoFolder, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"command": os.Args[0], "cwd": h.path("absent")}}, nil)
		}},
		{name: "port taken", code: doctor.CodePort, subject: "listen.http", make: func(t *testing.T, h *home) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			h.env["TOOLGATE_LISTEN_HTTP"] = l.Addr().String()
			h.write(t, servers{"a": fake()}, nil)
		}},
		{name: "address of another", code: doctor.CodeAddress, subject: "listen.http", make: func(t *testing.T, h *home) {
			h.env["TOOLGATE_LISTEN_HTTP"] = "192.0.2.1:7777" // RFC 5737: nobody's
			h.write(t, servers{"a": fake()}, map[string]any{"auth": map[string]any{"keys": []any{map[string]any{"id": "a", "sha256": strings.Repeat("0", 64), "subject": "a"}}}, "gate": map[string]any{"open": true}})
		}},
		{name: "open to the network", code: doctor.CodeOpen, subject: "listen.http", warning: true, make: func(t *testing.T, h *home) {
			h.env["TOOLGATE_LISTEN_HTTP"] = "0.0.0.0:0"
			h.write(t, servers{"a": fake()}, nil)
		}},
		{name: "unset variable", code: doctor.CodeUnset, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"command": "${NOT_SET_ANYWHERE}"}}, nil)
		}},
		{name: "refused", code: doctor.CodeRefused, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "ws", "url": "ws://127.0.0.1/"}}, nil)
		}},
		{name: "no servers", code: doctor.CodeNoServers, subject: "*", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{}, nil)
		}},
		{name: "malformed file", code: doctor.CodeFile, subject: "*", make: func(t *testing.T, h *home) { h.writeText(t, "{") }},
		{name: "unknown key", code: doctor.CodeFile, subject: "listn", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"listn": map[string]any{}})
		}},
		{name: "two servers with one namespace", code: doctor.CodeNamespace, subject: "servers.a_b.namespace", make: func(t *testing.T, h *home) {
			h.writeText(t, `{"mcpServers":{"a.b":{"command":"true"},`+"\n"+`"a_b":{"command":"true"}}}`)
		}},
		{name: "a rule about nothing", code: doctor.CodeNames, subject: "*", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"governance": map[string]any{"tools": map[string]any{"nobody__x": map[string]any{"risk": "high"}}}})
		}},
		{name: "a secret that others can read", code: doctor.CodeReadable, subject: "servers.a.env.API_TOKEN", warning: true, make: func(t *testing.T, h *home) {
			s := fake()
			s["env"] = map[string]any{"API_TOKEN": "abcdefghijkl"}
			h.write(t, servers{"a": s}, nil)
			if err := os.Chmod(h.file, 0o644); err != nil { // the condition
				t.Fatal(err)
			}
		}},
		{name: "a secret in a further file that others can read", code: doctor.CodeReadable, subject: "servers.b.env.API_TOKEN", warning: true, with: "more.json", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, nil)
			h.keep(t, "more.json", `{"mcpServers":{"b":{"command":"`+program+`","env":{"API_TOKEN":"abcdefghijkl"}}}}`, 0o644)
		}},
		{name: "expired token", code: doctor.CodeExpired, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusOK, nil), "headers": map[string]any{"Authorization": "Bearer " + jwtUntil(time.Now().Add(-time.Hour))}}}, nil)
		}},
		{name: "expired token of a program", code: doctor.CodeExpired, subject: "a", make: func(t *testing.T, h *home) {
			s := fake()
			s["env"] = map[string]any{"API_TOKEN": "${THE_TOKEN}"}
			h.env["THE_TOKEN"] = jwtUntil(time.Now().Add(-time.Hour))
			h.write(t, servers{"a": s}, nil)
		}},
		{name: "unauthorized", code: doctor.CodeUnauthorized, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusUnauthorized, nil), "headers": map[string]any{"Authorization": "Bearer ${OLD}"}}}, nil)
			h.env["OLD"] = "an-old-token"
		}},
		{name: "nobody has signed in", code: doctor.CodeLogin, subject: "a", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusUnauthorized, nil)}}, nil)
		}},
		{name: "no assertion", code: doctor.CodeAssertion, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusUnauthorized, nil)}},
				map[string]any{"servers": map[string]any{"a": map[string]any{"auth": map[string]any{"mode": "workload", "issuer": "https://id.example", "assertion": h.path("absent")}}}})
		}},
		{name: "plugin checksum", code: doctor.CodePluginChecksum, subject: "native.plugins.weather", make: func(t *testing.T, h *home) {
			path := h.keep(t, "weather", "#!/bin/sh\n", 0o700)
			h.write(t, servers{"a": fake()}, map[string]any{"native": map[string]any{"plugins": map[string]any{"weather": map[string]any{"path": path, "sha256": strings.Repeat("0", 64)}}}})
		}},
		{name: "no plugin", code: doctor.CodePlugin, subject: "native.plugins.weather", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"native": map[string]any{"plugins": map[string]any{"weather": map[string]any{"path": h.path("absent"), "sha256": strings.Repeat("0", 64)}}}})
		}},
		{name: "forbidden", code: doctor.CodeForbidden, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusForbidden, nil)}}, nil)
		}},
		{name: "nothing there", code: doctor.CodeNotThere, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusNotFound, nil)}}, nil)
		}},
		{name: "a server that fails", code: doctor.CodeServerFault, subject: "a", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusBadGateway, nil)}}, nil)
		}},
		{name: "unreachable", code: doctor.CodeUnreachable, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": "http://" + testport.Address(t) + "/mcp"}}, nil)
		}},
		{name: "a host that is none", code: doctor.CodeNoHost, subject: "a", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": {"type": "http", "url": "http://no-such-host.invalid/mcp"}}, nil)
		}},
		{name: "a certificate of nobody's", code: doctor.CodeServerCert, subject: "a", make: func(t *testing.T, h *home) {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of the handshake that ends
			s.StartTLS()
			t.Cleanup(s.Close)
			h.write(t, servers{"a": {"type": "http", "url": s.URL + "/mcp"}}, nil)
		}},
		{name: "clock ten minutes off", code: doctor.CodeClock, subject: "clock", make: func(t *testing.T, h *home) {
			date := http.Header{"Date": {time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)}}
			h.write(t, servers{"a": {"type": "http", "url": answering(t, http.StatusOK, date)}}, nil)
		}},
		{name: "clock off by that of an issuer", code: doctor.CodeClock, subject: "clock", make: func(t *testing.T, h *home) {
			issuer := strings.TrimSuffix(answering(t, http.StatusNotFound, http.Header{"Date": {time.Now().Add(-10 * time.Minute).UTC().Format(http.TimeFormat)}}), "/mcp")
			h.write(t, servers{"a": fake()}, map[string]any{
				"gate": map[string]any{"open": true}, "auth": map[string]any{"jwt": map[string]any{"issuer": issuer, "audience": "x"}},
			})
		}},
		{name: "an issuer that is away", code: doctor.CodeIssuer, subject: "auth.jwt", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{
				"gate": map[string]any{"open": true}, "auth": map[string]any{"jwt": map[string]any{"issuer": "http://" + testport.Address(t), "audience": "x"}},
			})
		}},
		{name: "client file shadowed by another", code: doctor.CodeShadowed, subject: "*", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, nil)
			h.env["HOME"] = h.path("person")
			h.keep(t, "person/.cursor/mcp.json", `{"mcpServers":{"x":{"command":"true"}}}`, 0o600)
			h.keep(t, ".cursor/mcp.json", `{"mcpServers":{"x":{"command":"false"}}}`, 0o600)
		}},
		{name: "client file malformed", code: doctor.CodeClientFile, subject: "*", warning: true, make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, nil)
			h.keep(t, ".cursor/mcp.json", `{"mcpServers":`, 0o600)
		}},
		{name: "client of a toolgate that is gone", code: doctor.CodeClientCommand, subject: "*", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, nil)
			h.keep(t, ".cursor/mcp.json", `{"mcpServers":{"toolgate":{"command":"/opt/gone/toolgate","args":["stdio"]}}}`, 0o600)
		}},
		{name: "store held by another process", code: doctor.CodeStoreHeld, subject: "*", make: func(t *testing.T, h *home) {
			path := h.path("shared.db")
			claim, err := store.Claim(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { claim.Close() })
			h.write(t, servers{"a": fake()}, map[string]any{"store": "sqlite:" + path})
		}},
		{name: "store held behind a link", code: doctor.CodeStoreHeld, subject: "*", make: func(t *testing.T, h *home) {
			path := h.keep(t, "real.db", "", 0o600)
			if err := os.Symlink(path, h.path("link.db")); err != nil {
				t.Fatal(err)
			}
			claim, err := store.Claim(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { claim.Close() })
			h.write(t, servers{"a": fake()}, map[string]any{"store": "sqlite:" + h.path("link.db")})
		}},
		{name: "audit log held by another process", code: doctor.CodeAuditHeld, subject: "*", make: func(t *testing.T, h *home) {
			other := newHome(t)
			settings := map[string]any{"audit": map[string]any{"path": h.path("shared.jsonl")}}
			other.write(t, servers{"a": fake()}, settings)
			other.up(t)
			h.write(t, servers{"a": fake()}, settings)
		}},
		{name: "a store that is none", code: doctor.CodeStore, subject: "store", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"store": "sqlite:" + h.keep(t, "bad.db", strings.Repeat("no database ", 1000), 0o600)})
		}},
		{name: "state folder that is none", code: doctor.CodeState, subject: "*", make: func(t *testing.T, h *home) {
			h.env["TOOLGATE_STATE"] = h.keep(t, "not-a-folder", "", 0o600)
			h.write(t, servers{"a": fake()}, nil)
		}},
		{name: "audit log that cannot be written", code: doctor.CodeAudit, subject: "audit.path", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"audit": map[string]any{"path": h.dir}})
		}},
		{name: "key that is not there", code: doctor.CodeKey, subject: "keys", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"keys": []any{map[string]any{"id": "k", "file": h.path("absent.key")}}})
		}},
		{name: "policy without the decision rule", code: doctor.CodeNoDecision, subject: "opa", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": filepath.Dir(h.keep(t, "policy/p.rego", "package toolgate\n\nother := true\n", 0o600))}})
		}},
		{name: "policy that is none", code: doctor.CodeGate, subject: "gate", make: func(t *testing.T, h *home) {
			h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": filepath.Dir(h.keep(t, "policy/p.rego", "package toolgate\n\ndecision {\n", 0o600))}})
		}},
		{name: "spicedb schema missing", code: doctor.CodeSpiceDBSchema, subject: "spicedb", make: func(t *testing.T, h *home) {
			s := spicedbtest.NewServer()
			for _, kind := range []string{"tool", "user"} {
				s.SetType(kind, nil)
			}
			h.write(t, servers{"a": fake()}, asking(s.Start(t)))
		}},
		{name: "spicedb away", code: doctor.CodeSpiceDB, subject: "spicedb", make: func(t *testing.T, h *home) {
			s := spicedbtest.NewServer()
			address := s.Start(t)
			s.Stop()
			h.write(t, servers{"a": fake()}, asking(address))
		}},
		{name: "certificate ended", code: doctor.CodeCertExpired, subject: "listen.tls", make: func(t *testing.T, h *home) { h.certificate(t, time.Now().Add(-time.Minute)) }},
		{name: "certificate ends soon", code: doctor.CodeCertSoon, subject: "listen.tls", warning: true, make: func(t *testing.T, h *home) { h.certificate(t, time.Now().Add(time.Hour)) }},
		{name: "certificate without its key", code: doctor.CodeCertUnusable, subject: "listen.tls", make: func(t *testing.T, h *home) {
			h.certificate(t, time.Now().Add(time.Hour))
			h.keep(t, "key.pem", "", 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			tt.make(t, h)
			files := []string{h.file}
			if tt.with != "" {
				files = append(files, h.path(tt.with))
			}
			found, code := h.examined(t, files...)
			i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Code == tt.code })
			if i < 0 {
				t.Fatalf("found %+v, want %s", found, tt.code)
			}
			if tt.subject != "*" && found[i].Subject != tt.subject {
				t.Errorf("subject %q, want %q", found[i].Subject, tt.subject)
			}
			for _, f := range found {
				if f.Code != tt.code {
					t.Errorf("found besides: %+v", f)
				}
			}
			if want := map[bool]int{false: exitConfig, true: exitOK}[tt.warning]; code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

// certificate configures TLS with a certificate that ends at some time.
func (h *home) certificate(t *testing.T, end time.Time) {
	t.Helper()
	c := newPKI(t)
	own := c.Client(t, x509.Certificate{Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: end.Add(-24 * time.Hour), NotAfter: end})
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := h.keep(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})), 0o600)
	key := h.keep(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), 0o600)
	h.write(t, servers{"a": fake()}, map[string]any{"listen": map[string]any{"tls": map[string]any{"cert": cert, "key": key}}})
}

// Where all is well nothing is found, whether the gateway runs or not, and nothing
// is made or changed.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	if found, code := h.examined(t, h.file); len(found) > 0 || code != exitOK {
		t.Errorf("before the first start: %+v, exit code %d", found, code)
	}
	if _, err := os.Stat(h.path("state")); err == nil {
		t.Error("the doctor has made the state folder")
	}
	p, url := h.up(t)
	h.env["TOOLGATE_LISTEN_HTTP"] = strings.TrimPrefix(url, "http://")
	if found, code := h.examined(t, h.file); len(found) > 0 || code != exitOK {
		t.Errorf("while it runs: %+v, exit code %d", found, code)
	}
	p.stop(t, syscall.SIGTERM)
	if found, code := h.examined(t, h.file); len(found) > 0 || code != exitOK {
		t.Errorf("after the end: %+v, exit code %d", found, code)
	}
}

// Who looks before a gateway was ever started, perhaps as another user, leaves
// nothing in its way.
func TestDoctorMakesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	data := h.path("data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"a": fake()}, map[string]any{
		"store": "sqlite:" + filepath.Join(data, "store.db"),
		"audit": map[string]any{"path": filepath.Join(data, "audit.jsonl")},
	})
	if found, code := h.examined(t, h.file); len(found) > 0 || code != exitOK {
		t.Errorf("found %+v, exit code %d", found, code)
	}
	if made, err := os.ReadDir(data); err != nil || len(made) > 0 {
		t.Errorf("the doctor has made %v, %v", made, err)
	}
}

// A server of the running gateway that does not work is found with its reason.
func TestDoctorOfARunningGateway(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": {"command": "/bin/sh", "args": []string{"-c", "echo broken >&2; exit 3"}}}, nil)
	h.up(t)
	found, code := h.examined(t, h.file)
	if i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Code == doctor.CodeFailing }); i < 0 || code != exitConfig || !strings.Contains(found[i].What, "broken") {
		t.Errorf("found %+v, exit code %d", found, code)
	}
}

// A policy that says nothing about a tool takes that tool away and no other, and
// whoever operates the gateway is told.
func TestPolicyThatCannotDecideAboutATool(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.keep(t, "policies/p.rego", "package toolgate\n\ndecision := true if input.tool_name != \"a__pid\"\n", 0o600)
	h.write(t, servers{"a": fake()}, map[string]any{"opa": map[string]any{"path": "policies"}})
	_, url := h.up(t)
	client := newClient(t)
	_, list := post(t, client, url, "", "tools/list", "", "")
	if !strings.Contains(string(list), `"a__echo"`) || strings.Contains(string(list), "a__pid") {
		t.Errorf("list: %s", list)
	}
	_, got := post(t, client, url, "", "tools/call", "a__pid", `"name":"a__pid",`)
	_, want := post(t, client, url, "", "tools/call", "a__xxx", `"name":"a__xxx",`)
	if strings.ReplaceAll(string(got), "a__pid", "a__xxx") != string(want) {
		t.Errorf("a call: %s\nof what does not exist: %s", got, want)
	}
	found, code := h.examined(t, h.file)
	if i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Code == doctor.CodePolicyFails }); i < 0 || code != exitConfig ||
		found[i].Subject != "a__pid" || !strings.Contains(found[i].What, "undefined") {
		t.Errorf("found %+v, exit code %d", found, code)
	}
	if o := h.run(t, "status", h.file); !strings.Contains(o.stdout, "alarm     the policy could not decide tool.view of a__pid") {
		t.Errorf("status: %s%s", o.stdout, o.stderr)
	}
	if o := h.run(t, "why", "a__pid", "--file", h.file); !strings.Contains(o.stdout, "policy_error: opa: decide tool.view on a__pid: the decision is undefined") {
		t.Errorf("why: %s%s", o.stdout, o.stderr)
	}
	if o := h.run(t, "validate", h.file); o.code != 0 || !strings.Contains(o.stderr, "data.toolgate.decision has no default") || !strings.Contains(o.stderr, "p.rego:3") {
		t.Errorf("validate: %+v", o)
	}
}

// A plugin that is not the one that was named, and one that is.
func TestDoctorOfPlugins(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := h.keep(t, "plugin", "#!/bin/sh\n", 0o700)
	sum := sha256.Sum256([]byte("#!/bin/sh\n"))
	if found := doctor.Plugin("p", path, hex.EncodeToString(sum[:])); len(found) > 0 {
		t.Errorf("the right one: %+v", found)
	}
	for name, found := range map[string][]doctor.Finding{
		doctor.CodePluginChecksum: doctor.Plugin("p", path, strings.Repeat("0", 64)),
		doctor.CodePlugin:         doctor.Plugin("p", path+"-not", strings.Repeat("0", 64)),
	} {
		if len(found) != 1 || found[0].Code != name || found[0].Subject != "native.plugins.p" {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// Another file than the one that is used is named.
func TestDoctorOfTwoFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake()}, nil)
	h.keep(t, "config/toolgate/toolgate.yaml", "mcpServers: {}\n", 0o600)
	h.ok(t, "trust")
	found, code := h.examined(t)
	if len(found) != 1 || found[0].Code != doctor.CodeOtherFile || code != exitOK {
		t.Errorf("found %+v, exit code %d", found, code)
	}
}

// What a code means can be asked for.
func TestDoctorExplains(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if got := h.ok(t, "doctor", "explain", "tg2101"); !strings.Contains(got, "TG2101  the command is not found") {
		t.Error(got)
	}
	if o := h.run(t, "doctor", "explain", "TG9999"); o.code != exitUsage {
		t.Errorf("an unknown code: %+v", o)
	}
	if got := strings.Fields(h.ok(t, "doctor", "codes", "-o", "name")); len(got) != len(doctor.Codes()) {
		t.Errorf("%d codes are listed of %d", len(got), len(doctor.Codes()))
	}
}

// The variables of a configuration may be beside it, for its user alone.
func TestVariablesBesideTheFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := fake()
	s["env"] = map[string]any{"A": "${FROM_FILE}"}
	h.write(t, servers{"a": s}, nil)
	env := h.keep(t, "toolgate.env", "FROM_FILE=value\n", 0o600)
	if o := h.run(t, "validate", h.file, "-o", "json"); o.code != exitOK || strings.Contains(o.stdout, "refused") {
		t.Errorf("%+v", o)
	}
	if err := os.Chmod(env, 0o644); err != nil { // what is to be refused
		t.Fatal(err)
	}
	if o := h.run(t, "validate", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "chmod 600") {
		t.Errorf("with the mode 0644: %+v", o)
	}
}
