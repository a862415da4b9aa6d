package admin

import (
	"context"
	"errors"
	"net/http"
)

// ErrNoConsole means that the gateway serves no console.
var ErrNoConsole = errors.New("this gateway serves no console: listen.console is empty, or its address was in use at the start")

// ConsoleOpener is a [Gateway] with a console.
type ConsoleOpener interface {
	// ConsoleLink returns a URL that signs one browser in, once and soon, or
	// [ErrNoConsole].
	ConsoleLink() (string, error)
}

// consolePath is for the gateway's own user alone: [Remote] does not have it.
const consolePath = "/v1/console/link"

func handleConsole(mux *router, o ConsoleOpener) {
	mux.HandleFunc("POST "+consolePath, func(w http.ResponseWriter, _ *http.Request) {
		link, err := o.ConsoleLink()
		writeFound(w, linkAnswer{link}, err)
	})
}

// ConsoleLink returns a URL that signs one browser in to the console.
func (c *Client) ConsoleLink(ctx context.Context) (string, error) {
	var out struct {
		URL string `json:"url"`
	}
	err := c.do(ctx, http.MethodPost, consolePath, &out)
	return out.URL, err
}
