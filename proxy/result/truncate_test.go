package result

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// TestCutString cuts at every size. The result is strict JSON, a beginning of the text,
// and as long as possible, less one character, or a quarter at the end of a line.
func TestCutString(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(`\ud83d\ude00`, 20), strings.Repeat(`\uD83D\uDE00a`, 20), strings.Repeat("😀", 20), strings.Repeat("€é", 20),
		strings.Repeat(`\\`, 20), strings.Repeat(`\"a`, 20), strings.Repeat(`ab\n`, 20), strings.Repeat("a", 50), "", `\n`, `\u0041\u00e9`,
	} {
		token := []byte(`"` + text + `"`)
		whole, err := mcp.Unquote(token)
		if err != nil {
			t.Fatal(err)
		}
		for size := 2; size <= len(token)+1; size++ {
			got := cutString(token, size)
			if err := mcp.Validate(got, mcp.Limits{}); err != nil || len(got) > size {
				t.Fatalf("%s in %d bytes is %s: %v", token, size, got, err)
			}
			short, _ := mcp.Unquote(got)
			if !strings.HasPrefix(whole, short) || len(got) < (size-14)*3/4 && len(got) < len(token) {
				t.Fatalf("%s in %d bytes is %s", token, size, got)
			}
		}
	}
}

// TestCutsAreValid cuts random results at random sizes.
func TestCutsAreValid(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7))
	pieces := []string{"a", " ", `\n`, `\\`, `\"`, `\u0041`, `\ud83d\ude00`, `\ud83d`, `\udc00`, "é", "€", "😀", `\/`, "word "}
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	k := NewStore(StoreLimits{KeptResults: 1 << 20, KeptResultsPerPrincipal: 1 << 16, KeptResultsTime: time.Hour}, "")
	tool := Tool{Server: "s", Original: "t", Exposed: "s__t", Schema: []byte(`{}`)}
	for range 2000 {
		var blocks []string
		for range random.IntN(5) {
			text := word(random.IntN(3000))
			blocks = append(blocks, []string{
				`{"type":"text","text":"` + text + `","annotations":{"a":1}}`, `{"type":"image","data":"AAAA","x":"` + text + `"}`,
				`{ "type" : "resource", "resource" : { "text" : "` + text + `" , "uri":"x:/"} }`, `"` + text + `"`,
			}[random.IntN(4)])
		}
		in := `{"content":[` + strings.Join(blocks, ",") + `],"structuredContent":["` + word(random.IntN(2000)) + `"],"z":"` + word(random.IntN(2000)) + `"}`
		rules := &Rules{MaxBytes: 2048 + random.IntN(8000), Larger: []LargerMode{TruncateLarger, KeepLarger}[random.IntN(2)]}
		if len(in) <= rules.MaxBytes {
			continue
		}
		var kept *Kept
		if rules.Keeps() {
			kept = k.Keep("alice", "alice", tool, nil, []byte(in))
		}
		var notes Notes
		out, err := rules.Truncate(tool, []byte(in), kept, &notes)
		if err != nil {
			t.Fatal(err)
		}
		checkCut(t, in, string(mcp.RewriteMeta(out, notes.Member())), rules.MaxBytes)
	}
	if _, bytes := k.Len(); bytes > 1<<16 {
		t.Errorf("%d bytes are kept", bytes)
	}
}

// checkCut requires strict JSON of at most this many bytes.
func checkCut(t *testing.T, in, got string, most int) {
	t.Helper()
	if err := mcp.Validate([]byte(got), mcp.Limits{LoneSurrogates: true}); err != nil {
		t.Fatalf("%.200s became %s: %v", in, got, err)
	}
	if len(got) > most {
		t.Fatalf("%d bytes became %d: %s", len(in), len(got), got)
	}
}
