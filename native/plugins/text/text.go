// Package text is the shipped tools that need nothing but their arguments: the
// group util.
package text

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/toolgate/toolgate/native/entry"
	"github.com/toolgate/toolgate/native/toolkit"
)

// Name is the group's key in the configuration.
const Name = "util"

func init() { entry.Enter(Name, Plugin) }

// Plugin returns the plugin. It has no settings.
func Plugin() toolkit.Plugin {
	return toolkit.Plugin{Name: Name, Open: func(config []byte) ([]toolkit.Tool, error) {
		var none struct{}
		if err := strictly(config, &none); err != nil {
			return nil, fmt.Errorf("read the configuration of %s: %w", Name, err)
		}
		return []toolkit.Tool{echo, timestamp}, nil
	}}
}

var echo = toolkit.Tool{
	Name: "echo", Title: "Echo", Description: "Return a text as it is, for instance to see that tools can be called.",
	Input:    json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"What to return","maxLength":1000000}},"required":["text"],"additionalProperties":false}`),
	Output:   json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	ReadOnly: true, Idempotent: true, Category: "text", Risk: toolkit.Low, Timeout: 10 * time.Second, RatePerHour: 36000,
	Run: func(_ context.Context, call *toolkit.Call) (toolkit.Result, error) {
		var in struct {
			Text json.RawMessage `json:"text"` // as it was written
		}
		if err := strictly(call.Arguments, &in); err != nil {
			return toolkit.Result{}, toolkit.Problemf("The arguments are {\"text\": \"...\"}: %v.", err)
		}
		var text string
		if err := json.Unmarshal(in.Text, &text); err != nil {
			return toolkit.Result{}, toolkit.Problemf("text must be a text.")
		}
		structured := append(append([]byte(`{"text":`), in.Text...), '}')
		return toolkit.Result{Text: text, Structured: structured}, nil
	},
}

var timestamp = toolkit.Tool{
	Name: "timestamp", Title: "Date and time", Description: "Return the date and time of now, in UTC and in a time zone.",
	Input: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string","description":"A name of the IANA time zone database, such as Europe/Paris; UTC when left out","maxLength":64}},"additionalProperties":false}`),
	Output: json.RawMessage(`{"type":"object","properties":{"utc":{"type":"string","format":"date-time"},"local":{"type":"string","format":"date-time"},"zone":{"type":"string"},` +
		`"weekday":{"type":"string"},"unix":{"type":"integer"}},"required":["utc","local","zone","weekday","unix"],"additionalProperties":false}`),
	ReadOnly: true, Category: "text", Risk: toolkit.Low, Timeout: 10 * time.Second, RatePerHour: 36000,
	Run: func(_ context.Context, call *toolkit.Call) (toolkit.Result, error) {
		in := struct {
			Zone string `json:"zone"`
		}{Zone: "UTC"}
		if err := strictly(call.Arguments, &in); err != nil {
			return toolkit.Result{}, toolkit.Problemf("The arguments are {\"zone\": \"Europe/Paris\"}, or {}: %v.", err)
		}
		zone, err := time.LoadLocation(in.Zone)
		if err != nil || in.Zone == "" || in.Zone == "Local" {
			return toolkit.Result{}, toolkit.Problemf("There is no time zone %.64q; write a name of the IANA time zone database, such as Europe/Paris or UTC.", in.Zone)
		}
		now := time.Now()
		local := now.In(zone)
		structured, err := json.Marshal(struct {
			UTC     string `json:"utc"`
			Local   string `json:"local"`
			Zone    string `json:"zone"`
			Weekday string `json:"weekday"`
			Unix    int64  `json:"unix"`
		}{now.UTC().Format(time.RFC3339), local.Format(time.RFC3339), in.Zone, local.Weekday().String(), now.Unix()})
		if err != nil {
			return toolkit.Result{}, err
		}
		return toolkit.Result{Text: local.Format(time.RFC3339) + " " + local.Weekday().String(), Structured: structured}, nil
	},
}

// strictly reads one JSON object without unknown members.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more behind it")
	}
	return nil
}
