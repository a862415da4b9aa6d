package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// notifications reads messages to users. Each of them is new.
func notifications(secret string) reader {
	return func(r *http.Request, body []byte) (batch string, more []string, err error) {
		if err := verifyMessage(secret, r.Header.Get("Toolgate-Signature"), body, time.Now()); err != nil {
			return "", nil, err
		}
		var m struct{ Level, Title, Message, Tenant string }
		if err := json.Unmarshal(body, &m); err != nil {
			return "", nil, err
		}
		text := m.Message
		if m.Title != "" {
			text = m.Title + ": " + text
		}
		return "", []string{fmt.Sprintf("%s for %s: %s", m.Level, m.Tenant, text)}, nil
	}
}

// verifyMessage checks a signature "t=SECONDS,v1=HEX": that of SECONDS, a dot and the body.
func verifyMessage(secret, signature string, body []byte, now time.Time) error {
	if secret == "" {
		return errors.New("this receiver has no secret: set RECEIVER_SECRET")
	}
	at, sum, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > signatureAge {
		return errors.New("the time of the signature is missing, or far from now")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	if got, err := hex.DecodeString(sum); err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		return errors.New("the signature is not that of the secret")
	}
	return nil
}
