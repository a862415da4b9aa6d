package decode

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/internal/loopback"
)

// formats are the checks that a format tag names. Each gets the text and the
// folder of the file, and returns the text to keep, or a problem with a hint.
var formats = map[string]func(text, dir string) (kept, hint string, err error){
	"address":   formatAddress,
	"authority": formatAuthority,
	"cidr":      formatCIDR,
	"envname":   formatPattern(envName, "a name of an environment variable", "write letters, digits and _"),
	"host":      formatHost,
	"id":        formatPattern(idPattern, "an id", "write 1 to 64 of A-Z, a-z, 0-9, _, . and -"),
	"namespace": formatNamespace,
	"origin":    formatOrigin,
	"path":      formatPath,
	"redis":     formatRedis,
	"regexp":    formatRegexp,
	"scope":     formatScope,
	"sha256":    formatSHA256,
	"store":     formatStore,
	"target":    formatTarget,
	"toolname":  formatPattern(toolName, "a tool name", "write 1 to 128 of A-Z, a-z, 0-9, _, . and -"),
	"url":       formatURL,
	"window":    formatWindow,
	"zone":      formatZone,
}

// Format checks a text by the format of a tag and returns the text to keep, or a
// problem with a hint. Paths are relative to the folder. An unknown format is a
// mistake in the program.
func Format(name, text, dir string) (kept, hint string, err error) {
	return formats[name](text, dir)
}

// Known tells whether there is a format, or a kind of value, of a name.
func Known(format string) bool { return formats[format] != nil || format == "object" }

// Pattern is the expression that texts of a format match, nil for a format that is
// none.
func Pattern(format string) *regexp.Regexp {
	if p := patterns[format]; p != nil {
		return p()
	}
	return nil
}

// EnvName tells whether a text is a name of an environment variable.
func EnvName(text string) bool { return envName().MatchString(text) }

var patterns = map[string]func() *regexp.Regexp{"envname": envName, "id": idPattern, "namespace": namespace, "toolname": toolName}

var (
	envName   = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
	idPattern = pattern(`^[A-Za-z0-9_.-]{1,64}$`)
	toolName  = pattern(`^[A-Za-z0-9_.-]{1,128}$`)
	namespace = pattern(`^[a-z][a-z0-9-]{0,19}$`)
)

// pattern compiles an expression when it is first asked for: every command of the
// program imports this package, and few come to need every expression.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

func formatPattern(re func() *regexp.Regexp, what, hint string) func(string, string) (string, string, error) {
	return func(text, _ string) (string, string, error) {
		if !re().MatchString(text) {
			return "", hint, fmt.Errorf("%.80q is not %s", text, what)
		}
		return text, "", nil
	}
}

func formatNamespace(text, _ string) (string, string, error) {
	if text != "" && !namespace().MatchString(text) {
		return "", "write 1 to 20 of a-z, 0-9 and -, a letter first, or leave it empty for no prefix", fmt.Errorf("%.80q is not a namespace", text)
	}
	return text, "", nil
}

const addressHint = "write host:port, such as 127.0.0.1:7777"

func formatAddress(text, _ string) (string, string, error) {
	if text == "" {
		return "", "", nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", addressHint, fmt.Errorf("%.80q is not an address to listen on", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return "", addressHint, fmt.Errorf("%.80q has no port number from 0 to 65535", text)
	}
	if strings.ContainsAny(host, " /@") {
		return "", addressHint, fmt.Errorf("%.80q is not an address to listen on", text)
	}
	return text, "", nil
}

func formatCIDR(text, _ string) (string, string, error) {
	if _, err := netip.ParsePrefix(text); err == nil {
		return text, "", nil
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return text, "", nil
	}
	return "", "write it as 10.0.0.0/8", fmt.Errorf("%.80q is not an address range", text)
}

func formatHost(text, _ string) (string, string, error) {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		host = h
		if n, bad := strconv.ParseUint(port, 10, 16); bad != nil || n == 0 {
			host = ""
		}
	}
	if host == "" || strings.ContainsAny(host, "/@* \t") {
		return "", "write a name as it stands in a URL, such as tools.example.com", fmt.Errorf("%.80q is not a host name", text)
	}
	return text, "", nil
}

func formatOrigin(text, _ string) (string, string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.Contains(u.Host, "*") || checkPort(u) != nil {
		return "", "write scheme://host, such as https://app.example.com", fmt.Errorf("%.80q is not a web origin", text)
	}
	return text, "", nil
}

func formatURL(text, _ string) (string, string, error) {
	if text == "" {
		return "", "", nil
	}
	if err := CheckURL(text); err != nil {
		return "", "write it as https://host/path", fmt.Errorf("%.80q %w", text, err)
	}
	return text, "", nil
}

// formatTarget accepts the host and port of a server to connect to.
func formatTarget(text, _ string) (string, string, error) {
	host, port, err := net.SplitHostPort(text)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, " /@") {
		return "", "write host:port, such as spicedb.example.com:50051", fmt.Errorf("%.80q is not the address of a server", text)
	}
	return text, "", nil
}

func formatZone(text, _ string) (string, string, error) {
	if _, err := time.LoadLocation(text); err != nil || text == "Local" {
		return "", "write a name of the IANA database, such as Europe/Paris", fmt.Errorf("%.80q is not a time zone", text)
	}
	return text, "", nil
}

