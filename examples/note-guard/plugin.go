package main

import (
	"bytes"
	"context"

	"github.com/toolgate/toolgate/native/sdk"
)

// servePlugin is a plugin of toolgate that looks at calls and has no tools.
func servePlugin() {
	p := sdk.New("note-guard", "1.0.0")
	p.Intercept(func(_ context.Context, inv *sdk.Invocation) (sdk.Verdict, error) {
		switch {
		case inv.Phase == sdk.List:
			if bytes.Contains(inv.Payload, []byte("delete")) {
				return sdk.Verdict{Reason: "notes are not deleted here"}, nil
			}
		case inv.Phase == sdk.After:
			if clean := address.ReplaceAll(inv.Payload, []byte("[address]")); !bytes.Equal(clean, inv.Payload) {
				return sdk.Verdict{Decision: sdk.Allow, Payload: clean, Note: "addresses were taken out"}, nil
			}
		case bytes.Contains(inv.Payload, []byte("password")):
			return sdk.Verdict{Reason: "notes are no place for passwords"}, nil
		}
		return sdk.Verdict{Decision: sdk.Allow}, nil
	})
	p.Serve()
}
