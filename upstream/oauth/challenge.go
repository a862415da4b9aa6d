package oauth

import (
	"cmp"
	"net/http"
	"strings"
)

// Challenge is what a server said when it refused a request (RFC 6750 section 3,
// RFC 9728 section 5.1, RFC 9449 section 7.1). The zero Challenge says nothing.
type Challenge struct {
	ResourceMetadata string
	Scope            []string
	Error            string
	// Bound tells that tokens are taken which are bound to a key, Bearer that others
	// are.
	Bound, Bearer bool
}

// maxChallenges bounds how many challenges of one answer are read.
const maxChallenges = 32

// ParseChallenge returns what the first challenges of the schemes Bearer and DPoP say,
// of what both do that of the one that comes first, but what is about a proof before all
// else; ok is false where there is neither.
func ParseChallenge(h http.Header) (found Challenge, ok bool) {
	for _, value := range h.Values("Www-Authenticate") {
		for _, c := range challenges(value) {
			seen := &found.Bearer
			if strings.EqualFold(c.scheme, "DPoP") {
				seen = &found.Bound
			} else if !strings.EqualFold(c.scheme, "Bearer") {
				continue
			}
			if *seen {
				continue
			}
			*seen = true
			found.ResourceMetadata = cmp.Or(found.ResourceMetadata, c.params["resource_metadata"])
			if code := errorCode(c.params["error"]); found.Error == "" || aboutProof(code) {
				found.Error = code
			}
			if found.Scope == nil {
				found.Scope = Scopes(c.params["scope"])
			}
		}
	}
	return found, found.Bearer || found.Bound
}

// WantsNonce tells whether a server refused a request because its proof lacks the
// server's nonce: it has not looked at the request.
func (c Challenge) WantsNonce() bool { return c.Bound && c.Error == wantsNonce }

// RefusesProof tells whether a server refused a proof, and said nothing of the token.
func (c Challenge) RefusesProof() bool { return c.Bound && aboutProof(c.Error) }

func aboutProof(code string) bool { return code == wantsNonce || code == "invalid_dpop_proof" }

type challenge struct {
	scheme string
	params map[string]string
}

// challenges reads a header value: schemes with parameters, separated by commas,
// which also separate the parameters (RFC 9110 section 11.6.1).
func challenges(text string) (all []challenge) {
	for len(all) < maxChallenges {
		text = strings.TrimLeft(text, " \t,")
		word, rest := token(text)
		if word == "" {
			return all
		}
		after := strings.TrimLeft(rest, " \t")
		value, isParam := strings.CutPrefix(after, "=")
		if isParam && len(all) > 0 && !strings.HasPrefix(value, "=") {
			name := strings.ToLower(word)
			word, text = paramValue(strings.TrimLeft(value, " \t"))
			if params := all[len(all)-1].params; len(params) < maxChallenges {
				if _, twice := params[name]; !twice {
					params[name] = word
				}
			}
			continue
		}
		all = append(all, challenge{scheme: word, params: make(map[string]string)})
		text = rest
		// A token68 has no name before its padding.
		if word, rest := token(strings.TrimLeft(text, " \t")); word != "" {
			if rest := strings.TrimLeft(rest, "= \t"); rest == "" || rest[0] == ',' {
				text = rest
			}
		}
	}
	return all
}

// token takes the first token off a text.
func token(text string) (word, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),:;<=>?@[\]{}`, r)
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// paramValue takes a token or a quoted string off a text.
func paramValue(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " \t,")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:]
	}
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return out.String(), text[i+1:]
		case '\\':
			if i++; i < len(text) {
				out.WriteByte(text[i])
			}
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String(), ""
}
