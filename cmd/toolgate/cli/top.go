package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/cmd/toolgate/command"
	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/cmd/toolgate/screen"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

func newTop(o *command.Options) *cobra.Command {
	var every time.Duration
	var count int
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch the running gateway at work",
		Long: `Show which tools are called, how often, how long calls take and what fails, until
interrupted. On a terminal each update redraws the screen. Its last line names the keys
that sort the tools by a column; the same key again reverses the order. / begins a
filter: type a part of the names, then press Enter to keep it or Esc to clear it. q ends
it. With -o json each update is one line, for programs. --count prints that many updates
and ends.`,
		Example: "  toolgate top\n  toolgate top --count 1 -o json",
		Args:    command.FileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < minEvery || count < 0 {
				return failure.Newf(failure.Usage, "write --every %v or more, and --count 0 or more", minEvery)
			}
			return o.WithControl(cmd.Context(), func(control *admin.Client) error {
				return watchTop(o, cmd.Context(), control, every, count)
			})
		},
		ValidArgsFunction: completeFiles,
	}
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two updates")
	c.Flags().IntVar(&count, "count", 0, "number of updates; 0 for no end")
	o.OutputFlag(c)
	return c
}

// minEvery is the shortest time between two updates.
const minEvery = 100 * time.Millisecond

// look is what `top` shows at one time. The field names are stable.
type look struct {
	Now      time.Time `json:"now"`
	Seconds  float64   `json:"seconds"` // since the previous update, or since the start for the first one
	Mode     string    `json:"mode"`
	Ready    bool      `json:"ready"`
	Sessions int       `json:"sessions"`
	Pending  int       `json:"approvals_pending"`
	Open     int       `json:"breakers_open"`
	Tools    []topTool `json:"tools"`
}

// topTool is a tool's activity since the previous update.
type topTool struct {
	Server  string  `json:"server"`
	Tool    string  `json:"tool"`
	Calls   int64   `json:"calls"`
	Rate    float64 `json:"calls_per_second"`
	Failed  int64   `json:"failed"`
	Denied  int64   `json:"denied"`
	Millis  float64 `json:"mean_ms"`
	AllTime int64   `json:"calls_in_all"`
}

