package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/failure"
)

func newTop(o *options) *cobra.Command {
	var every time.Duration
	var count int
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch the running gateway at work",
		Long: `Show which tools are called, how often, how long calls take and what fails, until
interrupted. On a terminal each update redraws the screen. With -o json each update
is one line, for programs. --count ends after that many updates.`,
		Example: "  toolgate top\n  toolgate top --count 1 -o json",
		Args:    fileArgument(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < minEvery || count < 0 {
				return failure.Newf(failure.Usage, "write --every %v or more, and --count 0 or more", minEvery)
			}
			return o.withControl(cmd.Context(), func(control *admin.Client) error {
				return o.top(cmd.Context(), control, every, count)
			})
		},
		ValidArgsFunction: completeFiles,
	}
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two updates")
	c.Flags().IntVar(&count, "count", 0, "number of updates; 0 for no end")
	o.outputFlag(c)
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

func (o *options) top(ctx context.Context, control *admin.Client, every time.Duration, count int) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	screen := o.output == "table" && term.IsTerminal(int(os.Stdout.Fd()))
	var before admin.Activity
	for n := 1; ; n++ {
		activity, err := control.Activity(ctx)
		if err != nil {
			return untilInterrupted(ctx, err)
		}
		now, err := overviewOf(ctx, control)
		if err != nil {
			return untilInterrupted(ctx, err)
		}
		if err := o.printLook(lookOf(&before, &activity, &now), screen); err != nil {
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

func (o *options) printLook(l look, screen bool) error {
	switch o.output {
	case "json", "yaml":
		text, err := json.Marshal(l) // JSON is valid YAML
		if err != nil {
			return err
		}
		_, err = fmt.Printf("%s\n", escapedJSON(text))
		return err
	}
	t := table{header: []string{"TOOL", "CALLS", "PER SECOND", "MEAN", "FAILED", "DENIED", "IN ALL"}, data: l}
	for _, row := range l.Tools {
		name := strings.TrimPrefix(row.Server+" "+row.Tool, " ")
		t.names = append(t.names, name)
		if len(t.rows) < topRows || o.output == "wide" {
			t.rows = append(t.rows, []string{
				name, fmt.Sprint(row.Calls), fmt.Sprintf("%.1f", row.Rate), fmt.Sprintf("%.1f ms", row.Millis),
				fmt.Sprint(row.Failed), fmt.Sprint(row.Denied), fmt.Sprint(row.AllTime),
			})
		}
	}
	if o.output == "name" {
		return o.print(os.Stdout, t)
	}
	w := bufio.NewWriter(os.Stdout)
	if screen {
		fmt.Fprint(w, "\x1b[H\x1b[2J") // cursor to the top left, and clear the screen
	}
	ready := "ready"
	if !l.Ready {
		ready = "not ready"
	}
	fmt.Fprintf(w, "%s  mode %s, %s, %d sessions, %d approvals wait, %d breakers are not closed\n", l.Now.Format(time.TimeOnly), printable(l.Mode), ready, l.Sessions, l.Pending, l.Open)
	return errors.Join(o.print(w, t), w.Flush())
}
