package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Try is one call of a tool that somebody makes by hand. The gateway treats it like the
// call of any client.
type Try struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// State is one of [TryRuns], [TryAsks] and [TryOver].
	State string `json:"state"`
	// Outcome says how it has ended; see [TryDone] and its neighbours.
	Outcome string `json:"outcome,omitempty"`
	// Problem says for people why there is no result.
	Problem string    `json:"problem,omitempty"`
	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended,omitzero"`
	// Revision changes with everything that is shown of the call.
	Revision int `json:"revision"`
	// Round counts the times that the tool has asked. An answer names it.
	Round     int           `json:"round"`
	Questions []TryQuestion `json:"questions,omitempty"` // while it asks
	// Arguments are those of the call; nil when they are too long to be kept.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Messages are what client and gateway have sent, the first ones first.
	Messages []TryMessage `json:"messages"`
	Missed   int          `json:"missed,omitempty"` // messages that are not kept
	// Approval is the question to people that the call was refused for.
	Approval string `json:"approval,omitempty"`
}

// The states of a [Try].
const (
	TryRuns = "running"
	TryAsks = "asking"
	TryOver = "over"
)

// The outcomes of a [Try].
const (
	TryDone      = "done"
	TryFailed    = "failed"    // the tool reports an error
	TryRefused   = "refused"   // the gateway or the server refuses the call
	TryCancelled = "cancelled" // by whoever made it, or because its time is over
)

// TryMessage is a message as it was sent.
type TryMessage struct {
	Sent  bool   `json:"sent"` // by the client
	Bytes int    `json:"bytes"`
	Text  string `json:"text"` // the first ones of its bytes
}

// TryQuestion is something that a tool, or the gateway, asks whoever made the call. Which of
// them it is cannot be told for certain: a server can ask in the gateway's words.
type TryQuestion struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// TryTool is a tool as its caller sees it.
type TryTool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Definition is the tool as it is listed to the caller; nil in lists.
	Definition json.RawMessage `json:"definition,omitempty"`
}

// NewTry is a call to be made by hand.
type NewTry struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// Unchecked sends arguments that do not fit the tool's schema as well.
	Unchecked bool `json:"unchecked,omitempty"`
}

// TryProblem is a problem with the arguments of a call, or with an answer.
type TryProblem struct {
	Pointer string `json:"pointer"` // JSON Pointer of the value; empty for all of it
	Problem string `json:"problem"`
	Fix     string `json:"fix,omitempty"`
}

// TryProblems is the error about values that do not fit a schema. Nothing was sent.
type TryProblems struct {
	Problems []TryProblem `json:"problems"`
	More     int          `json:"more,omitempty"`
}

// Error implements error.
func (p *TryProblems) Error() string { return "the values do not fit the schema; nothing was sent" }

// Trier is whoever makes calls by hand.
type Trier struct {
	// Session keeps the calls of one browser, or one program, apart from others of the
	// same caller.
	Session string
	// Key is an API key or token of the caller; empty for whoever administers the gateway.
	Key string
	// Until is when the credential of the caller ends; zero is never.
	Until time.Time
	// Lasts tells whether the session has not ended. nil stands for one that does not end.
	Lasts func() bool
}

// Errors of [Tries].
var (
	ErrNoTry     = errors.New("there is no such call")
	ErrNoTryTool = errors.New("this caller sees no such tool")
	ErrTryBusy   = errors.New("too many calls are made by hand at the moment; wait for one of them, or cancel it")
	ErrTryRound  = errors.New("the tool does not ask this any more")
	ErrTryAs     = errors.New("say with an API key or token as whom the call is made; an operator is no caller")
	ErrTryLarge  = errors.New("the arguments are too large")
)

// MaxTryArguments bounds the arguments of a call by hand, and each answer, in bytes.
const MaxTryArguments = 1 << 20

