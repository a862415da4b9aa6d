//go:build e2e

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/built"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/internal/testport"
)

// targets are what testdata/attacker attacks.
type targets struct {
	Files    []string `json:"files"`
	Folders  []string `json:"folders"`
	Gateway  int      `json:"gateway"`
	Doors    []string `json:"doors"`
	Approval string   `json:"approval"`
	Token    string   `json:"token,omitempty"`
}

// attempt is one thing that it tried, and what it got or was told.
type attempt struct {
	What, Where string
	OK          bool
	Said        string
}

// fortress is a gateway with everything that children are to be kept off, and with
// the attacker among its tools.
type fortress struct {
	*home
	url, program string
	admin, main  string // addresses
	state        string
	token        string
	approval     string            // which waits
	secrets      map[string]string // by what they are for
	target       targets
}

// withholding are the tools that attack: each as a plugin and as a command, by what
// confines it.
var withholding = []struct {
	name     string
	settings map[string]any
	confined bool
	offline  bool
}{
	{"boxed", map[string]any{"sandbox": "auto"}, true, true},
	{"online", map[string]any{"sandbox": "auto", "network": "full"}, true, false},
	{"loose", map[string]any{"sandbox": "off"}, false, false},
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	f := &fortress{home: newHome(t), secrets: map[string]string{
		"header": "canary-of-a-header", "plugin": "canary-of-a-plugin", "command": "canary-of-a-command", "server": "canary-of-a-server", "gateway": "canary-of-the-gateway",
	}}
	f.program, f.admin = f.path("attacker"), testport.Address(t)
	if err := built.Program(t.Context(), f.program, "./testdata/attacker"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.program)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	for name, secret := range f.secrets {
		f.env["CANARY_"+strings.ToUpper(name)] = secret
	}
	plugins := map[string]any{"other": map[string]any{"path": f.program, "sha256": hex.EncodeToString(sum[:]), "env": map[string]any{"SECRET": "${CANARY_PLUGIN}"}}}
	tools := []any{
		map[string]any{"name": "careful", "type": "command", "sandbox": "auto", "args": []any{"echo", "done"}, "env": map[string]any{"SECRET": "${CANARY_COMMAND}"}, "approval": true},
		map[string]any{"name": "asks", "type": "http", "url": "http://127.0.0.1:1/", "headers": map[string]any{"Authorization": "Bearer ${CANARY_HEADER}"}},
	}
	for _, w := range withholding {
		plugin := map[string]any{"path": f.program, "sha256": hex.EncodeToString(sum[:])}
		maps.Copy(plugin, w.settings)
		plugins["plugin-"+w.name] = plugin
		command := map[string]any{
			"name": "attack", "namespace": "command-" + w.name, "type": "command", "args": []any{f.program, "once"}, "stdin": "{*}",
			"input_schema": map[string]any{"type": "object"}, "max_bytes": "16MiB",
		}
		maps.Copy(command, w.settings)
		tools = append(tools, command)
	}
	server := fake()
	server["env"] = map[string]any{"SECRET": "${CANARY_SERVER}"}
	f.write(t, servers{"a": server}, map[string]any{
		"listen": map[string]any{"admin": f.admin}, "approvals": map[string]any{"wait": "1s"},
		// The programs are told which files to go for, and it is they that are withheld.
		"governance": map[string]any{"own_files": "allow"},
		"tools":      tools, "native": map[string]any{"plugins": plugins},
	})
	p, url := f.up(t)
	f.ok(t, "ls", f.file, "--wait", "30s")
	f.url, f.main = url, strings.TrimPrefix(url, "http://")
	f.state = filepath.Dir(f.stateFile(t, "admin.token"))
	f.token = strings.TrimSpace(f.text(t, filepath.Join(f.state, "admin.token")))
	f.secrets["token"] = f.token
	f.target = targets{
		Files: append(f.files(t), f.file), Folders: []string{f.state}, Gateway: p.cmd.Process.Pid,
		Doors: []string{"unix:" + filepath.Join(f.state, "control.sock"), "tcp:" + f.admin, "tcp:" + f.main},
	}
	if got := f.call(t, "tools__careful", struct{}{}); !strings.Contains(got, "waits for the approval") {
		t.Fatal(got)
	}
	f.approval = strings.TrimSpace(f.ok(t, "approvals", "ls", "-o", "name", "--file", f.file))
	f.target.Approval = f.approval
	return f
}

