package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
)

// compactToken is a parsed signed token (RFC 7515 section 3.1). Nothing in it is
// trusted before the signature is verified.
type compactToken struct {
	header, claims map[string]any
	signed         string // the signed text
	signature      []byte

	alg, kid, issuer string
}

var errNoJWT = errors.New("it is not a signed token")

// parseCompact parses a token strictly: three parts, each base64url without padding,
// spare bits or line breaks; two JSON objects.
func parseCompact(token string) (*compactToken, error) {
	header, rest, _ := strings.Cut(token, ".")
	claims, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") { // five parts would be an encrypted token
		return nil, errNoJWT
	}
	t := &compactToken{signed: token[:len(header)+1+len(claims)]}
	var err error
	if t.header, err = decodePart(header); err != nil {
		return nil, err
	}
	if t.claims, err = decodePart(claims); err != nil {
		return nil, err
	}
	if t.signature, err = decodeBase64(signature); err != nil {
		return nil, err
	}
	if t.alg, ok, err = member(t.header, "alg"); err != nil || !ok {
		return nil, errNoJWT
	}
	if t.kid, _, err = member(t.header, "kid"); err != nil {
		return nil, err
	}
	if t.issuer, ok, err = member(t.claims, "iss"); err != nil || !ok {
		return nil, errNoJWT
	}
	return t, nil
}

func decodePart(part string) (map[string]any, error) {
	data, err := decodeBase64(part)
	if err != nil {
		return nil, err
	}
	return decodeObject(data)
}

func decodeBase64(s string) ([]byte, error) {
	if s == "" || strings.ContainsAny(s, "\r\n") { // the decoder would skip line breaks
		return nil, errNoJWT
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// types are the media types of access tokens (RFC 7519 section 5.1, RFC 9068 section
// 2.1). A token of another type is for another purpose (RFC 8725 section 3.11).
var types = []string{"jwt", "at+jwt", "application/jwt", "application/at+jwt"}

// checkHeader refuses anything but a plain signature. Keys in the header (jwk, jku,
// x5c, x5u) are ignored.
func (t *compactToken) checkHeader(algs []string) error {
	if !slices.Contains(algs, t.alg) || methods[t.alg] == nil {
		return badCredentialf("its algorithm is not accepted")
	}
	for _, name := range []string{"crit", "enc", "zip"} {
		if _, ok := t.header[name]; ok {
			return badCredentialf("its header has %q", name)
		}
	}
	typ, ok, err := member(t.header, "typ")
	if err != nil || ok && !slices.Contains(types, lowerASCII(typ)) {
		return badCredentialf("it is not an access token by its type")
	}
	return nil
}

// checkTimes checks exp, nbf and iat (RFC 7519 section 4.1) and returns exp, zero when
// there is none and none is required.
func checkTimes(claims map[string]any, now time.Time, leeway time.Duration, required bool) (expires time.Time, err error) {
	exp, ok, err := dateClaim(claims, "exp")
	switch {
	case err != nil:
		return time.Time{}, err
	case !ok && required:
		return time.Time{}, badCredentialf("it has no exp")
	case ok && !now.Before(exp.Add(leeway)):
		return time.Time{}, fmt.Errorf("%w: it has expired (%w)", gate.ErrBadCredential, ErrClock)
	}
	for _, name := range []string{"nbf", "iat"} {
		at, ok, err := dateClaim(claims, name)
		switch {
		case err != nil:
			return time.Time{}, err
		case ok && at.After(now.Add(leeway)):
			return time.Time{}, fmt.Errorf("%w: its %s is in the future (%w)", gate.ErrBadCredential, name, ErrClock)
		}
	}
	return exp, nil
}

// lastDate is the end of the year 9999; later times overflow.
const lastDate = 253402300799

// dateClaim reads a NumericDate, which may have a fraction.
func dateClaim(claims map[string]any, name string) (at time.Time, ok bool, err error) {
	v, ok := claims[name]
	if !ok {
		return time.Time{}, false, nil
	}
	number, isNumber := v.(json.Number)
	if !isNumber {
		return time.Time{}, false, badCredentialf("its %s is not a number", name)
	}
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > lastDate {
		return time.Time{}, false, badCredentialf("its %s is not a date", name)
	}
	return time.Unix(int64(seconds), int64((seconds-float64(int64(seconds)))*1e9)), true, nil
}

// audienceClaim reads aud, one string or several, in canonical form.
func audienceClaim(claims map[string]any) ([]string, error) {
	switch v := claims["aud"].(type) {
	case string:
		return []string{canonicalAudience(v)}, nil
	case []any:
		list, err := texts("aud", v)
		if err != nil {
			return nil, badCredentialf("%v", err)
		}
		return canonicalAudiences(list), nil
	default:
		return nil, badCredentialf("it names no audience")
	}
}
