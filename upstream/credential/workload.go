package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	if h.s.set.Issuer == "" || p.issuer != h.s.set.Issuer {
		err := errors.New("it is not configured which authorization server takes it (auth.issuer)")
		return nil, nil, h.workloadError("the workload's assertion is sent to nobody: "+err.Error(), err)
	}
	assertion, err := readAssertion(h.s.set.Assertion)
	if err != nil {
		return nil, nil, h.workloadError("the workload's assertion (auth.assertion) cannot be used: "+err.Error(), err)
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
		h.s.opts.Logger.Warn("a workload's assertion is not accepted, and is not sent again", "err", err)
		err = h.workloadError("the authorization server does not accept the workload's assertion ("+said(err)+")", err)
		h.rejected = &rejection{of, err}
	}
	if err != nil {
		return nil, nil, err
	}
	h.rejected = nil
	return t, key, nil
}

// said is the code of a refusal, for callers, who need not know whose it is.
func said(err error) string {
	if refused, ok := errors.AsType[*oauth.Error](err); ok && refused.Code != "" {
		return refused.Code
	}
	return "without a reason"
}

// workloadError is an error that no login changes.
func (h *holder) workloadError(why string, err error) error {
	e := &LoginError{Server: h.s.set.Server, Why: why, Final: true, Err: err}
	h.why.Store(e)
	h.ready.Store(nil)
	return e
}

// CheckAssertion tells whether a file holds what could prove a workload.
func CheckAssertion(file string) error {
	_, err := readAssertion(file)
	return err
}

// readAssertion reads what proves a workload. Errors tell neither of it nor where it is.
func readAssertion(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() { // of a pipe nothing might ever come
		return "", errors.New("it is not a file")
	}
	text, err := readMost(file, maxAssertion)
	assertion := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("there is no such file")
	case errors.Is(err, fs.ErrPermission):
		return "", errors.New("the file may not be read")
	case err != nil:
		return "", errors.New("the file cannot be read")
	case len(text) > maxAssertion:
		return "", fmt.Errorf("the file is larger than %d bytes", maxAssertion)
	case strings.Count(assertion, ".") != 2 || strings.ContainsFunc(assertion, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("the file holds no signed JWT")
	}
	return assertion, nil
}

// readMost reads a file, and of one that is larger one byte more than most.
func readMost(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
