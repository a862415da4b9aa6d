//go:build !windows

package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := h.start(t, "up")
	p.says(t, p.out, `(?m)^self-test  demo__add\(a=2, b=40\) = 42  in \S+$`)
	for _, want := range []string{
		`(?m)^toolgate \S+  no configuration found: serving the built-in demo$`,
		`(?m)^MCP      http://127\.0\.0\.1:\d+/mcp  \(older clients: http://127\.0\.0\.1:\d+/sse\)$`,
		`(?m)^ready    in `,
	} {
		p.says(t, p.out, want)
	}
	p.says(t, p.out, `(?m)^ready        demo           stdio     4 tools  .* tokens  `)
	if got := h.ok(t, "call", "demo__add", "a=9007199254740993", "b=1"); got != "9007199254740994\n" {
		t.Errorf("add: %q", got)
	}
	o := h.run(t, "call", "demo__count", "to=3")
	if o.stdout != "counted to 3\n" || o.stderr != "" {
		t.Errorf("count: %q, and besides %q", o.stdout, o.stderr)
	}
	if code := p.stop(t, syscall.SIGINT); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func port(t *testing.T, url string) string {
	t.Helper()
	found := regexp.MustCompile(`:(\d+)$`).FindStringSubmatch(url)
	if found == nil {
		t.Fatalf("no port in %s", url)
	}
	return found[1]
}

func TestGeneratedKey(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)

	// A start that comes to nothing shows no key, and so must keep none.
	taken, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if o := h.run(t, "up", h.file, "--listen", taken.Addr().String()); o.code != exitUnreachable || strings.Contains(o.stdout, "tgk_") {
		t.Errorf("address in use: %+v", o)
	}

	p, url := h.up(t, "--listen", "0.0.0.0:0")
	key := p.says(t, p.out, `(?m)^API key \(shown once\)  (tgk_\S+)$`)[1]
	url = "http://127.0.0.1:" + port(t, url)
	client := newClient(t)
	for sent, want := range map[string]int{"": 401, "tgk_wrong": 401, key: 200} {
		if status, body := post(t, client, url, sent, mcp.MethodToolsList, "", ""); status != want {
			t.Errorf("key %q: %d %s", sent, status, body)
		}
	}
	if o := h.run(t, "call", "a__pid", "--file", h.file); o.code != exitAuth {
		t.Errorf("over the socket without the key: %+v", o)
	}
	h.env["TOOLGATE_API_KEY"] = key
	h.pid(t, "a")
	delete(h.env, "TOOLGATE_API_KEY")
	p.stop(t, syscall.SIGTERM)

	again, url := h.up(t, "--listen", "0.0.0.0:0")
	if strings.Contains(again.out.String(), "tgk_") {
		t.Error("the key is shown a second time")
	}
	url = "http://127.0.0.1:" + port(t, url)
	for sent, want := range map[string]int{"": 401, key: 200} {
		if status, _ := post(t, client, url, sent, mcp.MethodToolsList, "", ""); status != want {
			t.Errorf("after a restart, key %q: %d", sent, status)
		}
	}
	again.stop(t, syscall.SIGTERM)

	kept, err := os.ReadFile(h.stateFile(t, guardKeyFile))
	if err != nil || string(kept) != sum(key)+"\n" {
		t.Errorf("kept: %q, %v", kept, err)
	}
	if got := modeOf(t, h.stateFile(t, guardKeyFile)); got != 0o600 {
		t.Errorf("mode %v", got)
	}
	if err := os.WriteFile(h.stateFile(t, guardKeyFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "up", h.file, "--listen", "0.0.0.0:0"); o.code != exitConfig || !strings.Contains(o.stderr, "damaged") {
		t.Errorf("with a damaged key: %+v", o)
	}
}

