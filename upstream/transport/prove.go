package transport

import (
	"io"
	"net/http"
	"strings"
)

// prover sends one request, with a proof if its credential is bound to a key. If the
// server wants a nonce in the proof, it repeats the request, at most once for all
// attempts.
type prover struct {
	client     *httpClient
	challenged bool
}

// send sends a request and returns the one that was sent last.
func (p *prover) send(r *http.Request) (*http.Request, *http.Response, error) {
	own, ok := p.client.credential.(Proving)
	if !ok || !isBound(r) {
		resp, err := p.client.send(r)
		return r, resp, err
	}
	for nonce := ""; ; {
		// The credential may have become a bearer token since the request was made.
		if err := own.Prove(r, p.client.principal, nonce); err != nil {
			return r, nil, missing(err)
		}
		resp, err := p.client.send(r)
		if err != nil || !isBound(r) {
			return r, resp, err
		}
		nonce = own.Answered(r, nonce, resp.StatusCode, resp.Header)
		if nonce == "" || p.challenged {
			return r, resp, nil
		}
		next, err := repeated(r)
		if err != nil {
			return r, resp, nil //nolint:nilerr // then the refusal is the answer
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		resp.Body.Close()
		r, p.challenged = next, true
	}
}

// isBound tells whether a request has a token that is bound to a key.
func isBound(r *http.Request) bool {
	shown := r.Header["Authorization"]
	return len(shown) == 1 && strings.HasPrefix(shown[0], schemeBound)
}
