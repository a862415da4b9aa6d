package approval_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

const secret = "0123456789abcdef0123456789abcdef"

// signature is made as the documentation says, by other code.
func signature(secret string, at time.Time, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(h.Sum(nil)))
}

// A question goes out signed, its answer comes back signed, and the call may be
// made.
func TestWebhookAndBack(t *testing.T) {
	type post struct {
		signature string
		body      []byte
	}
	posted := make(chan post, 1)
	fails := 1
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if fails > 0 {
			fails--
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		posted <- post{r.Header.Get(approval.SignatureHeader), body}
	}))
	defer receiver.Close()
	hook := approval.NewWebhook(slog.New(slog.DiscardHandler))
	d := newService(t, storetest.Running(t), func(s *approval.Options) {
		s.Asked = func(i approval.Item) { hook.Post(approval.Receiver{URL: receiver.URL, Secret: secret}, i) }
	})
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- hook.Run(ctx) }()
	q := question("1")
	ask(t, d, q)
	got := <-posted
	cancel()
	if err := <-running; err != nil {
		t.Error(err)
	}
	var item approval.Item
	if err := json.Unmarshal(got.body, &item); err != nil || item.Tool != "fs__delete" || item.Arguments != `{"path":"/x"}` {
		t.Fatalf("%s: %v", got.body, err)
	}
	seconds, _, _ := strings.Cut(strings.TrimPrefix(got.signature, "t="), ",")
	var at int64
	if _, err := fmt.Sscan(seconds, &at); err != nil || got.signature != signature(secret, time.Unix(at, 0), string(got.body)) {
		t.Errorf("signature %s", got.signature)
	}

	back := httptest.NewServer(d.Callback(func() string { return secret }, d.Decide))
	defer back.Close()
	body := fmt.Sprintf(`{"id":%q,"decision":"approve","subject":"erin","tenant":"acme","groups":["security"],"reason":"ok"}`, item.ID)
	if status, text := answer(t, back.URL, item.ID, body, signature(secret, time.Now(), body)); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, _ := answer(t, back.URL, item.ID, body, signature(secret, time.Now(), body)); status != http.StatusConflict {
		t.Errorf("answered twice: %d", status)
	}
	if ok, err := d.Use(t.Context(), q); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if done, err := d.Get(t.Context(), item.ID); err != nil || done.DecidedBy != "erin of acme by webhook" || done.Reason != "ok" {
		t.Errorf("%+v, %v", done, err)
	}
}

func answer(t *testing.T, url, id, body, signature string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+approval.CallbackPath+id, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if signature != "" {
		r.Header.Set(approval.SignatureHeader, signature)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Nothing that is not signed by the secret, now, for this question, is an answer.
func TestCallbackRefuses(t *testing.T) {
	d := newService(t, storetest.Running(t), nil)
	id := ask(t, d, question("1")).ID
	key := secret
	back := httptest.NewServer(d.Callback(func() string { return key }, d.Decide))
	defer back.Close()
	good := fmt.Sprintf(`{"id":%q,"decision":"approve","subject":"erin","tenant":"acme","groups":["security"]}`, id)
	now := time.Now()
	for name, tc := range map[string]struct {
		id, body, signature string
		status              int
	}{
		"no signature":        {id, good, "", http.StatusUnauthorized},
		"another secret":      {id, good, signature("other", now, good), http.StatusUnauthorized},
		"an empty secret":     {id, good, signature("", now, good), http.StatusUnauthorized},
		"of another body":     {id, good, signature(secret, now, good+" "), http.StatusUnauthorized},
		"old":                 {id, good, signature(secret, now.Add(-time.Hour), good), http.StatusUnauthorized},
		"of the future":       {id, good, signature(secret, now.Add(time.Hour), good), http.StatusUnauthorized},
		"without a time":      {id, good, "v1=00,t=1", http.StatusUnauthorized},
		"without a sum":       {id, good, fmt.Sprintf("t=%d,v1=", now.Unix()), http.StatusUnauthorized},
		"not hex":             {id, good, fmt.Sprintf("t=%d,v1=zz", now.Unix()), http.StatusUnauthorized},
		"another path":        {"apr_other", good, signature(secret, now, good), http.StatusBadRequest},
		"no JSON":             {id, "yes", signature(secret, now, "yes"), http.StatusBadRequest},
		"unknown question":    {"apr_x", strings.Replace(good, id, "apr_x", 1), signature(secret, now, strings.Replace(good, id, "apr_x", 1)), http.StatusNotFound},
		"two decisions":       {id, strings.Replace(good, `"subject"`, `"decision":"deny","subject"`, 1), "", 0},
		"of another tenant":   {id, strings.Replace(good, `"acme"`, `"other"`, 1), "", http.StatusForbidden},
		"of no tenant":        {id, strings.Replace(good, `"tenant":"acme",`, ``, 1), "", http.StatusForbidden},
		"an unknown member":   {id, strings.Replace(good, `"subject"`, `"x":1,"subject"`, 1), "", 0},
		"neither yes nor no":  {id, strings.Replace(good, `"approve"`, `"maybe"`, 1), "", 0},
		"nobody":              {id, strings.Replace(good, `"erin"`, `""`, 1), "", 0},
		"the caller":          {id, strings.Replace(good, `"erin"`, `"alice"`, 1), "", http.StatusForbidden},
		"of another group":    {id, strings.Replace(good, `"security"`, `"sales"`, 1), "", http.StatusForbidden},
		"the word operator":   {id, strings.Replace(good, `"security"`, `"operator"`, 1), "", http.StatusForbidden},
		"more than may come":  {id, good + strings.Repeat(" ", 17<<10), "", http.StatusUnauthorized},
		"trailing characters": {id, good + "x", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.signature == "" && name != "no signature" {
				tc.signature = signature(secret, now, tc.body)
			}
			status, text := answer(t, back.URL, tc.id, tc.body, tc.signature)
			if tc.status == 0 {
				tc.status = http.StatusBadRequest
			}
			if status != tc.status {
				t.Errorf("%d %s, want %d", status, text, tc.status)
			}
		})
	}
	key = ""
	if status, _ := answer(t, back.URL, id, good, signature("", now, good)); status != http.StatusNotFound {
		t.Errorf("without a webhook: %d", status)
	}
}
