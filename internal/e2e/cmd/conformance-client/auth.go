//go:build e2e && unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// authTool is the only tool of every server in the credential scenarios.
const authTool = "test-tool"

// authContext is what the suite tells a client about the credentials of a scenario.
type authContext struct {
	ID       string `json:"client_id"`
	Secret   string `json:"client_secret"`
	Key      string `json:"private_key_pem"`
	Issuer   string `json:"issuer"`
	IDP      string `json:"idp_issuer"`
	IDPID    string `json:"idp_client_id"`
	IDPToken string `json:"idp_id_token"`
	Workload string `json:"valid_jwt"`
}

// authScenario is one scenario of credentials.
type authScenario struct {
	auth func(folder string, c authContext) (object, error) // settings; nil for none
	// proves tells that the settings contain a secret, a key or an assertion, for which
	// an operator also configures the issuer.
	proves bool
	// logins is how often somebody signs in, each time followed by a call; 0 if toolgate
	// gets its tokens itself.
	logins int
	// refused tells that the last login or the last call must fail.
	refused bool
	// start bounds each start of the server; empty is toolgate's own bound.
	start string
}

var authScenarios = map[string]authScenario{
	"auth/metadata-default":                 {logins: 1},
	"auth/metadata-var1":                    {logins: 1},
	"auth/metadata-var2":                    {logins: 1},
	"auth/metadata-var3":                    {logins: 1},
	"auth/basic-cimd":                       {logins: 1, auth: documented},
	"auth/scope-from-www-authenticate":      {logins: 1},
	"auth/scope-from-scopes-supported":      {logins: 1},
	"auth/scope-omitted-when-undefined":     {logins: 1},
	"auth/scope-step-up":                    {logins: 2},
	"auth/scope-retry-limit":                {logins: 2, refused: true, start: "5s"}, // calls wait for a server that fails until it is over
	"auth/token-endpoint-auth-basic":        {logins: 1},
	"auth/token-endpoint-auth-post":         {logins: 1},
	"auth/token-endpoint-auth-none":         {logins: 1},
	"auth/pre-registration":                 {logins: 1, auth: registered, proves: true},
	"auth/resource-mismatch":                {logins: 1, refused: true},
	"auth/offline-access-scope":             {logins: 1},
	"auth/offline-access-not-supported":     {logins: 1},
	"auth/authorization-server-migration":   {logins: 2},
	"auth/iss-supported":                    {logins: 1},
	"auth/iss-not-advertised":               {logins: 1},
	"auth/iss-supported-missing":            {logins: 1, refused: true},
	"auth/iss-wrong-issuer":                 {logins: 1, refused: true},
	"auth/iss-unexpected":                   {logins: 1, refused: true},
	"auth/iss-normalized":                   {logins: 1, refused: true},
	"auth/metadata-issuer-mismatch":         {logins: 1, refused: true},
	"auth/client-credentials-jwt":           {auth: bySecretOrKey, proves: true},
	"auth/client-credentials-basic":         {auth: bySecretOrKey, proves: true},
	"auth/enterprise-managed-authorization": {auth: exchanged, proves: true},
	"auth/dpop":                             {logins: 1},
	"auth/dpop-nonce":                       {logins: 1},
	"auth/wif-jwt-bearer":                   {auth: federated, proves: true},
}

// documented is a client that is described at an address of the suite.
func documented(string, authContext) (object, error) {
	return object{"client": object{"id": "https://conformance-test.local/client-metadata.json", "auth": "none"}}, nil
}

// registered is a client that is registered by hand.
func registered(_ string, c authContext) (object, error) {
	return object{"client": object{"id": c.ID, "secret": c.Secret}}, nil
}

// bySecretOrKey lets toolgate sign in itself.
func bySecretOrKey(folder string, c authContext) (object, error) {
	client := object{"id": c.ID}
	if c.Key == "" {
		client["secret"] = c.Secret
		return object{"mode": "client_credentials", "client": client}, nil
	}
	client["key"] = filepath.Join(folder, "key.pem")
	return object{"mode": "client_credentials", "client": client}, os.WriteFile(filepath.Join(folder, "key.pem"), []byte(c.Key), 0o600)
}

// exchanged lets an identity provider trade a person's token.
func exchanged(folder string, c authContext) (object, error) {
	file := filepath.Join(folder, "subject")
	return object{
		"mode": "exchange", "client": object{"id": c.ID, "secret": c.Secret},
		"exchange": object{"issuer": c.IDP, "client": object{"id": c.IDPID}, "grant": "id_jag", "subject": file},
	}, os.WriteFile(file, []byte(c.IDPToken), 0o600)
}

// federated lets toolgate present its workload assertion.
func federated(folder string, c authContext) (object, error) {
	file := filepath.Join(folder, "assertion")
	return object{"mode": "workload", "assertion": file}, os.WriteFile(file, []byte(c.Workload), 0o600)
}

// issuer returns the authorization server at which the suite has registered the client,
// as an operator would know it: what the suite says, or else what the server names in its
// protected resource metadata (RFC 9728, section 3.1).
func issuer(ctx context.Context, server string, given authContext) (string, error) {
	if given.Issuer != "" {
		return given.Issuer, nil
	}
	address, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	address.Path = "/.well-known/oauth-protected-resource" + address.Path
	asking, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(asking)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var metadata struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&metadata); err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	if len(metadata.Servers) != 1 {
		return "", fmt.Errorf("%s names %d authorization servers", address, len(metadata.Servers))
	}
	return metadata.Servers[0], nil
}

