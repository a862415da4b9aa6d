// Command login-server is a server that people sign in to, with its own authorization
// server, for the example alone: it lets everybody in. It also plays the person's browser.
//
//	login-server serve ADDRESS       the server, at /mcp, and its authorization server
//	login-server browse COMMAND [ARGUMENTS]  run a command, and open the address that it prints for a browser
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) > 1 && args[0] == "browse":
		return browse(ctx, args[1:])
	}
	return errors.New("usage: login-server serve ADDRESS | browse COMMAND [ARGUMENTS]")
}

// most bounds what is stored.
const most = 1000

// door gives out tokens, and lets in whoever has one.
type door struct {
	at string

	mu     sync.Mutex
	codes  map[string]string // challenges
	tokens map[string]bool
}

// serve answers until the context ends.
func serve(ctx context.Context, address string) error {
	d := &door{at: "http://" + address, codes: make(map[string]string), tokens: make(map[string]bool)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"resource": d.at + "/mcp", "authorization_servers": []string{d.at}})
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": d.at, "authorization_endpoint": d.at + "/authorize", "token_endpoint": d.at + "/token", "registration_endpoint": d.at + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
			"authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": rand.Text(), "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /authorize", d.authorize)
	mux.HandleFunc("POST /token", d.token)
	mux.HandleFunc("POST /mcp", d.mcp)
	server := &http.Server{Addr: address, Handler: mux, ReadTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// authorize is where a real server would ask a person.
func (d *door) authorize(w http.ResponseWriter, r *http.Request) {
	q, code := r.URL.Query(), rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.codes) >= most || q.Get("resource") != d.at+"/mcp" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	d.codes[code] = q.Get("code_challenge")
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {d.at}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token trades a code for a token, once, with the client that sent the person (RFC 7636).
func (d *door) token(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	d.mu.Lock()
	defer d.mu.Unlock()
	challenge, known := d.codes[r.FormValue("code")]
	delete(d.codes, r.FormValue("code"))
	if !known || len(d.tokens) >= most || challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	token := rand.Text()
	d.tokens[token] = true
	answer(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600})
}

// mcp is a server with one tool, for callers with a token.
func (d *door) mcp(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	d.mu.Lock()
	known := d.tokens[token]
	d.mu.Unlock()
	if !known {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "sign in", http.StatusUnauthorized)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	results := map[string]any{
		"initialize": map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "login-server", "version": "1"}},
		"tools/list": map[string]any{"tools": []any{map[string]any{"name": "open_issues", "inputSchema": map[string]any{"type": "object"}}}},
		"tools/call": map[string]any{"content": []any{map[string]any{"type": "text", "text": "3 issues are open"}}},
		"ping":       map[string]any{},
	}
	if result, ok := results[m.Method]; ok {
		answer(w, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		return
	}
	answer(w, map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32601, "message": "no such method"}})
}

// browse runs a command and opens the address in its line "open ADDRESS".
func browse(ctx context.Context, command []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Println(lines.Text())
		to, found := strings.CutPrefix(lines.Text(), "open ")
		if !found {
			continue
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(to), http.NoBody)
		if err != nil {
			return errors.Join(err, cmd.Cancel(), cmd.Wait())
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return errors.Join(err, cmd.Cancel(), cmd.Wait())
		}
		resp.Body.Close()
	}
	return cmd.Wait()
}
