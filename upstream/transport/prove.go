package transport

import (
	"io"
	"net/http"
	"strings"
)

// prover sends one request, with a proof where its credential is bound to a key. Once
// it sends it again because the server wants its nonce in the proof, whatever else the
// request is sent again for.
type prover struct {
	client     *httpClient
	challenged bool
}

// Send sends a request. It returns the one that was sent last.
func (p *prover) Send(r *http.Request) (*http.Request, *http.Response, error) {
	own, ok := p.client.credential.(Proving)
	if !ok || !isBound(r) {
		resp, err := p.client.Send(r)
		return r, resp, err
	}
	for nonce := ""; ; {
		// What the request was made with may be a bearer token by now.
		if err := own.Prove(r, p.client.principal, nonce); err != nil {
			return r, nil, missing(err)
		}
		resp, err := p.client.Send(r)
		if err != nil || !isBound(r) {
			return r, resp, err
		}
		nonce = own.Answered(r, nonce, resp.StatusCode, resp.Header)
		if nonce == "" || p.challenged {
			return r, resp, nil
		}
		next, err := repeated(r)
		if err != nil {
			return r, resp, nil //nolint:nilerr // the refusal is the answer then
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		resp.Body.Close()
		r, p.challenged = next, true
	}
}

// isBound tells whether a request shows a token that is bound to a key.
func isBound(r *http.Request) bool {
	shown := r.Header["Authorization"]
	return len(shown) == 1 && strings.HasPrefix(shown[0], schemeBound)
}
