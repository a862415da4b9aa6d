// Command note-guard is a receiver of interceptors for the examples alone. It denies calls
// whose arguments speak of a password, writes "colour" where somebody has written "color",
// and takes e-mail addresses out of results.
//
//	note-guard ADDRESS
//	note-guard mcp
//	note-guard plugin
//
// With mcp it is an MCP server on its standard input that hosts the first two as
// interceptors of the draft SEP-2624, and with plugin a plugin of toolgate.
//
// GUARD_SECRET is the secret that signs the questions. Anything else is answered with 401.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds a question, in bytes; an interceptor is shown 1 MiB at most.
const maxBody = 2 << 20

// question is what an interceptor is asked, as far as this one wants to know.
type question struct {
	Interceptor string          `json:"interceptor"`
	Phase       string          `json:"phase"` // before or after
	Name        string          `json:"name"`
	Principal   string          `json:"principal"`
	Arguments   json.RawMessage `json:"arguments"`
	Result      json.RawMessage `json:"result"`
}

// answer is what it says.
type answer struct {
	Decision  string          `json:"decision"` // allow, deny or ask
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Note      string          `json:"note,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: note-guard ADDRESS, note-guard mcp or note-guard plugin")
	}
	switch args[0] {
	case "mcp":
		return serveMCP(os.Stdin, os.Stdout)
	case "plugin":
		servePlugin()
	}
	s := &http.Server{Addr: args[0], Handler: http.HandlerFunc(serve), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serve answers one question.
func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || !signed(r.Header.Get("Toolgate-Signature"), body) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, "that is not a question", http.StatusBadRequest)
		return
	}
	a := look(&q)
	fmt.Printf("%s %s %s for %s: %s\n", q.Interceptor, q.Phase, q.Name, q.Principal, a.Decision)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}

var address = regexp.MustCompile(`[A-Za-z0-9._-]+@[A-Za-z0-9.-]+[A-Za-z]`)

// look decides about one call.
func look(q *question) answer {
	switch text := string(q.Arguments); {
	case q.Phase == "after":
		if clean := address.ReplaceAll(q.Result, []byte("[address]")); string(clean) != string(q.Result) {
			return answer{Decision: "allow", Result: clean, Note: "addresses were taken out"}
		}
	case q.Interceptor == "passwords" && strings.Contains(text, "password"):
		return answer{Decision: "deny", Reason: "notes are no place for passwords"}
	case q.Interceptor == "spelling" && strings.Contains(text, "color"):
		return answer{Decision: "allow", Arguments: json.RawMessage(strings.ReplaceAll(text, "color", "colour"))}
	}
	return answer{Decision: "allow"}
}

// signed reports whether a body is from the gateway and not older than five minutes. The
// signature is "t=SECONDS,v1=HEX", where HEX is HMAC-SHA256 of "SECONDS.BODY".
func signed(signature string, body []byte) bool {
	t, sum, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(os.Getenv("GUARD_SECRET")))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	got, err := hex.DecodeString(sum)
	return err == nil && hmac.Equal(got, mac.Sum(nil))
}