// Tries is a [Gateway] through which people call tools by hand. Each sees their own calls
// alone; for others they do not exist.
type Tries interface {
	// TryTools returns the tools that a caller sees, without their definitions.
	TryTools(ctx context.Context, by Trier) ([]TryTool, error)
	// TryTool returns one of them, or [ErrNoTryTool].
	TryTool(ctx context.Context, by Trier, name string) (TryTool, error)
	// Try begins a call. The error is [*TryProblems] for arguments that do not fit.
	Try(ctx context.Context, by Trier, call NewTry) (Try, error)
	// Tried returns the recent calls of a caller's session, the latest first, without
	// messages.
	Tried(ctx context.Context, by Trier) ([]Try, error)
	// TriedCall returns one call, or [ErrNoTry]. It waits until the call has another
	// revision than the given one, or is over, or ctx ends.
	TriedCall(ctx context.Context, by Trier, id string, revision int) (Try, error)
	// AnswerTry answers the questions of a round, all of them, by their keys. The error is
	// [*TryProblems] for answers that do not fit; the pointer begins with the key.
	AnswerTry(ctx context.Context, by Trier, id string, a TryAnswer) error
	// CancelTry ends a call.
	CancelTry(ctx context.Context, by Trier, id string) error
	// EndTries ends all calls of a session and forgets them.
	EndTries(by Trier)
}

// TryAnswer are the answers to the questions of one round: results of elicitation/create.
type TryAnswer struct {
	Round   int                        `json:"round"`
	Answers map[string]json.RawMessage `json:"answers"`
}

const (
	triesPath = "/v1/tries"
	// tryWait is how long one request waits for news of a call at most.
	tryWait = 20 * time.Second
)

// handleTries serves calls by hand. The query parameter session keeps those of one program
// apart from those of another.
func handleTries(mux *router, t Tries) {
	by := func(r *http.Request) Trier {
		return Trier{Session: "api " + r.URL.Query().Get("session"), Key: r.Header.Get(headerAPIKey)}
	}
	mux.HandleFunc("GET "+triesPath+"/tools", func(w http.ResponseWriter, r *http.Request) {
		all, err := t.TryTools(r.Context(), by(r))
		answerTries(w, all, err)
	})
	mux.HandleFunc("GET "+triesPath+"/tool", func(w http.ResponseWriter, r *http.Request) {
		one, err := t.TryTool(r.Context(), by(r), r.URL.Query().Get("name"))
		answerTries(w, one, err)
	})
	mux.HandleFunc("GET "+triesPath, func(w http.ResponseWriter, r *http.Request) {
		all, err := t.Tried(r.Context(), by(r))
		answerTries(w, all, err)
	})
	mux.HandleFunc("POST "+triesPath, func(w http.ResponseWriter, r *http.Request) {
		var call NewTry
		if err := readJSON(r, &call); err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		one, err := t.Try(r.Context(), by(r), call)
		answerTries(w, one, err)
	})
	mux.HandleFunc("GET "+triesPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), tryWait)
		defer cancel()
		revision, err := revisionOf(r.URL.Query())
		if err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		one, err := t.TriedCall(ctx, by(r), r.PathValue("id"), revision)
		answerTries(w, one, err)
	})
	mux.HandleFunc("POST "+triesPath+"/{id}/answer", func(w http.ResponseWriter, r *http.Request) {
		var a TryAnswer
		if err := readJSON(r, &a); err != nil {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		answerTries(w, map[string]any{}, t.AnswerTry(r.Context(), by(r), r.PathValue("id"), a))
	})
	mux.HandleFunc("POST "+triesPath+"/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		answerTries(w, map[string]any{}, t.CancelTry(r.Context(), by(r), r.PathValue("id")))
	})
}

// revisionOf reads the revision that a program has seen; -1 for none, so that nothing is
// waited for.
func revisionOf(q url.Values) (int, error) {
	if !q.Has("after") {
		return -1, nil
	}
	var n int
	if err := json.Unmarshal([]byte(q.Get("after")), &n); err != nil || n < 0 {
		return 0, errors.New("after must be a revision of the call")
	}
	return n, nil
}

// answerTries writes an answer, or says why there is none.
func answerTries(w http.ResponseWriter, v any, err error) {
	if problems, ok := errors.AsType[*TryProblems](err); ok {
		writeJSON(w, http.StatusUnprocessableEntity, problem{problems.Error(), problems.Problems, problems.More})
		return
	}
	status := http.StatusServiceUnavailable
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, v)
		return
	case errors.Is(err, ErrNoTry), errors.Is(err, ErrNoTryTool):
		status = http.StatusNotFound
	case errors.Is(err, ErrTryBusy):
		status = http.StatusTooManyRequests
	case errors.Is(err, ErrTryRound):
		status = http.StatusConflict
	case errors.Is(err, ErrTryAs):
		status = http.StatusForbidden
	case errors.Is(err, ErrTryLarge):
		status = http.StatusRequestEntityTooLarge
	}
	writeJSON(w, status, map[string]any{"error": err.Error()})
}