// The bounds of a sliding window.
const (
	minSliding = time.Minute
	maxSliding = 366 * 24 * time.Hour
)

// formatWindow accepts the windows of budgets.
func formatWindow(text, _ string) (string, string, error) {
	const hint = "write hour, day, month, or sliding: with a duration, as in sliding:90m"
	duration, sliding := strings.CutPrefix(text, "sliding:")
	if !sliding {
		if text == "hour" || text == "day" || text == "month" {
			return text, "", nil
		}
		return "", hint, fmt.Errorf("%.80q is not a window", text)
	}
	d, err := units.ParseDuration(duration)
	switch {
	case err != nil:
		return "", hint, fmt.Errorf("%.80q is not a window", text)
	case d < minSliding || d > maxSliding || d%time.Minute != 0:
		return "", "write 1m to 366d", errors.New("a sliding window is 1m to 366d long, in whole minutes")
	}
	return "sliding:" + d.String(), "", nil
}

// CheckURL accepts absolute http and https URLs. Its error quotes nothing of
// the URL, which may hold a secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("is not an http or https URL")
	case u.Hostname() == "":
		return errors.New("names no host")
	}
	return checkPort(u)
}

// checkPort refuses a URL with a port that there is not.
func checkPort(u *url.URL) error {
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("has no port number from 1 to 65535")
		}
	}
	return nil
}

func formatPath(text, dir string) (string, string, error) {
	switch {
	case text == "":
		return "", "", nil
	case strings.ContainsRune(text, 0):
		return "", "", errors.New("a path cannot hold a NUL character")
	case filepath.IsAbs(text) || dir == "":
		return filepath.Clean(text), "", nil
	}
	return filepath.Join(dir, text), "", nil
}

func formatSHA256(text, _ string) (string, string, error) {
	if b, err := hex.DecodeString(text); err != nil || len(b) != 32 {
		return "", "write the 64 hex digits of the hash, not the key itself", errors.New("is not a SHA-256 hash")
	}
	return strings.ToLower(text), "", nil
}

const storeHint = "write sqlite:, sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// formatStore accepts a file or a PostgreSQL database. Its errors quote nothing
// of the text, which may hold a password.
func formatStore(text, dir string) (string, string, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		path, hint, err := formatPath(path, dir)
		return "sqlite:" + path, hint, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "", storeHint, errors.New("is not a store")
	case u.Opaque != "" || u.Host == "" && u.Query().Get("host") == "":
		return "", storeHint, errors.New("names no host")
	case checkPort(u) != nil && !strings.Contains(u.Host, ","):
		return "", storeHint, checkPort(u)
	case strings.Trim(u.Path, "/") == "" && u.Query().Get("dbname") == "":
		return "", storeHint, errors.New("names no database")
	}
	return text, "", nil
}

const redisHint = "write redis://USER:PASSWORD@HOST:PORT/DB, or rediss:// with TLS"

// formatRedis accepts the address of a Redis server. Its errors quote nothing of
// the text, which may hold a password.
func formatRedis(text, _ string) (string, string, error) {
	if text == "" {
		return "", "", nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "redis" && u.Scheme != "rediss":
		return "", redisHint, errors.New("is not the address of a Redis server")
	case u.Hostname() == "":
		return "", redisHint, errors.New("names no host")
	case checkPort(u) != nil:
		return "", redisHint, checkPort(u)
	case u.Fragment != "":
		return "", redisHint, errors.New("has a fragment, which means nothing")
	}
	if db := strings.Trim(u.Path, "/"); strings.Trim(db, "0123456789") != "" {
		return "", redisHint, errors.New("names a database that is not a number")
	}
	for name := range u.Query() {
		if name != "addr" {
			return "", "leave it out", fmt.Errorf("has the parameter %.40q, which means nothing here", name)
		}
	}
	return text, "", nil
}

const authorityHint = "write it as https://login.example.com; http is for this machine only"

// formatAuthority accepts the address of an authorization server: https, or
// http on this machine, without user and fragment. Errors quote nothing of it.
func formatAuthority(text, _ string) (string, string, error) {
	if text == "" {
		return "", "", nil
	}
	if err := CheckURL(text); err != nil {
		return "", authorityHint, fmt.Errorf("it %w", err)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", authorityHint, errors.New("it is not a URL")
	case u.User != nil:
		return "", "remove the user and the password", errors.New("it holds a user")
	case strings.Contains(text, "#"):
		return "", "write it without the # and what follows", errors.New("it has a fragment")
	case u.Scheme != "https" && !loopback.Host(u.Hostname()):
		return "", authorityHint, errors.New("it does not use https")
	}
	return text, "", nil
}

// offlineAccess asks for refresh tokens, which no resource needs.
const offlineAccess = "offline_access"

// formatScope accepts a scope (RFC 6749 section 3.3).
func formatScope(text, _ string) (string, string, error) {
	bad := func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' }
	switch {
	case text == "" || strings.ContainsFunc(text, bad):
		return "", "write one word, without spaces, quotes and backslashes", fmt.Errorf("%.80q is not a scope", text)
	case text == offlineAccess:
		return "", "remove it", errors.New("offline_access is for refresh tokens and protects nothing")
	}
	return text, "", nil
}

// HeaderName tells whether a text can be the name of an HTTP header.
func HeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return name != ""
}
