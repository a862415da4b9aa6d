package system

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/native/toolapi"
)

// journalTime bounds one look at the journal.
const journalTime = 8 * time.Second

type journalEnd struct {
	Lines    []string `json:"lines"`
	Complete bool     `json:"complete"`
}

// unitName is the name of a unit of systemd. It cannot be taken for an option.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_@][A-Za-z0-9:_.@\\-]*$`)

// longestUnit is how many bytes such a name has at most. The expression does not count
// them: one that does costs every start of the program a millisecond.
const longestUnit = 255

// readJournal returns the last lines of the system's journal.
func (s *service) readJournal(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	most, unit, contains := 100, "", ""
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"unit": &unit, "lines": &most, "contains": &contains}); err != nil {
		return toolapi.Result{}, err
	}
	switch {
	case most < 1 || most > 5000:
		return toolapi.Result{}, toolapi.Problemf("lines is between 1 and 5000.")
	case unit != "" && (len(unit) > longestUnit || !unitName.MatchString(unit)):
		return toolapi.Result{}, toolapi.Problemf("unit is the name of a unit, such as ssh.service.")
	case s.journal == "":
		return toolapi.Result{}, toolapi.Problemf("This machine has no journalctl, so its journal cannot be read.")
	}
	looked := most
	if contains != "" {
		looked = maxLooked
	}
	args := []string{"--no-pager", "--quiet", "--reverse", "--output=short-iso", "--lines=" + strconv.Itoa(looked)}
	if unit != "" {
		args = append(args, "--unit="+unit)
	}
	out, err := run(ctx, journalTime, s.max, s.journal, args...)
	if err != nil {
		if ctx.Err() != nil {
			return toolapi.Result{}, ctx.Err()
		}
		return toolapi.Result{}, toolapi.Problemf("The journal cannot be read; the user of the gateway needs to be in the group systemd-journal, and the machine to run systemd.")
	}
	return toolapi.Answer(journalOf(out, most, looked, contains, int64(len(out)) == s.max))
}

// maxLooked is how many lines of the journal are searched for a text.
const maxLooked = 20_000

// journalOf returns the lines that journalctl has printed, the latest first, as they are
// told: the latest last. cut means that its last line is not whole.
func journalOf(out []byte, most, looked int, contains string, cut bool) journalEnd {
	end := journalEnd{Lines: []string{}}
	lines := strings.Split(strings.TrimSuffix(string(bytes.ToValidUTF8(out, []byte("\ufffd"))), "\n"), "\n")
	if len(out) == 0 {
		lines = nil
	}
	if cut && len(lines) > 0 {
		lines = lines[:len(lines)-1]
	}
	end.Complete = !cut && len(lines) < looked
	for _, line := range lines {
		if !strings.Contains(line, contains) {
			continue
		}
		if len(end.Lines) == most {
			end.Complete = false
			break
		}
		if len(line) > longestLine {
			line = strings.ToValidUTF8(line[:longestLine], "") + "..."
		}
		end.Lines = append(end.Lines, legible(line))
	}
	for i, j := 0, len(end.Lines)-1; i < j; i, j = i+1, j-1 {
		end.Lines[i], end.Lines[j] = end.Lines[j], end.Lines[i]
	}
	return end
}
