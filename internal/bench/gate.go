package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxJudged is what a call may cost more with everything of the gate asked,
	// in µs, and maxKept where the policy's decision may be kept.
	maxJudged, maxKept = 60.0, 15.0
	// maxWarmList and maxColdList are the CPU time of a list of 1,000 tools of a
	// caller who has listed before, and of one who has not, in µs.
	maxWarmList, maxColdList = 1000.0, 80000.0
	// strangers are callers whose first list is measured.
	strangers = 5
)

// plainPolicy reads nothing but what a list reads too, so that its decision on a
// call may be kept.
const plainPolicy = `package toolgate

default decision := false

decision if data.tool_catalog[input.tool_name].enabled
`

// gated is a configuration with every phase of the gate.
type gated struct {
	policy string // the text of the policy
	issuer string // of tokens; empty for API keys
}

// settings are those of the gate. Callers are the owners of the keys.
func (g *gated) settings(dir string, m mounts, keys []string) (map[string]any, error) {
	policies := filepath.Join(dir, "policies")
	if err := os.Mkdir(policies, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write a policy: %w", err)
	}
	if err := os.WriteFile(filepath.Join(policies, "policy.rego"), []byte(g.policy), 0o600); err != nil {
		return nil, fmt.Errorf("write a policy: %w", err)
	}
	members := []string{"user:" + subject(0)}
	auth := map[string]any{}
	if g.issuer != "" {
		auth["jwt"] = map[string]any{"issuer": g.issuer, "audience": "bench", "claims": map[string]any{"groups": "groups"}}
	} else {
		var list []map[string]any
		members = nil
		for i, key := range keys {
			sum := sha256.Sum256([]byte(key))
			list = append(list, map[string]any{"id": subject(i), "sha256": hex.EncodeToString(sum[:]), "subject": subject(i), "groups": []string{"bench"}})
			members = append(members, "user:"+subject(i))
		}
		auth["keys"] = list
	}
	servers := map[string]any{}
	for name := range m {
		servers[name] = map[string]any{"executors": []string{"team:bench"}}
	}
	return map[string]any{
		"auth":     auth,
		"capsules": map[string]any{"bench": map[string]any{"visible": []string{"*"}, "callable": []string{"*"}, "groups": []string{"bench"}}},
		"spicedb": map[string]any{"builtin": map[string]any{
			"teams":   map[string]any{"bench": map[string]any{"members": members}},
			"servers": servers,
		}},
		"opa": map[string]any{"path": policies},
	}, nil
}

func subject(i int) string { return "caller" + strconv.Itoa(i) }

// defaultPolicy is the policy of the examples.
func defaultPolicy() (string, error) {
	for _, root := range []string{".", filepath.Join("..", "..")} {
		text, err := os.ReadFile(filepath.Join(root, "examples", "policies", "policies", "default.rego"))
		if err == nil {
			return string(text), nil
		}
	}
	return "", errors.New("examples/policies/policies/default.rego is not there: run this in the module's folder")
}

