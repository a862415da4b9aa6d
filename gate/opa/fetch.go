package opa

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	fetchTimeout = 10 * time.Second
	maxRedirects = 5
)

// errSame says that a URL has what was fetched before.
var errSame = errors.New("not modified")

// bundleClient fetches bundles. It follows redirects only on the same host,
// and never from https to http: who may say what the policy is was configured.
func bundleClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // the limit is for the bytes on the wire
	return &http.Client{
		Transport: transport,
		Timeout:   fetchTimeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0].URL
			switch {
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			case req.URL.Host != first.Host || req.URL.Scheme != first.Scheme:
				return errors.New("it redirects to another host, which is not followed; configure that URL")
			}
			return nil
		},
	}
}

// fetch gets the bundle, or errSame if it is the one with the ETag.
func (p *Phase) fetch(ctx context.Context, client *http.Client, etag string) (raw []byte, newTag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.o.Bundle, http.NoBody)
	if err != nil {
		return nil, "", withoutURL(err)
	}
	for name, values := range p.o.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, "", withoutURL(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && etag != "":
		return nil, etag, errSame
	case res.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("the server answered %s", res.Status)
	}
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxBundle+1))
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("read the answer: %w", withoutURL(err))
	case len(raw) > maxBundle:
		return nil, "", fmt.Errorf("the bundle is larger than %d MiB", maxBundle>>20)
	}
	return raw, res.Header.Get("ETag"), nil
}

// refresh fetches the bundle and puts it in force if it is another.
func (p *Phase) refresh(ctx context.Context, client *http.Client) (changed bool, err error) {
	raw, etag, err := p.fetch(ctx, client, p.loader.etag)
	if errors.Is(err, errSame) {
		p.agreed()
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("fetch policy bundle %s: %w", p.sourceName(), err)
	}
	src, err := readBundle(raw, p.sourceName(), p.o.signer)
	if err != nil {
		return false, err
	}
	if changed, err = p.replace(ctx, src, false); err != nil {
		return false, err
	}
	// The tag of a bundle that could not be loaded is not kept: a 304 would
	// then say that all is well.
	p.loader.etag = etag
	p.agreed()
	if changed || !p.loader.copied {
		err := p.keepCopy(raw)
		if p.loader.copied = err == nil; err != nil {
			p.o.Logger.WarnContext(ctx, "the last good policy bundle could not be kept for the next start", "error", err)
		}
	}
	return changed, nil
}

// startBundle loads the first bundle from the URL, or the last good copy.
func (p *Phase) startBundle(ctx context.Context) error {
	client := bundleClient()
	defer client.CloseIdleConnections()
	_, err := p.refresh(ctx, client)
	if err == nil || p.o.CopyDir == "" {
		return err
	}
	raw, missing := readRegular(p.copyFile(), maxBundle)
	if missing != nil {
		return fmt.Errorf("%w; and there is no last good copy: %w", err, missing)
	}
	src, broken := readBundle(raw, p.copyFile(), p.o.signer)
	if broken == nil {
		_, broken = p.replace(ctx, src, true)
	}
	if broken != nil {
		return fmt.Errorf("%w; and the last good copy is none: %w", err, broken)
	}
	p.failed(ctx, err)
	return nil
}

// poll asks the URL now and then.
func (p *Phase) poll(ctx context.Context) error {
	client := bundleClient()
	defer client.CloseIdleConnections()
	for {
		// A fifth more or less, so that many replicas do not ask at once.
		wait := time.Duration(float64(p.o.Poll) * (0.8 + 0.4*rand.Float64()))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		changed, err := p.refresh(ctx, client)
		if err != nil {
			p.failed(ctx, err)
		}
		if changed {
			p.changed()
		}
	}
}

func (p *Phase) copyFile() string {
	sum := sha256.Sum256([]byte(p.o.Bundle))
	return filepath.Join(p.o.CopyDir, "policy-"+hex.EncodeToString(sum[:8])+".tar.gz")
}

// keepCopy writes the last good bundle, in one step and for its owner only.
func (p *Phase) keepCopy(raw []byte) (err error) {
	if p.o.CopyDir == "" {
		return nil
	}
	if err := os.MkdirAll(p.o.CopyDir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(p.o.CopyDir, ".policy-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it is of no use, and the error is the news
		}
	}()
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), p.copyFile())
}
