package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// signatureAge is how old a signature may be, and how far in the future.
const signatureAge = 5 * time.Minute

// execution has the fields of an event that a line shows.
type execution struct {
	ID           string  `json:"id"`
	Tool         string  `json:"tool"`
	Server       string  `json:"server"`
	Success      bool    `json:"success"`
	ErrorClass   string  `json:"error_class"`
	DurationMS   float64 `json:"duration_ms"`
	ResponseSize int64   `json:"response_size"`
	Tenant       string  `json:"tenant"`
}

// executions reads batches of executions. A batch that is sent again has the same id.
func executions(secret string) reader {
	return func(r *http.Request, body []byte) (batch string, more []string, err error) {
		if err := verify(secret, r.Header, body, time.Now()); err != nil {
			return "", nil, err
		}
		var posted struct {
			Type string      `json:"type"`
			Data []execution `json:"data"`
		}
		if err := json.Unmarshal(body, &posted); err != nil {
			return "", nil, err
		}
		for _, e := range posted.Data {
			result := "ok"
			if !e.Success {
				result = "failed: " + e.ErrorClass
			}
			more = append(more, fmt.Sprintf("%s of %s for %s: %s (%d bytes, %.1f ms, call %s)",
				e.Tool, e.Server, e.Tenant, result, e.ResponseSize, e.DurationMS, e.ID))
		}
		return r.Header.Get("Webhook-Id"), more, nil
	}
}

// verify checks a post by the rules of Standard Webhooks
// (https://www.standardwebhooks.com).
func verify(secret string, h http.Header, body []byte, now time.Time) error {
	if secret == "" {
		return errors.New("this receiver has no secret: set RECEIVER_SECRET")
	}
	id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signatureAge {
		return errors.New("the time of the signature is missing, or far from now")
	}
	key := []byte(secret)
	if text, coded := strings.CutPrefix(secret, "whsec_"); coded {
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("what follows whsec_ in RECEIVER_SECRET is not Base64: %w", err)
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	for one := range strings.FieldsSeq(h.Get("Webhook-Signature")) { // several while a secret is being replaced
		text, _ := strings.CutPrefix(one, "v1,")
		if got, err := base64.StdEncoding.DecodeString(text); err == nil && hmac.Equal(got, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("the signature is not that of the secret")
}
