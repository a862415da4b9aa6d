package approval

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader carries the signature of a message between the gateway and
// the receiver of its webhook: "t=SECONDS,v1=HEX", where HEX is HMAC-SHA256 under
// the shared secret over SECONDS (since 1970, UTC), a dot and the body.
const SignatureHeader = "Toolgate-Signature"

// signatureAge is how far the time of a signature may be off.
const signatureAge = 5 * time.Minute

// Sign returns the signature of a body at a time.
func Sign(secret string, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac(secret, seconds, body))
}

func mac(secret, seconds string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(h, "%s.", seconds) // never fails
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// signed tells whether a signature belongs to a body and is fresh. With an empty
// secret it never does.
func signed(secret, signature string, now time.Time, body []byte) bool {
	t, v1, ok := strings.Cut(signature, ",")
	seconds, isTime := strings.CutPrefix(t, "t=")
	sum, isSum := strings.CutPrefix(v1, "v1=")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if secret == "" || !ok || !isTime || !isSum || err != nil {
		return false
	}
	if age := now.Sub(time.Unix(at, 0)); age > signatureAge || age < -signatureAge {
		return false
	}
	got, err := hex.DecodeString(sum)
	return err == nil && hmac.Equal(got, mac(secret, seconds, body))
}
