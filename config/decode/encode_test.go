package decode_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolgate/toolgate/config/decode"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/config/units"
)

type part struct {
	Name  string        `config:"name"`
	Wait  time.Duration `config:"wait" default:"5s"`
	Token secret.Text   `config:"token"`
}

type whole struct {
	part
	On    bool            `config:"on"`
	Cost  int64           `config:"cost" default:"1"`
	Size  units.Size      `config:"size"`
	Raw   json.RawMessage `config:"raw"`
	Maybe *bool           `config:"maybe"`
	One   part            `config:"one"`
	Some  []part          `config:"some"`
	By    map[string]part `config:"by"`
	Words []string        `config:"words"`
	Gone  string          `config:"-"`
}

// What is encoded is what a file says beside the defaults, and nothing secret.
func TestEncode(t *testing.T) {
	t.Parallel()
	all := whole{Cost: 1}
	all.Wait, all.One.Wait = 5*time.Second, 5*time.Second
	if got := decode.Encode(all); got != nil {
		t.Errorf("defaults are encoded as %s", got)
	}
	all = whole{
		part: part{Name: "a", Token: "hunter2"}, On: true, Cost: 2, Size: 1 << 20, Raw: json.RawMessage(`{"b":[1]}`), Maybe: new(false),
		One: part{Wait: 90 * time.Second}, Some: []part{{Name: "x", Wait: 5 * time.Second}}, By: map[string]part{"k": {Name: "y", Wait: time.Second}},
		Words: []string{"w"}, Gone: "never",
	}
	const want = `{"by":{"k":{"name":"y","wait":"1s"}},"cost":2,"maybe":false,"name":"a","on":true,"one":{"wait":"1m30s"},"raw":{"b":[1]},` +
		`"size":"1MiB","some":[{"name":"x"}],"token":"[redacted]","wait":"0s","words":["w"]}`
	if got := string(decode.Encode(all)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
