package mcp

import "testing"

func TestAccepts(t *testing.T) {
	for header, want := range map[string][2]bool{ // JSON, events
		"application/json, text/event-stream":                     {true, true},
		"Application/JSON, Text/Event-Stream":                     {true, true},
		"text/event-stream;q=0.5,application/json; charset=utf-8": {true, true},
		"*/*":                                  {true, true},
		"application/*, text/*":                {true, true},
		"application/jsonx, text/event-stream": {false, true},
		"application/json":                     {true, false},
		"text/html":                            {false, false},
		"":                                     {false, false},
		"application/json;q=0, */*":            {false, true},
		"text/*;q=0, */*;q=0.1":                {true, false},
		"*/*;q=0, application/json":            {true, false},
		"application/json;q=0.0, text/event-stream;Q=1": {false, true},
		"bad/, application/json, text/event-stream;q=x": {true, true},
	} {
		if got := [2]bool{accepts([]string{header}, TypeJSON), accepts([]string{header}, TypeEvents)}; got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
		if got := AcceptsBoth([]string{header}); got != (want[0] && want[1]) {
			t.Errorf("%q: both %v", header, got)
		}
	}
	if !AcceptsBoth(nil) || !AcceptsBoth([]string{"application/json", "text/event-stream"}) {
		t.Error("no header, or two of them")
	}
}
