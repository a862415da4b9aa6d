package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
)

// asking is a call that asks two things.
func asking() *admin.Try {
	params := json.RawMessage(`{"message":"` + strings.Repeat("m", longText) + `","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)
	return &admin.Try{State: admin.TryAsks, Round: 1, Questions: []admin.TryQuestion{
		{Key: "a", Method: "elicitation/create", Params: params}, {Key: "b", Method: "elicitation/create", Params: params},
	}}
}

// Several questions begin unanswered, and nothing is sent until each has an answer.
func TestEachQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sent     url.Values
		want     map[string]string // the answers; nil where nothing is sent
		problems [2]string
	}{
		{url.Values{}, nil, [2]string{"choose an answer", "choose an answer"}},
		{url.Values{"do0": {"accept"}}, nil, [2]string{"", "choose an answer"}},
		{url.Values{"do0": {"accept"}, "do1": {"perhaps"}}, nil, [2]string{"", "choose an answer"}},
		{url.Values{"do": {"accept"}}, nil, [2]string{"choose an answer", "choose an answer"}},
		{
			url.Values{"do0": {"accept"}, "q0/n": {"3"}, "do1": {"decline"}},
			map[string]string{"a": `{"action":"accept","content":{"n":3}}`, "b": `{"action":"decline"}`},
			[2]string{},
		},
	} {
		v := &visit{Console: &Console{sessions: newSessions()}, r: &http.Request{Method: http.MethodPost, PostForm: tt.sent}, session: &session{}}
		d := v.triedOf(asking(), callerData{}, tt.sent)
		a, ok := v.answersOf(d, 1)
		if ok != (tt.want != nil) || d.Asked[0].Problem != tt.problems[0] || d.Asked[1].Problem != tt.problems[1] {
			t.Errorf("%v: %v, %q and %q", tt.sent, ok, d.Asked[0].Problem, d.Asked[1].Problem)
		}
		for key, want := range tt.want {
			if string(a.Answers[key]) != want {
				t.Errorf("%v: %s is answered with %s", tt.sent, key, a.Answers[key])
			}
		}
		var text strings.Builder
		if err := templates()["tried"].ExecuteTemplate(&text, "tried", part{new(page), d}); err != nil {
			t.Fatal(err)
		}
		chosen := strings.Count(text.String(), " selected")
		if want := len(tt.sent["do0"]); tt.want == nil && chosen != want {
			t.Errorf("%v: %d answers are chosen on the page", tt.sent, chosen)
		}
		if text.Len() > 2*longText {
			t.Errorf("the page has %d bytes", text.Len())
		}
	}
}
