package feedback

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Webhook posts batches as JSON, signed by Standard Webhooks
// (https://www.standardwebhooks.com): the headers webhook-id, webhook-timestamp
// and webhook-signature.
type Webhook struct {
	url    string
	secret []byte
	client *http.Client
}

// posted is the body of a POST.
type posted struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      []Event   `json:"data"`
}

// NewWebhook returns a receiver with a URL. A secret that begins with whsec_ is a
// Base64 key; any other is the key itself.
func NewWebhook(url, secret string) (*Webhook, error) {
	key := []byte(secret)
	if text, coded := strings.CutPrefix(secret, "whsec_"); coded {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("what follows whsec_ in the secret is not Base64: %w", err)
		}
	}
	if len(key) < 24 {
		return nil, fmt.Errorf("the secret has %d bytes; it must have at least 24", len(key))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 2, 2
	return &Webhook{url: url, secret: key, client: &http.Client{
		Timeout: sendTime, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Send implements [Receiver].
func (w *Webhook) Send(ctx context.Context, id string, batch []Event) error {
	now := time.Now()
	body, err := json.Marshal(posted{Type: "tool.executions", Timestamp: now.UTC(), Data: batch})
	if err != nil {
		return &FinalError{fmt.Errorf("write a batch: %w", err)}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return &FinalError{fmt.Errorf("post to the webhook: %w", err)}
	}
	at := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", at)
	r.Header.Set("Webhook-Signature", "v1,"+w.sign(id, at, body))
	resp, err := w.client.Do(r)
	if err != nil {
		return fmt.Errorf("post to the webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be reused
	return verdict(resp)
}

// verdict returns the error of a response: nil for success, final if retrying is
// useless.
func verdict(resp *http.Response) error {
	err := fmt.Errorf("post to the webhook: it answered %s", resp.Status)
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode/100 == 5:
		return err
	case resp.StatusCode == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // other forms are ignored
		return &laterError{err, time.Duration(min(max(seconds, 0), 3600)) * time.Second}
	}
	return &FinalError{err}
}

// sign returns the signature of a POST.
func (w *Webhook) sign(id, at string, body []byte) string {
	mac := hmac.New(sha256.New, w.secret)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Close implements [Receiver].
func (w *Webhook) Close() { w.client.CloseIdleConnections() }

// newID returns a new batch id.
func newID() string { return "msg_" + rand.Text() }
