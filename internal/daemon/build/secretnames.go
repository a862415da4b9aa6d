package build

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// This file decides which values are secrets, by their names and within URLs.

// secretParts are parts of names of variables with secret values.
var secretParts = []string{
	"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY",
	"AUTH", "COOKIE", "DSN", "CONNECTION_STRING", "DATABASE_URL",
}

// secretWords are whole words in such names.
var secretWords = []string{"KEY", "PASS", "PAT", "PIN", "PW", "PWD", "CREDS"}

// secretEnds are endings of such words, with the words that have the ending but
// another meaning.
var secretEnds = map[string][]string{
	"PASS": {"BYPASS", "COMPASS", "ENCOMPASS", "OVERPASS", "SURPASS", "TRESPASS", "UNDERPASS"},
	"PWD":  {"OLDPWD"},
	"KEY":  {"DONKEY", "HOCKEY", "HOTKEY", "JOCKEY", "MONKEY", "TURKEY", "WHISKEY"},
}

// aboutSecrets are last words of names whose values describe a secret, but are none.
var aboutSecrets = []string{"COLUMN", "COUNT", "DIR", "FILE", "FOLDER", "ID", "LENGTH", "NAME", "PATH", "SIZE", "TYPE"}

// SecretName tells whether the name of a variable or parameter indicates a secret.
func SecretName(name string) bool {
	upper := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if upper == "PWD" { // the folder that a shell is in
		return false
	}
	if slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(upper, part) }) {
		return true
	}
	words := wordsOf(name)
	if len(words) == 0 || slices.Contains(aboutSecrets, words[len(words)-1]) {
		return false
	}
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.TrimRight(word, "0123456789")
		if slices.Contains(secretWords, word) {
			return true
		}
		for end, others := range secretEnds {
			if strings.HasSuffix(word, end) && !slices.Contains(others, word) {
				return true
			}
		}
		return false
	})
}

// wordsOf splits a name into words, in capitals: at characters other than letters and
// digits, and before a capital that follows a small letter.
func wordsOf(name string) []string {
	var b strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToUpper(r))
		before = r
	}
	return strings.Fields(b.String())
}

// secretsOfVariable finds the secrets in a variable: its whole value, or the secret
// parts of a URL.
func secretsOfVariable(name, value string, add func(string)) {
	if SecretName(name) {
		add(value)
	}
	secretsOfURL(value, add)
}

// secretsOfURL finds the password of a URL, and the query values with secret names,
// both decoded and as written. A user name without a password counts where it has the
// shape of a credential.
func secretsOfURL(text string, add func(string)) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil { // an unescaped password, which ends at the last @
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			secretsOfUser(rest[:i], add)
		}
		return
	}
	if password, ok := u.User.Password(); ok {
		add(password)
		add(u.User.Username() + ":" + password) // HTTP encodes the pair in Base64
	} else if name := u.User.Username(); name != "" && LooksSecret(name) {
		add(name)
	}
	authority, _, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		secretsOfUser(authority[:i], add)
	}
	for name, values := range u.Query() {
		if SecretName(name) || strings.EqualFold(name, "sig") {
			for _, value := range values {
				add(value)
			}
		}
	}
}

// secretsOfUser finds the password before the host of a URL, as written.
func secretsOfUser(user string, add func(string)) {
	if _, password, ok := strings.Cut(user, ":"); ok {
		add(password)
	}
}