// files are all of the gateway's own folder.
func (f *fortress) files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(f.state, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	for _, name := range []string{"admin.token", "store.db"} {
		if err != nil || !slices.Contains(out, filepath.Join(f.state, name)) {
			t.Fatalf("%s is not among %q: %v", name, out, err)
		}
	}
	return out
}

// call calls a tool over HTTP and returns its text.
func (f *fortress) call(t *testing.T, tool string, arguments any) string {
	t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	status, body := post(t, newClient(t), f.url, "", mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, text))
	var got struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(body, &got); status != http.StatusOK || err != nil || len(got.Result.Content) == 0 {
		t.Fatalf("%s: %d %.2000s, %v", tool, status, body, err)
	}
	return got.Result.Content[0].Text
}

// attempts reads what the attacker says it has done.
func attempts(t *testing.T, text string) []attempt {
	t.Helper()
	var got struct{ Attempts []attempt }
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Attempts) == 0 {
		t.Fatalf("%v in %.2000s", err, text)
	}
	for i := range got.Attempts {
		said, err := base64.StdEncoding.DecodeString(got.Attempts[i].Said)
		if err != nil {
			t.Fatal(err)
		}
		got.Attempts[i].Said = string(said)
	}
	return got.Attempts
}

// outside attacks as somebody who was not started by the gateway.
func (f *fortress) outside(t *testing.T) []attempt {
	t.Helper()
	text, err := json.Marshal(f.target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.program, "once")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return attempts(t, string(out))
}

// unchanged tells whether the gateway is as it was, of which the gateway is asked.
func (f *fortress) unchanged(t *testing.T, who string) {
	t.Helper()
	if got := strings.TrimSpace(f.ok(t, "mode", "-o", "name", "--file", f.file)); got != "NORMAL" {
		t.Errorf("%s: the mode is %s", who, got)
	}
	if got := strings.TrimSpace(f.ok(t, "approvals", "ls", "-o", "name", "--file", f.file)); got != f.approval {
		t.Errorf("%s: what waits is %q, not %q", who, got, f.approval)
	}
	if got := f.ok(t, "approvals", "ls", "--state", "granted", "-o", "name", "--file", f.file); got != "" {
		t.Errorf("%s: granted is %q", who, got)
	}
	if got := strings.TrimSpace(f.text(t, filepath.Join(f.state, "admin.token"))); got != f.token {
		t.Errorf("%s: the token is another one", who)
	}
}

// A plugin and a command that the gateway runs cannot administer it, whether they
// are confined or not and though they have the token. Those that are confined read
// nothing of the gateway's own and none of its secrets. The very same program does
// all of it when a person runs it beside the gateway.
func TestToolsDoNotAdminister(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, w := range withholding {
		layers, err := sandbox.Available(sandbox.Policy{Mode: sandbox.Auto, Temp: true})
		if err != nil {
			t.Fatal(err)
		}
		// What a machine confines, in whichever of the ways it has.
		confined := w.confined && (layers.Has(sandbox.Files) || layers.Has(sandbox.Namespaces))
		offline := w.offline && (layers.Has(sandbox.Calls) || layers.Has(sandbox.Namespaces))
		for _, kind := range []string{"plugin", "command"} {
			who := kind + "-" + w.name
			t.Run(who, func(t *testing.T) {
				got := attempts(t, f.call(t, who+"__attack", f.target))
				f.refusesAdministration(t, got, offline)
				if confined {
					f.givesNothing(t, got)
				} else {
					f.isReadByItsUser(t, got)
				}
				armed := f.target
				armed.Token, armed.Files, armed.Folders = f.token, nil, nil
				f.refusesAdministration(t, attempts(t, f.call(t, who+"__attack", armed)), offline)
				f.unchanged(t, who)
			})
		}
	}
	f.admitsAPerson(t)
}

// refusesAdministration checks that a child of the gateway was served nothing. One
// that has no network connects to nothing; others may be let in to be told why.
func (f *fortress) refusesAdministration(t *testing.T, got []attempt, offline bool) {
	t.Helper()
	asked := 0
	for _, a := range got {
		if !strings.HasPrefix(a.What, "GET ") && !strings.HasPrefix(a.What, "POST ") {
			continue
		}
		asked++
		refused := strings.HasPrefix(a.Said, "no connection")
		switch {
		case offline:
		case a.Where == "tcp:"+f.main: // where nothing is administered
			refused = strings.HasPrefix(a.Said, "status ")
		case strings.HasPrefix(a.Where, "tcp:"):
			refused = strings.Contains(a.Said, reasonOfDescent)
		default:
			refused = refused || strings.Contains(a.Said, reasonOfDescent)
		}
		if a.OK || !refused {
			t.Errorf("%s at %s: %.200s", a.What, a.Where, a.Said)
		}
	}
	if asked != 6*len(f.target.Doors) {
		t.Errorf("%d times asked", asked)
	}
}