// run runs a credential scenario: toolgate is signed in on its command line, with a
// browser that follows redirects, and calls the server's only tool.
func (a authScenario) run(ctx context.Context, binary, folder, server string) (err error) {
	var given authContext
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return fmt.Errorf("reading what the suite tells: %w", err)
		}
	}
	own := object{"namespace": ""}
	if a.auth != nil {
		if own["auth"], err = a.auth(folder, given); err != nil {
			return fmt.Errorf("writing the credentials: %w", err)
		}
	}
	if a.proves {
		if own["auth"].(object)["issuer"], err = issuer(ctx, server, given); err != nil {
			return fmt.Errorf("finding the issuer: %w", err)
		}
	}
	if a.start != "" {
		own["timeouts"] = object{"start": a.start}
	}
	c := &cli{binary: binary, folder: folder, file: filepath.Join(folder, "servers.json")}
	if err := c.prepare(object{
		"mcpServers": object{"scenario": object{"type": "http", "url": server}},
		"toolgate":   object{"servers": object{"scenario": own}},
	}); err != nil {
		return err
	}
	stop, err := c.up(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if a.logins == 0 {
		return c.calls(ctx)
	}
	for login := range a.logins {
		if login > 0 {
			_ = c.calls(ctx) // the refusal says what the login is for
		}
		if err = c.login(ctx); err == nil {
			err = c.calls(ctx)
		}
	}
	switch {
	case a.refused && err == nil:
		return errors.New("what had to be refused went through")
	case a.refused:
		return nil
	}
	return err
}

// cli runs commands of toolgate.
type cli struct{ binary, folder, file string }

func (c *cli) prepare(config object) error {
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(c.file, text, 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(c.folder, "home"), 0o700)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Dir, cmd.Env = c.folder, environment(c.folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopTime
	return cmd
}

// output collects what a command writes; found receives the first match of a pattern.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	want  *regexp.Regexp
	found chan string // room for one
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if m := o.want.FindSubmatch(o.text.Bytes()); m != nil {
		select {
		case o.found <- string(m[1]):
		default:
		}
	}
	return len(p), nil
}

// startTime is how long a command may take until it says what is waited for.
const startTime = 30 * time.Second

// start runs a command and returns the match of the pattern in its output.
func (c *cli) start(ctx context.Context, pattern string, args ...string) (cmd *exec.Cmd, ended chan error, found string, err error) {
	cmd = c.command(ctx, args...)
	out := &output{want: regexp.MustCompile(pattern), found: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(out, os.Stderr)
	if err := cmd.Start(); err != nil {
		return nil, nil, "", fmt.Errorf("starting toolgate: %w", err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command
	select {
	case found = <-out.found:
		return cmd, ended, found, nil
	case err := <-ended:
		return nil, nil, "", fmt.Errorf("toolgate %s has ended (%w)", args[0], err)
	case <-time.After(startTime):
		_ = cmd.Cancel()
		return nil, nil, "", fmt.Errorf("toolgate %s has not said %s within %v", args[0], pattern, startTime)
	}
}

// up starts the gateway; stop ends it, which must succeed.
func (c *cli) up(ctx context.Context) (stop func() error, err error) {
	cmd, ended, _, err := c.start(ctx, `(?m)^ready +(?:[0-9]+ of [0-9]+ servers?, )?in ()`, "up", c.file, "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("ending toolgate: %w", err)
		}
		kill := time.AfterFunc(stopTime, func() { _ = cmd.Cancel() })
		defer kill.Stop()
		if err := <-ended; err != nil {
			return fmt.Errorf("toolgate has not ended well: %w", err)
		}
		return nil
	}, nil
}

// login signs in on the command line, with a browser that follows redirects.
func (c *cli) login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	_, ended, address, err := c.start(ctx, `(?m)^open +(\S+)$`, "login", "scenario", "--no-browser", "--file", c.file)
	if err != nil {
		return err
	}
	browsing := browse(ctx, address)
	if browsing != nil {
		cancel() // nobody comes back
	}
	if err := errors.Join(browsing, <-ended); err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	return nil
}

// browse follows redirects, and must be told at the end that the login worked.
func browse(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("the address of the login: %w", err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("browsing: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the browser ends at %s with %s (%w)", resp.Request.URL.Path, resp.Status, err)
	}
	if !strings.Contains(string(text), "Signed in to") {
		return fmt.Errorf("the browser ends at another page: %.200s", text)
	}
	return nil
}

// listTime is how long the list of a server may take after a login.
const listTime = 15 * time.Second

// calls makes a call, which the server must answer.
func (c *cli) calls(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	until := time.After(listTime)
	for {
		out, err := c.command(ctx, "call", authTool, "--file", c.file).CombinedOutput()
		switch {
		case err == nil && bytes.Contains(out, []byte("test")):
			return nil
		case !bytes.Contains(out, []byte("Unknown tool")):
			return fmt.Errorf("calling: %w: %.400s", err, out)
		}
		select {
		case <-tick.C:
		case <-until:
			return fmt.Errorf("calling: %.400s", out)
		}
	}
}
