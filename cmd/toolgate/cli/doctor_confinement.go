package cli

import (
	"github.com/toolgate/toolgate/cmd/toolgate/doctor"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/daemon"
	"github.com/toolgate/toolgate/internal/sandbox"
)

// confinement reports what is not confined as it should be.
func (e *examination) confinement(c *config.Config) {
	found := []doctor.Finding{}
	for _, u := range daemon.UnconfinedOf(c, sandbox.Available) {
		code := doctor.CodeLoose
		if u.Refused {
			code = doctor.CodeUnconfined
		}
		found = append(found, doctor.Found(code, u.Subject, u.Why, ""))
	}
	if n := &c.Toolgate.Native; n.Code != nil || len(n.Plugins) > 0 || len(found) > 0 {
		e.add("confinement", "", found...)
	}
}
