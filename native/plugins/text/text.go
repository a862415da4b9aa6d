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

	"github.com/toolgate/toolgate/native/embedded"
	"github.com/toolgate/toolgate/native/toolapi"
)

// Name is the group's key in the configuration.
const Name = "util"

func init() { embedded.Enter(Name, Plugin) }

// Plugin returns the plugin. It has no settings.
func Plugin() *toolapi.Plugin {
	p := toolapi.New(Name, "")
	p.Add(echo, timestamp)
	p.Init = func(config []byte) error {
		var none struct{}
		if err := strictly(config, &none); err != nil {
			return fmt.Errorf("read the configuration of %s: %w", Name, err)
		}
		return nil
	}
	return p
}

var echo = toolapi.Tool{
	Name: "echo", Title: "Echo", Description: "Return a text as it is, for instance to see that tools can be called.",
	Input:    json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"What to return","maxLength":1000000}},"required":["text"],"additionalProperties":false}`),
	Output:   json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	ReadOnly: true, Idempotent: true, Category: "text", Risk: toolapi.Low, Timeout: 10 * time.Second, RatePerHour: 36000,
	Run: func(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
		var in struct {
			Text json.RawMessage `json:"text"` // as it was written
		}
		if err := strictly(call.Arguments, &in); err != nil {
			return toolapi.Result{}, toolapi.Problemf("The arguments are {\"text\": \"...\"}: %v.", err)
		}
		var text string
		if err := json.Unmarshal(in.Text, &text); err != nil {
			return toolapi.Result{}, toolapi.Problemf("text must be a text.")
		}
		structured := append(append([]byte(`{"text":`), in.Text...), '}')
		return toolapi.Result{Text: text, Structured: structured}, nil
	},
}

var timestamp = toolapi.Tool{
	Name: "timestamp", Title: "Date and time", Description: "Return the date and time of now, in UTC and in a time zone.",
	Input: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string","description":"A name of the IANA time zone database, such as Europe/Paris; UTC when left out","maxLength":64}},"additionalProperties":false}`),
	Output: json.RawMessage(`{"type":"object","properties":{"utc":{"type":"string","format":"date-time"},"local":{"type":"string","format":"date-time"},"zone":{"type":"string"},` +
		`"weekday":{"type":"string"},"unix":{"type":"integer"}},"required":["utc","local","zone","weekday","unix"],"additionalProperties":false}`),
	ReadOnly: true, Category: "text", Risk: toolapi.Low, Timeout: 10 * time.Second, RatePerHour: 36000,
	Run: func(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
		in := struct {
			Zone string `json:"zone"`
		}{Zone: "UTC"}
		if err := strictly(call.Arguments, &in); err != nil {
			return toolapi.Result{}, toolapi.Problemf("The arguments are {\"zone\": \"Europe/Paris\"}, or {}: %v.", err)
		}
		zone, err := time.LoadLocation(in.Zone)
		if err != nil || in.Zone == "" || in.Zone == "Local" {
			return toolapi.Result{}, toolapi.Problemf("There is no time zone %.64q; write a name of the IANA time zone database, such as Europe/Paris or UTC.", in.Zone)
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
			return toolapi.Result{}, err
		}
		return toolapi.Result{Text: local.Format(time.RFC3339) + " " + local.Weekday().String(), Structured: structured}, nil
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