// benchGate compares the cost of an echo with every phase of the gate with that
// of one without a gate.
func benchGate(ctx context.Context, l *lab, n *counts, credential, policy string) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"modern", "json"}
	up, err := r.fastUpstream(s)
	if err != nil {
		return nil, err
	}
	servers := mounts{"fast": up.url + "/mcp"}
	a, err := r.contest(&variant{}, servers, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	g := gated{policy: plainPolicy}
	limit := maxKept
	if policy == "default policy" {
		limit = maxJudged
		if g.policy, err = defaultPolicy(); err != nil {
			return nil, err
		}
	}
	r.token = "bench-key-0"
	if credential == "JWT" {
		end, err := r.issue(ctx, &g)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	settings, err := g.settings(r.dir, servers, []string{r.token})
	if err != nil {
		return nil, err
	}
	open := map[string]any{"auth": settings["auth"], "gate": map[string]any{"open": true}}
	known, err := r.contest(&variant{extra: open, token: r.token}, servers, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	b, err := r.contest(&variant{extra: settings, token: r.token}, servers, s.era, n.warm)
	if err != nil {
		return nil, err
	}
	if err := inTurn(ctx, n, order{Do: "echo"}, a, known, b); err != nil {
		return nil, err
	}
	more, who := b.cpu.minus(a.cpu), known.cpu.minus(a.cpu)
	return []row{{
		name: fmt.Sprintf("the gate, %s, %s: more than without", credential, policy), reverse: "-", toolgate: more.both("µs"),
		limit: fmt.Sprintf("%v µs", limit), alloc: short((b.allocated/float64(b.calls) - a.allocated/float64(a.calls)) / 1024),
		verdict: within(more.median(), limit),
	}, {name: "- of it to find out who calls", reverse: "-", toolgate: who.both("µs")}}, nil
}

// issue serves the keys of an issuer from this process and lets the room's
// clients have a token of it, until end is called.
func (r *room) issue(ctx context.Context, g *gated) (end func(), err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	public, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve keys: %w", err)
	}
	g.issuer = "http://" + l.Addr().String()
	b64 := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	serve := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	serve("/.well-known/openid-configuration", map[string]any{"issuer": g.issuer, "jwks_uri": g.issuer + "/keys"})
	serve("/.well-known/oauth-authorization-server", map[string]any{"issuer": g.issuer, "jwks_uri": g.issuer + "/keys"})
	serve("/keys", map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "alg": "ES256", "x": b64(public[1:33]), "y": b64(public[33:]),
	}}})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": g.issuer, "aud": "bench", "sub": subject(0), "groups": []string{"bench"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "k1"
	if r.token, err = token.SignedString(key); err != nil {
		err = fmt.Errorf("sign a token: %w", err)
	}
	return func() {
		server.Close()
		<-done
	}, err
}

// benchGatedList measures a list of 1,000 tools behind every phase of the gate:
// of a caller who has listed before, and of one who has not.
func benchGatedList(ctx context.Context, l *lab, n *counts) (_ []row, err error) {
	r := l.enter(ctx)
	defer leave(r, &err)
	s := setting{"legacy", "json"}
	m, err := r.manyTools(s, listTools)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i := range strangers + 1 {
		keys = append(keys, fmt.Sprintf("bench-key-%d", i))
	}
	var g gated
	if g.policy, err = defaultPolicy(); err != nil {
		return nil, err
	}
	if r.extra, err = g.settings(r.dir, m, keys); err != nil {
		return nil, err
	}
	r.token = keys[0]
	gate, err := r.gateway(m)
	if err != nil {
		return nil, err
	}
	if err := r.ready(gate, s.era, listServers*listTools); err != nil {
		return nil, err
	}
	var cold, warm series
	for i, key := range keys {
		r.token = key
		load, err := r.loader(gate.url+"/mcp", s.era)
		if err != nil {
			return nil, err
		}
		if _, err := load.order(order{Do: "open", Count: 1}); err != nil {
			return nil, gate.failure(err)
		}
		c := &contestant{server: gate, load: load}
		lists := 1
		if i == 0 { // who has listed before
			lists = n.lists
		}
		report, used, err := c.measure(order{Do: "tools", Count: lists, Most: n.roundTime})
		if err != nil {
			return nil, err
		}
		if report.Items != listServers*listTools {
			return nil, gate.failure(fmt.Errorf("caller %d: lists of %d tools, want %d: what the gate does not decide in time is hidden", i, report.Items, listServers*listTools))
		}
		if i == 0 {
			warm = append(warm, micros(used, report.Done))
		} else {
			cold = append(cold, micros(used, report.Done))
		}
	}
	return []row{
		{
			name: "tools/list behind the gate, warm", toolgate: warm.both("µs"), limit: fmt.Sprintf("%v µs", maxWarmList),
			verdict: within(warm.median(), maxWarmList),
		},
		{
			name: "- of a caller who never listed before", toolgate: cold.both("µs"), limit: fmt.Sprintf("%v µs", maxColdList),
			verdict: within(cold.median(), maxColdList),
		},
	}, nil
}
