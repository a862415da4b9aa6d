package credential

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/toolgate/toolgate/upstream/oauth"
)

// maxAssertion bounds what is read of a workload's assertion, in bytes.
const maxAssertion = 64 << 10

// rejection is an authorization server's word on an assertion.
type rejection struct {
	of  [sha256.Size]byte // the assertion, with what was asked for
	err error
}

// federate takes the assertion of the workload that the gateway is to the server's
// authorization server (RFC 7523 section 2.1, SEP-1933). One that was refused is not
// taken there again: nothing else is tried until the file has another one.
func (h *holder) federate(ctx context.Context, p *place, client *oauth.Registration, scopes []string) (*oauth.Token, *oauth.ProofKey, error) {
	assertion, err := readAssertion(h.s.set.Assertion)
	if err != nil {
		return nil, nil, h.workloadError("the workload's assertion cannot be used (auth.assertion)", err)
	}
	of := sha256.Sum256([]byte(assertion + "\x00" + p.issuer + "\x00" + p.resource + "\x00" + scopesKey(scopes)))
	if h.rejected != nil && h.rejected.of == of {
		return nil, nil, h.rejected.err
	}
	asks, key, err := h.binding(p, p.metadata)
	if err != nil {
		return nil, nil, err
	}
	if client == nil { // the assertion says who asks
		client = &oauth.Registration{Method: oauth.AuthNone}
	}
	t, err := asks.Bearer(ctx, p.metadata, client, assertion, p.resource, scopes)
	if oauth.Rejected(err) {
		err = h.workloadError("the authorization server does not accept the workload's assertion", err)
		h.rejected = &rejection{of, err}
		h.s.opts.Logger.Warn("a workload's assertion is not accepted, and is not sent again", "err", err)
	}
	if err != nil {
		return nil, nil, err
	}
	h.rejected = nil
	return t, key, nil
}

// workloadError is an error that no login changes.
func (h *holder) workloadError(why string, err error) error {
	e := &LoginError{Server: h.s.set.Server, Why: why + ": " + err.Error(), Final: true, Err: err}
	h.why.Store(e)
	h.ready.Store(nil)
	return e
}

// readAssertion reads what proves a workload. Errors repeat nothing of it.
func readAssertion(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	if !info.Mode().IsRegular() { // of a pipe nothing might ever come
		return "", fmt.Errorf("%s is no file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAssertion+1))
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	assertion := strings.TrimSpace(string(text))
	switch {
	case len(text) > maxAssertion:
		return "", fmt.Errorf("%s is larger than %d bytes", file, maxAssertion)
	case strings.Count(assertion, ".") != 2 || strings.ContainsFunc(assertion, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", fmt.Errorf("%s holds no signed JWT", file)
	}
	return assertion, nil
}
