package redact

import "strings"

// shape is a kind of credential with a known prefix.
type shape struct {
	name   string
	prefix string
	// body is the alphabet after the prefix, least the minimum length.
	body  alphabet
	least int
}

// alphabet is a set of ASCII characters.
type alphabet [256]bool

func charset(text string) (a alphabet) {
	for i := range len(text) {
		a[text[i]] = true
	}
	return a
}

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

var (
	word      = charset(upper + lower + digits)
	wordLine  = charset(upper + lower + digits + "_")
	wordDash  = charset(upper + lower + digits + "_-")
	wordDot   = charset(upper + lower + digits + "_-.")
	upperOnly = charset(upper + digits)
	hexOnly   = charset("abcdefABCDEF" + digits)
)

// shapes are credentials of services with a public format. A shape whose prefix
// includes another one comes before it.
var shapes = []shape{
	{"github_token", "github_pat_", wordLine, 22},
	{"github_token", "ghp_", word, 30},
	{"github_token", "gho_", word, 30},
	{"github_token", "ghu_", word, 30},
	{"github_token", "ghs_", wordDot, 30},
	{"github_token", "ghr_", word, 30},
	{"gitlab_token", "glpat-", wordDot, 20},
	{"gitlab_token", "gldt-", wordDash, 20},
	{"gitlab_token", "glrt-", wordDot, 20},
	{"aws_access_key", "AKIA", upperOnly, 16},
	{"aws_access_key", "ASIA", upperOnly, 16},
	{"google_api_key", "AIza", wordDash, 35},
	{"google_oauth_secret", "GOCSPX-", wordDash, 24},
	{"google_oauth_token", "ya29.", wordDash, 20},
	{"slack_token", "xoxb-", wordDash, 20},
	{"slack_token", "xoxp-", wordDash, 20},
	{"slack_token", "xoxa-", wordDash, 20},
	{"slack_token", "xoxr-", wordDash, 20},
	{"slack_token", "xoxs-", wordDash, 20},
	{"slack_token", "xapp-", wordDash, 20},
	{"stripe_key", "sk_live_", word, 16},
	{"stripe_key", "sk_test_", word, 16},
	{"stripe_key", "rk_live_", word, 16},
	{"stripe_key", "whsec_", word, 24},
	{"anthropic_key", "sk-ant-", wordDash, 24},
	{"openai_key", "sk-proj-", wordDash, 24},
	{"openai_key", "sk-svcacct-", wordDash, 24},
	{"openai_key", "sk-", word, 32},
	{"npm_token", "npm_", word, 36},
	{"pypi_token", "pypi-", wordDash, 50},
	{"huggingface_token", "hf_", word, 30},
	{"sendgrid_key", "SG.", wordDot, 40},
	{"digitalocean_token", "dop_v1_", hexOnly, 64},
	{"shopify_token", "shpat_", hexOnly, 32},
	{"databricks_token", "dapi", hexOnly, 32},
	{"vault_token", "hvs.", wordDash, 24},
	{"toolgate_key", "tgk_", wordDash, 24},
	{"age_key", "AGE-SECRET-KEY-1", upperOnly, 50},
}

// tokens is the rule that finds them.
type tokens struct{}

func (tokens) find(text string, f *finds) {
	for i := range shapes {
		shapes[i].find(text, f)
	}
	findPrivateKeys(text, f)
	findJWTs(text, f)
	findPasswords(text, f)
}

func (s *shape) find(text string, f *finds) {
	for at := 0; ; {
		i := strings.Index(text[at:], s.prefix)
		if i < 0 {
			return
		}
		start := at + i
		at = start + len(s.prefix)
		if within(text, start) { // checked first: a run that is no token must not be scanned again and again
			continue
		}
		if end := run(text, at, &s.body); end-at >= s.least {
			f.add(start, end, s.name)
			at = end
		}
	}
}

// run returns the end of the run of an alphabet's characters from i on.
func run(text string, i int, a *alphabet) int {
	for i < len(text) && a[text[i]] {
		i++
	}
	return i
}

// within reports whether a position is in the middle of a word.
func within(text string, i int) bool { return i > 0 && word[text[i-1]] }

const pemBegin, pemEnd = "-----BEGIN ", "-----END "

// findPrivateKeys finds PEM blocks (RFC 7468) of private keys. A block without an end
// extends to the end of the text.
func findPrivateKeys(text string, f *finds) {
	for at := 0; ; {
		i := strings.Index(text[at:], pemBegin)
		if i < 0 {
			return
		}
		start := at + i
		at = start + len(pemBegin)
		label, _, ok := strings.Cut(text[at:min(at+80, len(text))], "-----")
		if !ok || !strings.Contains(label, "PRIVATE KEY") {
			continue
		}
		end := len(text)
		if j := strings.Index(text[at:], pemEnd+label+"-----"); j >= 0 {
			end = at + j + len(pemEnd) + len(label) + len("-----")
		}
		f.add(start, end, "private_key")
		at = end
	}
}

// findJWTs finds JSON web tokens in compact form (RFC 7519): three parts, of which the
// first two are Base64 and begin like an object.
func findJWTs(text string, f *finds) {
	for at := 0; ; {
		i := strings.Index(text[at:], "eyJ")
		if i < 0 {
			return
		}
		start := at + i
		end := run(text, start, &wordDash)
		at = end
		if end == len(text) || text[end] != '.' || within(text, start) || !strings.HasPrefix(text[end+1:], "eyJ") {
			continue
		}
		claims := run(text, end+1, &wordDash)
		at = claims
		if cutOff(text[claims:]) {
			f.add(start, claims, "jwt")
			continue
		}
		if claims == len(text) || text[claims] != '.' {
			continue
		}
		at = run(text, claims+1, &wordDash)
		f.add(start, at, "jwt")
	}
}

// maxUserinfo bounds the user and password of a URL.
const maxUserinfo = 512

// findPasswords finds the passwords of URLs, between the colon and the @ of
// scheme://user:password@host (RFC 3986, section 3.2.1).
func findPasswords(text string, f *finds) {
	for at := 0; ; {
		i := strings.Index(text[at:], "://")
		if i < 0 {
			return
		}
		at += i + len("://")
		rest := text[at:min(at+maxUserinfo, len(text))]
		if stop := strings.IndexAny(rest, "/?# \t\r\n\"'<>`"); stop >= 0 {
			rest = rest[:stop]
		}
		host := strings.LastIndexByte(rest, '@')
		if host < 0 {
			continue
		}
		if _, password, ok := strings.Cut(rest[:host], ":"); ok {
			f.add(at+host-len(password), at+host, "url_password")
		}
	}
}
