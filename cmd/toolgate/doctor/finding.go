package doctor

import (
	"cmp"
	"strings"
)

// Finding is one thing that is wrong.
type Finding struct {
	Code    string `json:"code"`
	Level   Level  `json:"level"`
	Subject string `json:"subject"` // a server, a setting, a file or an address
	What    string `json:"what"`
	Fix     string `json:"fix"`
}

// Found returns a finding with a code of the table. If fix is empty, it uses the fix of
// the code, with the name of the server. A code that is not in the table is a bug of the program; the finding is an
// error all the same.
func Found(code, subject, what, fix string) Finding {
	c, ok := Find(code)
	if !ok {
		c = Code{ID: code, Level: Error}
	}
	general := strings.ReplaceAll(c.Fix, "toolgate login NAME", "toolgate login "+subject)
	return Finding{Code: code, Level: c.Level, Subject: subject, What: cmp.Or(what, c.Title), Fix: cmp.Or(fix, general)}
}

// Check is one thing that was examined, with what is wrong with it.
type Check struct {
	What     string    `json:"check"`
	Note     string    `json:"note,omitempty"` // what to say if nothing was found
	Findings []Finding `json:"findings"`
}

// Errors counts findings by level.
func Errors(checks []Check) (errors, warnings int) {
	for _, c := range checks {
		for _, f := range c.Findings {
			if f.Level == Warning {
				warnings++
			} else {
				errors++
			}
		}
	}
	return errors, warnings
}
