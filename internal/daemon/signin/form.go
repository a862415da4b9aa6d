package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// This file protects the forms of the pages. A form belongs to one link, and so to one
// principal, and to one browser. It expires, and it can be submitted only once, at any
// replica.

// Purposes of forms.
const (
	formConsent = "consent"
	formProof   = "proof"
)

const (
	macForm = "login form"
	// formTime is how long a form is valid: no longer than its browser is recognised.
	formTime = provenTime
	// formGrace is how much longer submitted forms are remembered, for replicas with
	// different clocks.
	formGrace = time.Minute
	// formHead is the length of a form's head in bytes: 16 random ones and the expiry
	// time. A MAC follows.
	formHead = 16 + 8
)

// form returns the hidden value of a form. It prevents forged and repeated
// submissions.
func (s *Service) form(what, sealed, browser string) string {
	head := make([]byte, formHead)
	_, _ = rand.Read(head[:16]) // never fails
	binary.BigEndian.PutUint64(head[16:], uint64(time.Now().Add(formTime).Unix()))
	return hex.EncodeToString(append(head, s.o.Keys.MAC(macForm, formData(what, sealed, browser, head))...))
}

// formData returns the data that a form is bound to.
func formData(what, sealed, browser string, head []byte) []byte {
	return append([]byte(what+"\x00"+browser+"\x00"+sealed+"\x00"), head...)
}

// ownForm tells whether a form comes from a page that this browser was shown for this
// link, and has not expired.
func (s *Service) ownForm(r *http.Request, sealed, browser string) bool {
	what := formConsent
	if r.PostForm.Has("proof") {
		what = formProof
	}
	head, mac, ok := sentForm(r)
	return ok && s.o.Keys.Verify(macForm, formData(what, sealed, browser, head), mac) && time.Now().Before(formEnd(head))
}

// sentForm parses the hidden value of a form.
func sentForm(r *http.Request) (head, mac []byte, ok bool) {
	token, err := hex.DecodeString(r.PostForm.Get("form"))
	if err != nil || len(token) <= formHead {
		return nil, nil, false
	}
	return token[:formHead], token[formHead:], true
}

// formEnd returns when a form expires.
func formEnd(head []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(head[16:])), 0)
}

// firstSent tells whether a form of this browser is submitted for the first time; if
// not, the page says so. Forms count for the principal of their link, so that one
// sender of many forms blocks nobody else.
func (s *Service) firstSent(w http.ResponseWriter, r *http.Request, l *link, what string) bool {
	head, _, _ := sentForm(r) // ownForm has checked it
	id := sha256.Sum256(head)
	first, err := s.o.Store.Logins().Spend(r.Context(), what+"\x00"+l.Principal, hex.EncodeToString(id[:]), formEnd(head).Add(formGrace))
	if err != nil {
		s.fail(w, l.Server, fmt.Errorf("take a form: %w", err))
		return false
	}
	if !first {
		s.say(w, http.StatusConflict, "This form was sent already", "It is good for one time. If you are not signed in, open the link again.")
	}
	return first
}

// ownPage tells whether a form comes from one of the gateway's own pages, according to
// the browser.
func ownPage(r *http.Request, base string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && origin != "null" && u.Host == r.Host && strings.HasPrefix(base, u.Scheme+"://")
}
