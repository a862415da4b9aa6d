package notify

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/toolapi"
)

const (
	maxMessage = 2000 // bytes
	maxTitle   = 120  // bytes
	perHour    = 60
	// toolTime bounds a call, and showTime how long it waits for the user in the client.
	toolTime, showTime = 2 * time.Minute, 100 * time.Second
)

// Notice is a message to a user.
type Notice struct {
	Message, Title string
	Level          string // info, warning or error
}

// ErrNowhere is returned where there is nowhere to post to.
var ErrNowhere = errors.New("there is no webhook")

// Sender reaches the user of the caller of a context, and nobody else. It is safe for
// concurrent use. An error that is a [toolapi.Problem] is for the caller; every other is
// internal.
type Sender interface {
	// Show shows a text to the person at the client of the call, and returns what they
	// did: accept, decline or cancel. ok is false when the client shows nothing to anybody,
	// or nobody has reacted until ctx ends.
	Show(ctx context.Context, text string) (action string, ok bool)
	// Post posts a message to the operator's receiver, or returns [ErrNowhere].
	Post(ctx context.Context, n Notice) error
}

// Plugin returns the group on a sender.
func Plugin(s Sender) *toolapi.Plugin {
	g := &tools{s}
	out := toolapi.New(Name, "")
	out.Asks = true
	toolapi.Add(out, toolapi.Tool{
		Name: "user", Title: "Notify the user", Category: Name, Risk: toolapi.Low, OpenWorld: true, Timeout: toolTime, RatePerHour: perHour,
		Description: "Tell your user something: in their client where it can show it, else by the operator's webhook. The answer says how they were told, and what they did.",
	}, g.user)
	return out
}

// tools are the functions of the group.
type tools struct{ sender Sender }

type userIn struct {
	Message string `json:"message" jsonschema:"what the user is told, in at most 2000 bytes"`
	Title   string `json:"title,omitempty" jsonschema:"what it is about, in at most 120 bytes"`
	Level   string `json:"level,omitempty" jsonschema:"info, warning or error; info when left out"`
}

type told struct {
	By     string `json:"by" jsonschema:"client or webhook"`
	Action string `json:"action,omitempty" jsonschema:"what the user did in the client: accept, decline or cancel"`
}

func (g *tools) user(ctx context.Context, _ *toolapi.Call, in userIn) (told, error) {
	n, err := in.notice()
	if err != nil {
		return told{}, err
	}
	showing, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	if action, ok := g.sender.Show(showing, n.text()); ok {
		return told{By: "client", Action: action}, nil
	}
	if ctx.Err() != nil {
		return told{}, ctx.Err()
	}
	switch err := g.sender.Post(ctx, n); {
	case errors.Is(err, ErrNowhere):
		return told{}, toolapi.Problemf("The user cannot be told: your client shows no questions, or nobody reacted, and the operator has set no webhook (native.notify.webhook).")
	case err != nil:
		return told{}, err
	}
	return told{By: "webhook"}, nil
}

// notice checks the arguments.
func (in *userIn) notice() (Notice, error) {
	n := Notice{Message: in.Message, Title: strings.TrimSpace(in.Title), Level: in.Level}
	if n.Level == "" {
		n.Level = "info"
	}
	switch {
	case strings.TrimSpace(n.Message) == "" || len(n.Message) > maxMessage:
		return n, toolapi.Problemf("message has 1 to %d bytes.", maxMessage)
	case len(n.Title) > maxTitle || strings.Contains(n.Title, "\n"):
		return n, toolapi.Problemf("title has one line of at most %d bytes.", maxTitle)
	case n.Level != "info" && n.Level != "warning" && n.Level != "error":
		return n, toolapi.Problemf("level is info, warning or error.")
	case hides(n.Message) || hides(n.Title):
		return n, toolapi.Problemf("The text holds characters that nobody sees; write text and line breaks alone.")
	}
	return n, nil
}

// hides tells whether a text holds what its reader does not see, or what lets it look like
// another one.
func hides(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
	})
}

// text is what a client shows.
func (n *Notice) text() string {
	out := n.Message
	if n.Title != "" {
		out = n.Title + "\n\n" + out
	}
	if n.Level != "info" {
		out = strings.ToUpper(n.Level[:1]) + n.Level[1:] + ": " + out
	}
	return out
}
