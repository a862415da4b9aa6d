package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/agents/model"
)

const (
	maxDetail     = 400 // bytes
	maxRetryAfter = 10 * time.Minute
)

// Fault is an error as endpoints write it. Type is Anthropic's and OpenAI's, Code and Param
// are OpenAI's.
type Fault struct {
	Type    string
	Code    string
	Param   string
	Message string
}

// UnmarshalJSON takes what any of them writes, and never fails: a code may be a number,
// and an error just a text.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(data, &members) // an error may be just a text
	if members == nil {
		f.Message = scalar(data)
		return nil
	}
	*f = Fault{Type: scalar(members["type"]), Code: scalar(members["code"]), Param: scalar(members["param"]), Message: scalar(members["message"])}
	return nil
}

func scalar(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	if bytes.HasPrefix(data, []byte("{")) || bytes.HasPrefix(data, []byte("[")) {
		return ""
	}
	return string(data)
}

// tooLong are what messages say of a conversation that does not fit, where no code does.
var tooLong = []string{"context length", "context_length", "context window", "prompt is too long", "maximum context", "exceeds the context", "too many tokens"}

// Error returns the error that an endpoint writes into an answer that began well.
func (f *Fault) Error() *model.Error {
	kind, what := model.Overloaded, "it reports an error in its answer"
	switch name := f.Type + " " + f.Code; {
	case f.isTooLong():
		kind, what = model.TooLong, "the conversation is too long for the model"
	case containsAny(name, "rate_limit", "insufficient_quota"):
		kind, what = model.RateLimited, "it limits the rate of requests"
	case containsAny(name, "timeout"):
		kind, what = model.Timeout, "it took too long"
	case containsAny(name, "authentication", "permission", "invalid_api_key"):
		kind, what = model.Unauthorized, "the key is missing, wrong or without the right to use the model"
	case containsAny(name, "invalid", "not_found", "billing", "policy", "filter", "unsupported"):
		kind, what = model.Refused, "it refuses the request"
	}
	out := model.Errorf(kind, "%s", what)
	out.Repeat = out.Repeat && !strings.Contains(f.Code, "insufficient_quota")
	if kind != model.Unauthorized { // which may repeat a part of the key
		out.Detail = f.Message
	}
	return out
}

func (f *Fault) isTooLong() bool {
	return f.Code == "context_length_exceeded" || f.Type == "request_too_large" || containsAny(strings.ToLower(f.Message), tooLong...)
}

func containsAny(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// refusal returns the error of an answer with another status than 200.
func refusal(resp *http.Response, body []byte, key string) *model.Error {
	var said struct {
		Error   Fault           `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	_ = json.Unmarshal(body, &said) // a status says enough
	if said.Error.Message == "" {
		said.Error.Message = scalar(said.Message) + scalar(said.Detail)
	}
	status := resp.StatusCode
	kind, what := model.Refused, "it refuses the request"
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind, what = model.Unauthorized, "the key is missing, wrong or without the right to use the model"
	case status == http.StatusNotFound:
		what = "the url is wrong, or it has no such model"
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout || status == 524:
		kind, what = model.Timeout, "it took too long"
	case status == http.StatusTooManyRequests:
		kind, what = model.RateLimited, "it limits the rate of requests"
	case status == http.StatusConflict || status >= 500:
		kind, what = model.Overloaded, "it is overloaded or out of order"
	case status == http.StatusRequestEntityTooLarge || said.Error.isTooLong():
		kind, what = model.TooLong, "the conversation is too long for the model"
	case status >= 300 && status < 400:
		what = "it redirects, which is not followed"
	}
	out := model.Errorf(kind, "%s", what)
	out.Status, out.After = status, retryAfter(resp.Header, time.Now())
	switch resp.Header.Get("X-Should-Retry") {
	case "true":
		out.Repeat = true
	case "false":
		out.Repeat = false
	}
	if strings.Contains(said.Error.Code, "insufficient_quota") {
		out.Repeat = false
	}
	if kind != model.Unauthorized {
		out.Detail = clean(said.Error.Message, key)
		out.Param = clean(said.Error.Param, key)
	}
	return out
}

// retryAfter reads how long an endpoint wants to be left alone; 0 for not said.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(h.Get("Retry-After-Ms"), 10, 32); err == nil {
		return min(time.Duration(n)*time.Millisecond, maxRetryAfter)
	}
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// clean returns a text of an endpoint in one line of bounded length, without the key.
func clean(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return Cut(text, maxDetail)
}

// Cut returns a text that is no longer than most bytes, and says so if it was.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	at := most
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return fmt.Sprintf("%s[%d more bytes]", text[:at], len(text)-at)
}