// reasonOfDescent is what a child is told.
const reasonOfDescent = "a process that this gateway has started may not administer it"

// givesNothing checks that what is confined got at none of the gateway's own files,
// and at no secret.
func (f *fortress) givesNothing(t *testing.T, got []attempt) {
	t.Helper()
	looked := 0
	for _, a := range got {
		switch a.What {
		case "read", "write", "list", "create", "memory", "descriptors":
			if looked++; a.OK {
				t.Errorf("%s %s: %.200q", a.What, a.Where, a.Said)
			}
		case "environ", "cmdline", "open":
			if a.What == "open" && strings.Contains(a.Said, f.state) {
				t.Errorf("it has %s open", a.Said)
			}
		}
		for what, secret := range f.secrets {
			if strings.Contains(a.Said, secret) {
				t.Errorf("%s of %s holds the secret of the %s", a.What, a.Where, what)
			}
		}
	}
	if want := 5*len(f.target.Files) + 2*len(f.target.Folders) + 2; looked != want {
		t.Errorf("looked %d times, not %d", looked, want)
	}
}

// isReadByItsUser checks that what nothing confines reads what its user does, so
// that the attacker's ways are known to work in a child. Its environment is its own
// all the same.
func (f *fortress) isReadByItsUser(t *testing.T, got []attempt) {
	t.Helper()
	token, own := "", ""
	for _, a := range got {
		switch {
		case a.What == "read" && a.Where == filepath.Join(f.state, "admin.token"):
			token = strings.TrimSpace(a.Said)
		case a.What == "environ" && a.Where == "own":
			own = a.Said
		}
	}
	if token != f.token {
		t.Errorf("the token is read as %q", token)
	}
	for what, secret := range f.secrets {
		if own == "" || strings.Contains(own, secret) {
			t.Errorf("its environment holds the secret of the %s: %q", what, own)
		}
	}
}

// admitsAPerson lets the attacker do all of it as a person: what the others are
// refused is there to be had.
func (f *fortress) admitsAPerson(t *testing.T) {
	t.Helper()
	read, asked := map[string]bool{}, map[string]string{}
	environ := ""
	for _, a := range f.outside(t) {
		switch a.What {
		case "read", "write", "list", "create":
			read[a.What+" "+a.Where] = a.OK
		case "environ":
			if a.Where == fmt.Sprint(f.target.Gateway) {
				environ = a.Said
			}
		case "cmdline", "open", "memory", "descriptors":
		default:
			asked[a.What+" "+a.Where] = fmt.Sprint(a.OK, " ", a.Said)
		}
	}
	for _, path := range f.target.Files {
		for _, what := range []string{"read " + path, "write " + path} {
			if !read[what] {
				t.Errorf("a person does not %s", what)
			}
		}
	}
	for _, what := range []string{"list " + f.state, "create " + f.state} {
		if !read[what] {
			t.Errorf("a person does not %s", what)
		}
	}
	if !strings.Contains(environ, f.secrets["gateway"]) || !strings.Contains(environ, f.secrets["plugin"]) {
		t.Errorf("the environment of the gateway: %q", environ)
	}
	socket, address := f.target.Doors[0], f.target.Doors[1]
	approve := "POST /v1/approvals/" + f.approval + "/approve "
	for what, want := range map[string]string{
		"GET /v1/status " + socket: "true ", "POST /v1/mode " + socket: `true {"mode":"LOCKDOWN"`, approve + socket: "true ",
		"GET /v1/status " + address: "true ", "POST /v1/mode " + address: `true {"mode":"LOCKDOWN"`, approve + address: "false status 409", // once
		"POST /v1/mode " + f.target.Doors[2]: "false status ",
	} {
		if !strings.HasPrefix(asked[what], want) {
			t.Errorf("a person's %s: %.200s", what, asked[what])
		}
	}
	if got := strings.TrimSpace(f.ok(t, "mode", "-o", "name", "--file", f.file)); got != "LOCKDOWN" {
		t.Errorf("the mode is %s", got)
	}
	if got := strings.TrimSpace(f.ok(t, "approvals", "ls", "--state", "granted", "-o", "name", "--file", f.file)); got != f.approval {
		t.Errorf("granted is %q", got)
	}
}
