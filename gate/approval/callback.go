package approval

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// CallbackPath is the path of answers; the id of the question follows.
const CallbackPath = "/approvals/"

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 16 << 10

// callback is an answer from the receiver of the webhook.
type callback struct {
	ID       string   `json:"id"`
	Decision string   `json:"decision"` // approve or deny
	Subject  string   `json:"subject"`  // who decided
	Tenant   string   `json:"tenant"`   // of the subject, as the receiver vouches; empty is "default"
	Groups   []string `json:"groups"`   // likewise
	Reason   string   `json:"reason"`
	ArgsHash string   `json:"args_hash"` // as in the question; needed to approve where its args_missing is not 0
}

// Decider has the signature of [Service.Decide].
type Decider func(ctx context.Context, id string, grant bool, who Answerer, reason string) (Item, error)

// Callback takes the answers that the receiver of the webhook posts to
// /approvals/ID, signed as its questions are (see [SignatureHeader]):
//
//	{"id":"apr_...","decision":"approve","subject":"erin","tenant":"acme","groups":["security"],"reason":"..."}
//
// The receiver vouches for subject, tenant and groups. The tenant belongs to the
// person who decided; the answer counts only for a question of the same tenant. A
// missing tenant is "default". If the question says that bytes of the arguments are
// missing, approving it requires its "args_hash".
//
// secret returns the secret in force; while it is empty, every answer is refused.
// Senders without it learn nothing. decide is [Service.Decide], or a function around it.
//
// Unsigned requests are cheap: decide is called only after the signature is checked.
func (d *Service) Callback(secret func() string, decide Decider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := secret()
		if key == "" || r.Method != http.MethodPost {
			reply(w, http.StatusNotFound, "there is nothing at this path")
			return
		}
		if r.Header.Get(SignatureHeader) == "" {
			reply(w, http.StatusUnauthorized, notSigned)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAnswer))
		if err != nil || !signed(key, r.Header.Get(SignatureHeader), time.Now(), body) {
			reply(w, http.StatusUnauthorized, notSigned)
			return
		}
		answer, err := readCallback(body, strings.TrimPrefix(r.URL.Path, CallbackPath))
		if err != nil {
			reply(w, http.StatusBadRequest, err.Error())
			return
		}
		who := Answerer{Name: answer.name(), Subject: answer.Subject, Tenant: answer.Tenant, Groups: answer.Groups, Hash: answer.ArgsHash}
		_, err = decide(r.Context(), answer.ID, answer.Decision == "approve", who, shown(answer.Reason))
		switch {
		case err == nil:
			reply(w, http.StatusOK, "")
		case errors.Is(err, ErrNotFromHere):
			reply(w, http.StatusForbidden, err.Error())
		case errors.Is(err, ErrUnknown):
			reply(w, http.StatusNotFound, ErrUnknown.Error())
		case errors.Is(err, ErrNotYours):
			reply(w, http.StatusForbidden, "an answer of this subject does not count for this call")
		case errors.Is(err, ErrUnseen):
			reply(w, http.StatusPreconditionRequired, "the arguments are not shown in full: to approve of them send the args_hash of the question")
		case errors.Is(err, ErrDecided):
			reply(w, http.StatusConflict, ErrDecided.Error())
		default:
			d.log.Error("an answer was not taken", "approval", answer.ID, "err", err)
			reply(w, http.StatusServiceUnavailable, "the answer could not be kept; send it again")
		}
	})
}

// name is who decided, for the record.
func (c *callback) name() string {
	who := c.Subject
	if c.Tenant != "" {
		who += " of " + c.Tenant
	}
	return shown(who + " by webhook")
}

// readCallback reads an answer strictly; it is for the question in the path.
func readCallback(body []byte, id string) (callback, error) {
	var c callback
	if err := mcp.Validate(body, mcp.Limits{}); err != nil {
		return c, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, err
	}
	switch {
	case c.ID == "" || c.ID != id:
		return c, errors.New("id is not that of the path")
	case c.Decision != "approve" && c.Decision != "deny":
		return c, errors.New("decision is neither approve nor deny")
	case c.Subject == "":
		return c, errors.New("subject, who decided, is missing")
	}
	return c, nil
}

const notSigned = "the signature is missing, wrong or too old"

func reply(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := map[string]string{}
	if problem != "" {
		body["error"] = problem
	}
	_ = json.NewEncoder(w).Encode(body)
}