func watchTop(o *command.Options, ctx context.Context, control *admin.Client, every time.Duration, count int) error {
	if count == 0 && o.Output == "table" && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb" {
		return topOnTerminal(ctx, control, every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before admin.Activity
	for n := 1; ; n++ {
		activity, l, err := askLook(ctx, control, &before)
		if err != nil {
			return untilInterrupted(ctx, err)
		}
		if err := printLook(o, &l); err != nil {
			return err
		}
		before = activity
		if n == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// askLook asks a gateway for what has happened since before.
func askLook(ctx context.Context, control *admin.Client, before *admin.Activity) (admin.Activity, look, error) {
	activity, err := control.Activity(ctx)
	if err != nil {
		return activity, look{}, err
	}
	now, err := overviewOf(ctx, control)
	if err != nil {
		return activity, look{}, err
	}
	return activity, lookOf(before, &activity, &now), nil
}

// untilInterrupted treats an interrupt as success for a command that runs until then.
func untilInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// lookOf compares two answers. A restarted gateway has lower counts than before; then all
// of them are new.
func lookOf(before, after *admin.Activity, now *overview) look {
	l := look{Now: after.Now, Mode: now.Mode, Ready: now.Ready, Sessions: after.Sessions, Pending: len(now.Approvals), Open: len(now.Breakers), Tools: []topTool{}}
	if !before.Now.IsZero() {
		l.Seconds = after.Now.Sub(before.Now).Seconds()
	}
	type key struct{ server, tool string }
	old := map[key]admin.ToolActivity{}
	for _, t := range before.Tools {
		old[key{t.Server, t.Tool}] = t
	}
	for _, t := range after.Tools {
		was := old[key{t.Server, t.Tool}]
		if was.Calls > t.Calls {
			was = admin.ToolActivity{}
		}
		row := topTool{Server: t.Server, Tool: t.Tool, Calls: t.Calls - was.Calls, Failed: t.Failed - was.Failed, Denied: t.Denied - was.Denied, AllTime: t.Calls}
		if row.Calls > 0 {
			row.Millis = float64(t.Micros-was.Micros) / float64(row.Calls) / 1000
		}
		if l.Seconds > 0 {
			row.Rate = float64(row.Calls) / l.Seconds
		}
		l.Tools = append(l.Tools, row)
	}
	slices.SortStableFunc(l.Tools, func(a, b topTool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(b.AllTime, a.AllTime))
	})
	return l
}

// topRows is the maximum number of tools in the table.
const topRows = 30

func printLook(o *command.Options, l *look) error {
	switch o.Output {
	case "json", "yaml":
		text, err := json.Marshal(l) // JSON is valid YAML
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", output.EscapedJSON(text))
		return err
	}
	t := output.Table{Header: topHeader, Data: l}
	for i := range l.Tools {
		row := &l.Tools[i]
		t.Names = append(t.Names, row.name())
		if len(t.Rows) < topRows || o.Output == "wide" {
			t.Rows = append(t.Rows, row.cells())
		}
	}
	if o.Output != "name" {
		output.Say("%s\n", l.title())
	}
	return o.Print(os.Stdout, t)
}

// title says how the gateway is, in one line.
func (l *look) title() string {
	ready := "ready"
	if !l.Ready {
		ready = "not ready"
	}
	text := fmt.Sprintf("%s  %s, %s, %s", l.Now.Format(time.TimeOnly), output.Printable(l.Mode), ready, screen.Count(l.Sessions, "session"))
	if l.Pending > 0 {
		text += ", " + screen.Count(l.Pending, "approval") + " pending"
	}
	if l.Open > 0 {
		text += ", " + screen.Count(l.Open, "breaker") + " not closed"
	}
	return text
}

// topHeader are the columns of the table.
var topHeader = []string{"TOOL", "CALLS", "RATE", "MEAN", "FAILED", "DENIED", "TOTAL"}

// name is the name of the tool for callers, which begins with that of its server.
func (t *topTool) name() string { return cmp.Or(t.Tool, t.Server) }

func (t *topTool) cells() []string {
	rate, mean := "-", "-"
	if t.Rate > 0 {
		rate = fmt.Sprintf("%.1f/s", t.Rate)
	}
	if t.Calls > 0 {
		mean = fmt.Sprintf("%.1f ms", t.Millis)
	}
	return []string{t.name(), fmt.Sprint(t.Calls), rate, mean, fmt.Sprint(t.Failed), fmt.Sprint(t.Denied), fmt.Sprint(t.AllTime)}
}

// topOrder is a column by which the tools can be sorted.
type topOrder struct {
	key   rune
	label string
	by    func(a, b *topTool) int
}

// topOrders has the orders of all columns. The first rows are those with most, so by name
// the order is turned round.
var topOrders = []topOrder{
	{'n', "tool", func(a, b *topTool) int { return cmp.Compare(b.name(), a.name()) }},
	{'c', "calls", func(a, b *topTool) int { return cmp.Compare(a.Calls, b.Calls) }},
	{'r', "rate", func(a, b *topTool) int { return cmp.Compare(a.Rate, b.Rate) }},
	{'m', "mean", func(a, b *topTool) int { return cmp.Compare(a.Millis, b.Millis) }},
	{'f', "failed", func(a, b *topTool) int { return cmp.Compare(a.Failed, b.Failed) }},
	{'d', "denied", func(a, b *topTool) int { return cmp.Compare(a.Denied, b.Denied) }},
	{'t', "total", func(a, b *topTool) int { return cmp.Compare(a.AllTime, b.AllTime) }},
}

// topView is what a person has chosen to see. The zero value shows all tools in the order
// of their calls.
type topView struct {
	order   rune // key of the column; 0 for the calls
	reverse bool
	filter  string
	typing  bool // the filter
}

// maxFilter bounds the filter, in characters.
const maxFilter = 64

// press takes a key. It returns false for one that ends the command.
func (v *topView) press(key rune) bool {
	switch {
	case key == screen.KeyInterrupt || key == screen.KeyEnd:
		return false
	case key == screen.KeyEscape:
		v.filter, v.typing = "", false
	case v.typing:
		v.edit(key)
	case key == 'q' || key == 'Q':
		return false
	case key == '/':
		v.typing = true
	default:
		for _, o := range topOrders {
			if o.key == key {
				v.reverse = cmp.Or(v.order, 'c') == key && !v.reverse
				v.order = key
			}
		}
	}
	return true
}

// edit takes a key of the filter.
func (v *topView) edit(key rune) {
	switch {
	case key == '\r' || key == '\n':
		v.typing = false
	case key == screen.KeyBackspace || key == screen.KeyDelete:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case key == screen.KeyClear:
		v.filter = ""
	case unicode.IsPrint(key) && utf8.RuneCountInString(v.filter) < maxFilter:
		v.filter += string(key)
	}
}

// rows returns the tools that are shown, in their order.
func (v *topView) rows(tools []topTool) []topTool {
	var out []topTool
	for i := range tools {
		if strings.Contains(strings.ToLower(tools[i].name()), strings.ToLower(v.filter)) {
			out = append(out, tools[i])
		}
	}
	for _, o := range topOrders {
		if o.key == cmp.Or(v.order, 'c') {
			slices.SortStableFunc(out, func(a, b topTool) int {
				if v.reverse {
					a, b = b, a
				}
				return o.by(&b, &a)
			})
		}
	}
	return out
}

// keys is the last line of the screen.
func (v *topView) keys() string {
	if v.typing {
		return "/" + v.filter + "_  Enter keeps the filter, Esc clears it"
	}
	var line strings.Builder
	line.WriteString("q quit  / filter ")
	for _, o := range topOrders {
		begin, end := " ", " "
		if o.key == cmp.Or(v.order, 'c') {
			begin, end = "[", "]"
		}
		line.WriteString(begin + string(o.key) + " " + o.label + end)
	}
	return line.String()
}

// topRest are the lines of the screen that are not for tools: the title, an empty line, the
// header and the keys.
const topRest = 4

// draw returns the whole screen, in lines that end where a raw terminal ends them.
func (v *topView) draw(l *look, s *screen.Screen) []byte {
	tools, rows := v.rows(l.Tools), [][]string(nil)
	for i := range tools[:min(len(tools), max(s.Height-topRest, 1))] {
		rows = append(rows, tools[i].cells())
	}
	var text bytes.Buffer
	fmt.Fprintln(&text, l.title())
	switch {
	case v.filter != "":
		fmt.Fprintf(&text, "%d of %s with %s\n", len(tools), screen.Count(len(l.Tools), "tool"), output.Printable(v.filter))
	default:
		fmt.Fprintln(&text)
	}
	_ = s.Columns(&text, topHeader, rows) // a buffer takes everything
	var out bytes.Buffer
	out.WriteString("\x1b[H") // cursor to the top left
	for line := range strings.Lines(text.String()) {
		out.WriteString(fitted(strings.TrimSuffix(line, "\n"), s.Width) + "\x1b[K\r\n")
	}
	out.WriteString("\x1b[J") // what was below
	if s.Height > 0 {
		fmt.Fprintf(&out, "\x1b[%d;1H", s.Height)
	}
	out.WriteString(fitted(v.keys(), s.Width))
	return out.Bytes()
}

// fitted cuts a line that has no colours to the width of the screen.
func fitted(line string, width int) string {
	if width == 0 || strings.Contains(line, "\x1b") {
		return line
	}
	return runewidth.Truncate(line, width, "…")
}

// topOnTerminal shows the activity until a key or an interrupt ends it.
func topOnTerminal(ctx context.Context, control *admin.Client, every time.Duration) error {
	return screen.Raw(os.Stdin, os.Stdout, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		typed := make(chan []byte)
		go screen.ReadKeys(ctx, os.Stdin, typed)
		type answer struct {
			activity admin.Activity
			look     look
			err      error
		}
		answers := make(chan answer, 1)
		ask := func(before admin.Activity) {
			activity, l, err := askLook(ctx, control, &before)
			answers <- answer{activity, l, err}
		}
		go ask(admin.Activity{}) // one at a time, which ends with the answer or with ctx
		asking := true
		tick := time.NewTicker(every)
		defer tick.Stop()
		var view topView
		var last answer
		for shown := false; ; {
			select {
			case <-ctx.Done():
				return nil
			case last = <-answers:
				if asking = false; last.err != nil {
					return untilInterrupted(ctx, last.err)
				}
				shown = true
			case <-tick.C:
				if !asking {
					asking = true
					go ask(last.activity)
				}
				continue
			case text, open := <-typed:
				for _, key := range screen.Pressed(text) {
					if !view.press(key) {
						return nil
					}
				}
				if !open {
					return nil
				}
			}
			if shown {
				if _, err := os.Stdout.Write(view.draw(&last.look, screen.Of(os.Stdout))); err != nil {
					return err
				}
			}
		}
	})
}
