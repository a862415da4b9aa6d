package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/plugins/notify"
)

// user is one who may or may not be at a client, with a receiver.
type user struct {
	there   bool
	slow    bool // nobody reacts
	nowhere bool
	fails   bool
	shown   []string
	posted  []notify.Notice
}

func (u *user) Show(ctx context.Context, text string) (string, bool) {
	if u.slow {
		<-ctx.Done()
		return "", false
	}
	if u.there {
		u.shown = append(u.shown, text)
	}
	return "accept", u.there
}

func (u *user) Post(_ context.Context, n notify.Notice) error {
	switch {
	case u.nowhere:
		return notify.ErrNowhere
	case u.fails:
		return errors.New("no route to host")
	}
	u.posted = append(u.posted, n)
	return nil
}

func tell(t *testing.T, u *user, args string) string {
	t.Helper()
	b, err := inside.New(native.Spec{Key: notify.Name, Shipped: true}, notify.Plugin(u), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Call(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Params: fmt.Appendf(nil, `{"name":"user","arguments":%s}`, args)})
	if err != nil {
		return err.Error()
	}
	if structured := mcp.Lookup(got.Result, "structuredContent"); structured != nil {
		return string(structured)
	}
	return string(got.Result)
}

func TestUserIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		user   user
		args   string
		want   string
		shown  string
		posted string
	}{
		"by the client":     {user: user{there: true}, args: `{"message":"done"}`, want: `{"by":"client","action":"accept"}`, shown: "done"},
		"with all members":  {user: user{there: true}, args: `{"message":"12 failed","title":"Tests","level":"error"}`, want: `"client"`, shown: "Error: Tests\n\n12 failed"},
		"by the webhook":    {args: `{"message":"done","title":"Build","level":"warning"}`, want: `{"by":"webhook"}`, posted: "{done Build warning}"},
		"nobody reacts":     {user: user{slow: true}, args: `{"message":"done"}`, want: `{"by":"webhook"}`, posted: "{done  info}"},
		"nowhere":           {user: user{nowhere: true}, args: `{"message":"done"}`, want: "native.notify.webhook"},
		"the webhook fails": {user: user{fails: true}, args: `{"message":"done"}`, want: "The tool user failed"},
		"nothing":           {user: user{there: true}, args: `{"message":" \n"}`, want: "message has 1 to 2000 bytes"},
		"too much":          {user: user{there: true}, args: `{"message":"` + strings.Repeat("x", 2001) + `"}`, want: "message has 1 to 2000 bytes"},
		"a long title":      {user: user{there: true}, args: `{"message":"x","title":"` + strings.Repeat("x", 121) + `"}`, want: "title has one line"},
		"two titles":        {user: user{there: true}, args: `{"message":"x","title":"a\nb"}`, want: "title has one line"},
		"a level":           {user: user{there: true}, args: `{"message":"x","level":"panic"}`, want: "level is info, warning or error"},
		"hidden text":       {user: user{there: true}, args: `{"message":"pay \u202eeve"}`, want: "nobody sees"},
		"a terminal":        {user: user{there: true}, args: `{"message":"\u001b[2J"}`, want: "nobody sees"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				got := tell(t, &tc.user, tc.args)
				if !strings.Contains(got, tc.want) {
					t.Errorf("%s, want %s", got, tc.want)
				}
				if shown := strings.Join(tc.user.shown, "|"); shown != tc.shown {
					t.Errorf("shown %q, want %q", shown, tc.shown)
				}
				var posted string
				for _, n := range tc.user.posted {
					posted += fmt.Sprint(n)
				}
				if posted != tc.posted {
					t.Errorf("posted %q, want %q", posted, tc.posted)
				}
				if took := time.Since(begun); took > 2*time.Minute || tc.user.slow != (took > 0) {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
