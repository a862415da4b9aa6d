package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/failure"
)

// remoteTime bounds one request to a server.
const remoteTime = 10 * time.Second

// Remote checks whether a server answers and accepts the credentials that are sent with
// requests. It sends one request that changes nothing, ping, and looks only at the
// status. offset is how far the server's clock is ahead of this machine's; known tells
// whether the server sent its time.
func Remote(ctx context.Context, client *http.Client, subject, url string, headers map[string]string) (found []Finding, offset time.Duration, known bool) {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return []Finding{Found(CodeUnreachable, subject, "the url cannot be used: "+shortened(err), "Correct the url.")}, 0, false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return []Finding{unanswered(subject, err)}, 0, false
	}
	defer resp.Body.Close()
	offset, known = ahead(resp, began)
	what := fmt.Sprintf("%s answers %s", r.URL.Host, resp.Status)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized && r.Header.Get("Authorization") == "":
		found = append(found, Found(CodeLogin, subject, what, ""))
	case code == http.StatusUnauthorized:
		found = append(found, Found(CodeUnauthorized, subject, what, ""))
	case code == http.StatusForbidden:
		found = append(found, Found(CodeForbidden, subject, what, ""))
	case code == http.StatusNotFound || code == http.StatusGone:
		found = append(found, Found(CodeNotThere, subject, what, ""))
	case code >= http.StatusInternalServerError:
		found = append(found, Found(CodeServerFault, subject, what, ""))
	}
	return found, offset, known
}

// unanswered returns the finding for a request without an answer.
func unanswered(subject string, err error) Finding {
	_, noHost := errors.AsType[*net.DNSError](err)
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case noHost:
		return Found(CodeNoHost, subject, shortened(err), "")
	case badCert:
		fix := ""
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
			fix = "Have it renewed, or set the clock if this machine's clock is wrong."
		}
		return Found(CodeServerCert, subject, shortened(err), fix)
	}
	return Found(CodeUnreachable, subject, shortened(err), "")
}

// shortened removes the address from an error of package http, because a query may
// contain a secret.
func shortened(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.Contains(err.Error(), "://") {
			return failure.Plain(err).Error()
		}
		err = inner
	}
}

// Clock asks a web server what time it is. It ignores the rest of the answer.
func Clock(ctx context.Context, client *http.Client, url string) (offset time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return 0, errors.New(shortened(err))
	}
	resp.Body.Close()
	offset, ok := ahead(resp, began)
	if !ok {
		return 0, errNoDate
	}
	return offset, nil
}

var errNoDate = errors.New("the answer has no date")

// ahead returns how far the server's clock is ahead of this machine's. Its Date (RFC 9110
// 6.6.1) is in seconds, from some time between the request and the answer.
func ahead(resp *http.Response, began time.Time) (time.Duration, bool) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	ended := time.Now()
	switch {
	case date.Add(time.Second).Before(began):
		return date.Add(time.Second).Sub(began), true
	case date.After(ended):
		return date.Sub(ended), true
	}
	return 0, true
}

// clockTolerance is how far clocks may differ: the leeway of tokens.
const clockTolerance = time.Minute

// Clocks checks this machine's clock against others. The smallest difference counts, so
// that a single server with a wrong clock causes no finding.
func Clocks(offsets map[string]time.Duration) []Finding {
	least, whose := time.Duration(0), ""
	for name, offset := range offsets {
		if whose == "" || offset.Abs() < least.Abs() {
			least, whose = offset, name
		}
	}
	if whose == "" || least.Abs() <= clockTolerance {
		return nil
	}
	direction := "behind"
	if least < 0 {
		direction = "ahead of"
	}
	return []Finding{Found(CodeClock, "clock", fmt.Sprintf("this machine's clock is %v %s that of %s", least.Abs().Round(time.Second), direction, whose), "")}
}
