package servers

import (
	"log/slog"
	"testing"

	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream/credential"
)

// TestOnlyLoginsAreAwaited has servers whose calls wait for what is listed after a
// login, or after the start of the caller's own server, and one at which there is
// neither: its calls pass by.
func TestOnlyLoginsAreAwaited(t *testing.T) {
	for _, tt := range []struct {
		mode   credential.Mode
		shared bool
		waits  bool
	}{
		{credential.ClientCredentials, true, false},
		{credential.Exchange, true, false},
		{credential.ClientCredentials, false, true},
		{credential.Exchange, false, true},
		{credential.OAuth, false, true},
		{credential.APIKey, false, true},
	} {
		s := credential.New(credential.Settings{Server: "web", Mode: tt.mode, Shared: tt.shared}, nil, credential.Options{Logger: slog.New(slog.DiscardHandler)})
		m := new(Table).signedInTo(proxy.Mount{}, s, nil)
		if (m.Await != nil) != tt.waits || (m.Listed != nil) != tt.waits {
			t.Errorf("%s, shared: %t: calls wait: %t", tt.mode, tt.shared, m.Await != nil)
		}
	}
}
