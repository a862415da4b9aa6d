// Command oauth-issuer is an OpenID issuer for the example alone: it gives everybody a token.
// It also plays the client of the example.
//
//	oauth-issuer serve ADDRESS                            the issuer
//	oauth-issuer as SUBJECT GROUP ISSUER AUDIENCE COMMAND...  run a command with a token
//	oauth-issuer visit URL                                what a client without a token learns
//	oauth-issuer sign-in CONSOLE ISSUER SUBJECT GROUP     sign in to a console as a browser does
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
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
	"regexp"
	"strings"
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
	case len(args) > 5 && args[0] == "as":
		return as(ctx, args[3], url.Values{"sub": {args[1]}, "groups": {args[2]}, "aud": {args[4]}}, args[5:])
	case len(args) == 2 && args[0] == "visit":
		return visit(ctx, args[1])
	case len(args) == 5 && args[0] == "sign-in":
		return signIn(ctx, args[1], args[2], args[3], args[4])
	}
	return errors.New("usage: oauth-issuer serve ADDRESS | as SUBJECT GROUP ISSUER AUDIENCE COMMAND... | visit URL | sign-in CONSOLE ISSUER SUBJECT GROUP")
}

// serve answers as an issuer until the context ends.
func serve(ctx context.Context, address string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	issuer := "http://" + address
	signer := &people{issuer: issuer, key: private, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", signer.authorize)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": issuer, "jwks_uri": issuer + "/keys", "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		key := map[string]any{"kid": "1", "kty": "OKP", "crv": "Ed25519", "use": "sig", "x": base64.RawURLEncoding.EncodeToString(public)}
		answer(w, map[string]any{"keys": []any{key}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") == "authorization_code" {
			signer.redeem(w, r)
			return
		}
		now := time.Now()
		token := sign(private, "at+jwt", map[string]any{
			"iss": issuer, "sub": r.FormValue("sub"), "aud": r.FormValue("aud"), "groups": []string{r.FormValue("groups")},
			"scope": "notes", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		})
		answer(w, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 300})
	})
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

// sign makes a token (RFC 7519, RFC 8037).
func sign(key ed25519.PrivateKey, typ string, claims map[string]any) string {
	part := func(v any) string {
		text, _ := json.Marshal(v) // contains only texts and numbers
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "EdDSA", "typ": typ, "kid": "1"}) + "." + part(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
}

// as runs a command with a token in the variable that toolgate reads.
func as(ctx context.Context, issuer string, form url.Values, command []string) error {
	token, err := fetchToken(ctx, issuer, form)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TOOLGATE_API_KEY="+token)
	return cmd.Run()
}

// fetchToken asks the issuer, which may still be starting.
func fetchToken(ctx context.Context, issuer string, form url.Values) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		body, _, err := send(ctx, http.MethodPost, issuer+"/token", form.Encode(), "application/x-www-form-urlencoded")
		var got struct {
			Token string `json:"access_token"`
		}
		if err == nil && json.Unmarshal([]byte(body), &got) == nil && got.Token != "" {
			return got.Token, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return "", fmt.Errorf("no token of %s: %w", issuer, err)
		}
	}
}

var metadataAt = regexp.MustCompile(`resource_metadata="([^"]+)"`)

// visit prints the challenge of a gateway, and the document that it refers to.
func visit(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, told, err := send(ctx, http.MethodPost, endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "application/json")
		if err == nil {
			fmt.Println(told)
			at := metadataAt.FindStringSubmatch(told)
			if at == nil {
				return errors.New("the challenge leads nowhere")
			}
			body, _, err := send(ctx, http.MethodGet, at[1], "", "")
			fmt.Println(body)
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// send returns the body of an answer, and its status with the challenge.
func send(ctx context.Context, method, to, body, kind string) (text, told string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(bytes.TrimSpace(answer)), resp.Status + " " + resp.Header.Get("WWW-Authenticate"), err
}
