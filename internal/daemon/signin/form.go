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

// This file keeps the forms of the pages that a person is shown: each is of one link,
// so of one principal, and of one browser; it is good for a while, and what it agrees
// to happens once, at whichever replica.

// What a form is for.
const (
	formConsent = "consent"
	formProof   = "proof"
)

const (
	macForm = "login form"
	// formTime is how long a form is good: no longer than its browser is known.
	formTime = provenTime
	// formGrace is how much longer it is known that a form was sent, for replicas
	// whose clocks differ.
	formGrace = time.Minute
	// formHead is what a form begins with, in bytes: 16 that no other form has, and
	// until when it is good. What authenticates it follows.
	formHead = 16 + 8
)

// form is what a form of a page carries, so that no other page's is taken, and none
// twice.
func (s *Service) form(what, sealed, browser string) string {
	head := make([]byte, formHead)
	_, _ = rand.Read(head[:16]) // never fails
	binary.BigEndian.PutUint64(head[16:], uint64(time.Now().Add(formTime).Unix()))
	return hex.EncodeToString(append(head, s.o.Keys.MAC(macForm, formData(what, sealed, browser, head))...))
}

// formData is what a form is bound to.
func formData(what, sealed, browser string, head []byte) []byte {
	return append([]byte(what+"\x00"+browser+"\x00"+sealed+"\x00"), head...)
}

// ownForm tells whether a form is of a page that this browser was shown for this link,
// and not too long ago.
func (s *Service) ownForm(r *http.Request, sealed, browser string) bool {
	what := formConsent
	if r.PostForm.Has("proof") {
		what = formProof
	}
	head, mac, ok := sentForm(r)
	return ok && s.o.Keys.Verify(macForm, formData(what, sealed, browser, head), mac) && time.Now().Before(formEnd(head))
}

// sentForm reads what a form carries.
func sentForm(r *http.Request) (head, mac []byte, ok bool) {
	token, err := hex.DecodeString(r.PostForm.Get("form"))
	if err != nil || len(token) <= formHead {
		return nil, nil, false
	}
	return token[:formHead], token[formHead:], true
}

// formEnd is until when a form is good.
func formEnd(head []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(head[16:])), 0)
}

// firstSent tells whether a form of this browser's is sent for the first time; where
// it is not, the page says so. Forms count for the principal of their link, so that
// who sends many keeps nobody else from signing in.
func (s *Service) firstSent(w http.ResponseWriter, r *http.Request, l *link, what string) bool {
	head, _, _ := sentForm(r) // which is one: see ownForm
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

// ownPage tells whether a form comes from a page of the gateway's own, as far as the
// browser says.
func ownPage(r *http.Request, base string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && origin != "null" && u.Host == r.Host && strings.HasPrefix(base, u.Scheme+"://")
}
