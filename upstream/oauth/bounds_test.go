package oauth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// fetches are all requests that a client makes, of an issuer and server at one
// origin.
func fetches(c *oauth.Client, origin string) map[string]func(context.Context) error {
	m := &oauth.Metadata{
		Issuer: origin, TokenEndpoint: origin + "/token", RegistrationEndpoint: origin + "/register", RevocationEndpoint: origin + "/revoke",
	}
	r := &oauth.Registration{ID: "client", Secret: "canary-secret"}
	return map[string]func(context.Context) error{
		"resource metadata": func(ctx context.Context) error {
			_, err := c.FindResource(ctx, origin+"/mcp", oauth.Challenge{ResourceMetadata: origin + "/resource"})
			return err
		},
		"server metadata": func(ctx context.Context) error {
			_, err := c.FindServer(ctx, origin)
			return err
		},
		"registration": func(ctx context.Context) error {
			_, err := c.Register(ctx, m, oauth.NewDocument("toolgate", origin+"/callback"))
			return err
		},
		"token": func(ctx context.Context) error {
			_, err := c.ClientCredentials(ctx, m, r, origin, nil)
			return err
		},
		"revocation": func(ctx context.Context) error {
			return c.Revoke(ctx, m, r, "canary-token", "access_token")
		},
	}
}

// endless is a JSON text without an end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (*endless) Close() error { return nil }

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answering(status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// TestEndlessAnswers has every request answered without an end: no more is read than
// a document may have.
func TestEndlessAnswers(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		var body *endless
		c := &oauth.Client{HTTP: tripper(func(*http.Request) (*http.Response, error) {
			body = &endless{}
			return answering(status, body), nil
		})}
		for name, fetch := range fetches(c, "https://as.example") {
			err := fetch(t.Context())
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s, %d: %v", name, status, err)
			}
			if n := body.read.Load(); n > 512<<10 {
				t.Errorf("%s, %d: %d bytes were read", name, status, n)
			}
		}
	}
}

// stuck is a body of which nothing comes until its request is over.
type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (stuck) Close() error { return nil }

// TestSlowAnswers has every request answered by nobody, and by somebody who stops
// after the header: each ends by itself.
func TestSlowAnswers(t *testing.T) {
	for name, trip := range map[string]tripper{
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"no body": func(r *http.Request) (*http.Response, error) {
			return answering(http.StatusOK, stuck{r.Context()}), nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			for fetch, do := range fetches(&oauth.Client{HTTP: trip}, "https://as.example") {
				began := time.Now()
				err := do(t.Context())
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, %s: %v", fetch, name, err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("%s, %s: ends after %v", fetch, name, took)
				}
			}
		})
	}
}

// TestNothingFollows has every request redirected: the answer is the redirect.
func TestNothingFollows(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var followed atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/inside") {
				followed.Add(1)
			}
			http.Redirect(w, r, "/inside/canary", status)
		}))
		t.Cleanup(s.Close)
		for name, fetch := range fetches(&oauth.Client{HTTP: http.DefaultTransport, Loopback: true}, s.URL) {
			if err := fetch(t.Context()); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s, %d: %v", name, status, err)
			}
		}
		if n := followed.Load(); n != 0 {
			t.Errorf("%d: %d redirects were followed", status, n)
		}
	}
}

// TestTokenAnswers has authorization servers give what is no token, or one with a
// strange life: neither is taken for another thing than it is.
func TestTokenAnswers(t *testing.T) {
	const year = 365 * 24 * time.Hour
	unknown := -time.Second
	for body, life := range map[string]time.Duration{
		`{"access_token":"t","token_type":"Bearer","expires_in":60}`:                         time.Minute,
		`{"access_token":"t","token_type":"bEARER","expires_in":"60"}`:                       time.Minute,
		`{"access_token":"t","token_type":"Bearer","expires_in":60.5}`:                       60500 * time.Millisecond,
		`{"access_token":"t","token_type":"Bearer","expires_in":0}`:                          unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":1e300}`:                      year,
		`{"access_token":"t","token_type":"Bearer","expires_in":9223372036854775807}`:        year,
		`{"access_token":"t","token_type":"Bearer","expires_in":99999999999999999999999999}`: year,
		`{"access_token":"t","token_type":"Bearer"}`:                                         unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":null}`:                       unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":-5}`:                         unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":"soon"}`:                     unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":[60]}`:                       unknown,
		`{"access_token":"t","token_type":"Bearer","expires_in":1e999}`:                      unknown,
	} {
		c := &oauth.Client{HTTP: tripper(func(*http.Request) (*http.Response, error) {
			return answering(http.StatusOK, io.NopCloser(strings.NewReader(body))), nil
		})}
		m := &oauth.Metadata{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token"}
		began := time.Now()
		got, err := c.ClientCredentials(t.Context(), m, &oauth.Registration{ID: "client"}, "https://mcp.example", nil)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if life == unknown != got.Expires.IsZero() {
			t.Errorf("%s: expires %v", body, got.Expires)
		}
		if left := got.Expires.Sub(began); life != unknown && (left < life || left > life+time.Minute) {
			t.Errorf("%s: good for %v, want %v", body, left, life)
		}
	}
	for _, body := range []string{
		`{"access_token":"canary","token_type":"DPoP"}`, `{"access_token":"canary","token_type":"mac"}`, `{"access_token":"canary"}`,
		`{"access_token":"canary","token_type":"N_A"}`, `{"access_token":"canary","token_type":["Bearer"]}`,
		`{"access_token":"canary x","token_type":"Bearer"}`, `{"access_token":"canary\r\nX-Evil: 1","token_type":"Bearer"}`,
		`{"access_token":"","token_type":"Bearer"}`, `{"access_token":{"canary":1},"token_type":"Bearer"}`, `["canary"]`, `"canary"`, `canary`, ``,
		`{"access_token":"` + strings.Repeat("canary", 11000) + `","token_type":"Bearer"}`,
		`{"access_token":"canary","token_type":"Bearer","refresh_token":"a\u0000b"}`,
	} {
		c := &oauth.Client{HTTP: tripper(func(*http.Request) (*http.Response, error) {
			return answering(http.StatusOK, io.NopCloser(bytes.NewReader([]byte(body)))), nil
		})}
		m := &oauth.Metadata{Issuer: "https://as.example", TokenEndpoint: "https://as.example/token"}
		if got, err := c.ClientCredentials(t.Context(), m, &oauth.Registration{ID: "client"}, "https://mcp.example", nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.80s: %v, %v", body, got, err)
		}
	}
}
