package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// most bounds the sign-ins that wait to be finished.
const most = 1000

// people signs people in (OpenID Connect, authorization code with PKCE). It believes
// everybody.
type people struct {
	issuer string
	key    ed25519.PrivateKey

	mu    sync.Mutex
	codes map[string]url.Values // what was asked for
}

// authorize is where a real issuer would ask who somebody is.
func (p *people) authorize(w http.ResponseWriter, r *http.Request) {
	q, code := r.URL.Query(), rand.Text()
	back, err := url.Parse(q.Get("redirect_uri"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || len(p.codes) >= most || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	p.codes[code] = q
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.issuer}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// redeem trades a code for an ID token, once, with the client that sent the person.
func (p *people) redeem(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	p.mu.Lock()
	q, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	p.mu.Unlock()
	if !known || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != r.FormValue("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": p.issuer, "sub": q.Get("sub"), "aud": q.Get("client_id"), "groups": []string{q.Get("groups")}, "nonce": q.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	answer(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "id_token": sign(p.key, "JWT", claims)})
}

var (
	refresh = regexp.MustCompile(`^0; url=(.*)$`)
	title   = regexp.MustCompile(`<title>([^<·]*)`)
	who     = regexp.MustCompile(`<bdi>([^<]*)</bdi> <small>([^<]*)</small>|<span>([^<]*) <small>([^<]*)</small>`)
)

// signIn plays the browser of somebody who signs in to a console at an issuer, and prints
// the page that they see then.
func signIn(ctx context.Context, console, issuer, subject, group string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), issuer+"/authorize?") { // what a person would type there
			q := next.URL.Query()
			q.Set("sub", subject)
			q.Set("groups", group)
			next.URL.RawQuery = q.Encode()
		}
		return nil
	}}
	to := console + "/sign-in/with?" + url.Values{"issuer": {issuer}, "to": {"/calls"}}.Encode()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := browser.Do(r)
		if err != nil {
			return err
		}
		page, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			return err
		}
		if next := refresh.FindStringSubmatch(resp.Header.Get("Refresh")); next != nil {
			to = console + next[1]
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		fmt.Println(strings.TrimSpace(string(title.FindSubmatch(page)[1])))
		if found := who.FindSubmatch(page); found != nil {
			fmt.Printf("%s%s, %s%s\n", found[1], found[3], found[2], found[4])
		}
		return nil
	}
}