// stateFile is a file in the state folder of the home's one configuration.
func (h *home) stateFile(t *testing.T, name string) string {
	t.Helper()
	entries, err := os.ReadDir(h.path("state"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("state: %v, %v", entries, err)
	}
	return h.path("state/" + entries[0].Name() + "/" + name)
}

func TestAddressesInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	h := newHome(t)
	h.write(t, servers{}, nil)
	address := taken.Addr().String()
	o := h.run(t, "up", h.file, "--listen", address)
	if o.code != exitUnreachable || !strings.Contains(o.stderr, address+" is in use") || !strings.Contains(o.stderr, "--listen") {
		t.Errorf("listen.http: %+v", o)
	}
	if o := h.run(t, "up", h.file, "--listen", "nonsense"); o.code == exitOK {
		t.Errorf("nonsense: %+v", o)
	}
	h.env["TOOLGATE_LISTEN_METRICS"] = address
	o = h.run(t, "up", h.file)
	if o.code != exitUnreachable || !strings.Contains(o.stderr, "listen.metrics") {
		t.Errorf("listen.metrics that was asked for: %+v", o)
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address := testport.Address(t)
	h.env["TOOLGATE_LISTEN_METRICS"] = address
	h.write(t, servers{"a": fake("one")}, nil)
	_, url := h.up(t)
	h.pid(t, "a")
	get := func(url string) (int, string) {
		resp, err := newClient(t).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	status, body := get("http://" + address + "/metrics")
	if status != 200 || !regexp.MustCompile(`tool_execution_total\{[^}]*tool_name="a__pid"[^}]*\} 1`).MatchString(body) {
		t.Errorf("/metrics: %d\n%s", status, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Errorf("Prometheus cannot read /metrics: %v", err)
	}
	for _, name := range []string{
		"mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds", "toolgate_decisions_total",
		"toolgate_upstream_up", "toolgate_upstream_state", "toolgate_audit_entries_total", "toolgate_reload_last_successful", "toolgate_approvals_pending",
		"toolgate_calls_in_flight",
	} {
		if all[name] == nil {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if status, _ := get(url + "/metrics"); status != 404 && status != 401 && status != 400 {
		t.Errorf("/metrics on the main listener: %d", status)
	}
}

func TestWithoutListener(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	p := h.start(t, "up", h.file, "--set", "listen.http=")
	p.says(t, p.out, `(?m)^ready +(in|\d+ of) `)
	if strings.Contains(p.out.String(), "http://") {
		t.Errorf("an address that nobody listens on: %s", p.out)
	}
	h.pid(t, "a")
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// certificate writes a certificate of 127.0.0.1 and its key.
func certificate(t *testing.T, h *home) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "toolgate"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		text := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(text)
		if err := os.WriteFile(h.path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pool := certificate(t, h)
	section := map[string]any{"listen": map[string]any{"tls": map[string]any{"cert": "cert.pem", "key": "key.pem"}}}
	h.write(t, servers{"a": fake("one")}, section)
	p, url := h.up(t)
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Errorf("URL %s", url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	if status, body := post(t, &http.Client{Transport: transport, Timeout: patience}, url, "", mcp.MethodToolsList, "", ""); status != 200 {
		t.Errorf("tools/list: %d %s", status, body)
	}
	old := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} // what has to be refused
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	p.stop(t, syscall.SIGTERM)
	if err := os.WriteFile(h.path("key.pem"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := h.run(t, "up", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "listen.tls") {
		t.Errorf("with a damaged key: %+v", o)
	}
}

func TestHangingServerDelaysNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"dead": fake("hang"), "live": fake("one")}, map[string]any{
		"servers": map[string]any{"dead": map[string]any{"timeouts": map[string]any{"start": "10m"}}},
	})
	p := h.start(t, "up", h.file)
	url := p.says(t, p.out, `(https?://\S+)/mcp `)[1]
	client := newClient(t)
	for _, path := range []string{"/livez", "/readyz"} {
		resp, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || string(body) != "ok\n" {
			t.Errorf("%s: %d %q %v", path, resp.StatusCode, body, err)
		}
	}
	p.says(t, p.out, `(?m)^ready        live `)
	testwait.Until(t, patience, "the tools of the other server are listed", func() bool { return bytes.Contains(toolsOf(t, url), []byte("live__pid")) })
	if s := h.servers(t); s["dead"].State != "starting" || s["live"].State != "ready" {
		t.Errorf("servers: %+v", s)
	}
	if all := p.out.String() + p.err.String(); strings.Contains(all, "dead") {
		t.Errorf("progress about nothing: %s", all)
	}
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// One line per change, on stdout, without colour.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.write(t, servers{"bad": fake("broken=" + broken), "good": fake("one"), "off": {"command": "x", "disabled": true}}, nil)
	p, _ := h.up(t)
	p.says(t, p.out, `(?m)^failed       bad            stdio     0 tools       0 tokens  .*the server is broken`)
	p.says(t, p.out, `(?m)^ready        good           stdio     6 tools  `)
	p.says(t, p.out, `(?m)^disabled     off            stdio     0 tools  .*switched off`)
	for _, name := range []string{"good", "off"} {
		if n := len(regexp.MustCompile(`(?m)^\w+ +`+name+` `).FindAllString(p.out.String(), -1)); n != 1 {
			t.Errorf("%d lines about %s:\n%s", n, name, p.out)
		}
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	p.says(t, p.out, `(?m)^ready        bad            stdio     6 tools  `)
	if all := p.out.String() + p.err.String(); strings.Contains(all, "\x1b") {
		t.Errorf("control codes: %q", all)
	}
	quiet := h.run(t, "-q", "ls", h.file)
	if quiet.stderr != "" {
		t.Errorf("quiet: %q", quiet.stderr)
	}
}

func TestReloadTheProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	p, _ := h.up(t)
	a := h.pid(t, "a")

	// The file changes by itself: what is new waits, and is said to.
	h.write(t, servers{"a": fake("one"), "b": fake("one"), "c": fake("one")}, nil)
	p.says(t, p.err, "waits for `toolgate reload`.*server b: start")
	if s := h.servers(t)["b"]; s.State != "pending" {
		t.Errorf("b: %+v", s)
	}
	// A signal is a person's wish.
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "b is ready", func() bool { return h.servers(t)["b"].State == "ready" })
	b := h.pid(t, "b")

	// What goes away does so by itself.
	h.write(t, servers{"a": fake("one"), "c": fake("one")}, nil)
	testwait.Until(t, patience, "b is gone", func() bool { _, ok := h.servers(t)["b"]; return !ok })
	testwait.Until(t, patience, "the process of b has ended", func() bool { return !alive(b) })

	h.writeText(t, `{ "mcpServers": [ }`)
	p.says(t, p.err, `reload refused; the old configuration stays in force.*toolgate\.yaml:1`)
	if o := h.run(t, "reload", h.file); o.code != exitConfig || !strings.Contains(o.stderr, "toolgate.yaml:1") {
		t.Errorf("reload of a broken file: %+v", o)
	}
	h.write(t, servers{"a": fake("one"), "c": fake("two")}, nil)
	if o := h.run(t, "reload", h.file); o.code != exitOK || o.stderr != "" || o.stdout != "reloaded "+h.file+"\n  server c: args\n" {
		t.Errorf("reload: %+v", o)
	}
	if got := h.pid(t, "a"); got != a {
		t.Errorf("a was started anew: process %d, then %d", a, got)
	}
	testwait.Until(t, patience, "c is ready", func() bool { return h.servers(t)["c"].State == "ready" })
	c := h.pid(t, "c")
	if code := p.stop(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, pid := range []int{a, c} {
		testwait.Until(t, patience, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	if left := h.sockets(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if o := h.run(t, "reload", h.file); o.code != exitUnreachable {
		t.Errorf("reload of nothing: %+v", o)
	}
}

func TestSecondGatewaySaysWhoHoldsTheStore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{}, nil)
	p, _ := h.up(t)
	o := h.run(t, "up", h.file)
	if o.code != exitUnreachable || !strings.Contains(o.stderr, fmt.Sprintf("this gateway is running already: pid %d, http", p.cmd.Process.Pid)) {
		t.Errorf("second gateway: %+v", o)
	}
	if len(h.sockets(t)) != 1 {
		t.Error("the second gateway took the socket of the first")
	}
	h.ok(t, "ls", h.file)
}

func TestCallThatIsInterrupted(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("one")}, nil)
	call := h.start(t, "call", "a__slow", "file="+h.path("began"), "wait="+h.path("never"), "--file", h.file)
	testwait.Until(t, patience, "the call is at the server", func() bool { _, err := os.Stat(h.path("began")); return err == nil })
	if code := call.stop(t, syscall.SIGINT); code != exitUnreachable {
		t.Errorf("a call without an answer has exit code %d", code)
	}
	if diff := cmp.Diff("", call.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
