package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

const (
	// outbox bounds the questions that wait for the receiver of the webhook.
	outbox = 256
	// postTime bounds one delivery. posts is the number of tries. postPause is the
	// pause before the second try, and doubles for each further one.
	postTime  = 5 * time.Second
	posts     = 3
	postPause = time.Second
)

// Webhook posts every question to a receiver, signed (see [SignatureHeader]): the
// [Item] as JSON. A question that fails three tries, or finds 256 others waiting, is
// logged. It can still be answered in other ways.
type Webhook struct {
	log    *slog.Logger
	poster *Poster
	queue  chan letter
}

type letter struct {
	to   Receiver
	item Item
}

// NewWebhook returns a webhook that delivers while it runs.
func NewWebhook(log *slog.Logger) *Webhook {
	return &Webhook{log: log, queue: make(chan letter, outbox), poster: NewPoster()}
}

// Post has a question delivered. It does not block.
func (w *Webhook) Post(to Receiver, item Item) {
	select {
	case w.queue <- letter{to, item}:
	default:
		w.log.Error("a question is not posted: too many wait for the receiver", "approval", item.ID)
	}
}

// Run delivers until the context ends.
func (w *Webhook) Run(ctx context.Context) error {
	defer w.poster.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-w.queue:
			if err := w.deliver(ctx, l); err != nil && ctx.Err() == nil {
				w.log.Error("a question is not posted", "approval", l.item.ID, "err", err)
			}
		}
	}
}

func (w *Webhook) deliver(ctx context.Context, l letter) error {
	body, err := json.Marshal(l.item)
	if err != nil {
		return fmt.Errorf("write the question: %w", err)
	}
	pause := postPause
	for try := 1; ; try++ {
		err := w.poster.Post(ctx, l.to, body)
		if err == nil || try == posts || time.Now().After(l.item.ExpiresAt) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause *= 2
	}
}

// Poster posts signed messages. Make it with [NewPoster]; it is safe for concurrent use.
type Poster struct{ client *http.Client }

// NewPoster returns a poster, which follows no redirects.
func NewPoster() *Poster {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 2, 2
	return &Poster{&http.Client{
		Timeout: postTime, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Post posts a JSON text to a receiver once, signed (see [SignatureHeader]). It takes at
// most five seconds.
func (p *Poster) Post(ctx context.Context, to Receiver, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post to the webhook: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(SignatureHeader, Sign(to.Secret.Reveal(), time.Now(), body))
	resp, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("post to the webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is kept
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("post to the webhook: it answered %s", resp.Status)
	}
	return nil
}
