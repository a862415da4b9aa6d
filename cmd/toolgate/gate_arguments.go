package main

import (
	"context"
	"errors"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/proxy"
)

// checkedArguments holds the arguments of calls against the tools' schemas.
type checkedArguments struct{ checker *schema.Checker }

// CheckArguments implements [proxy.ArgumentChecker].
func (a checkedArguments) CheckArguments(_ context.Context, r *gate.Request, input []byte) ([]gate.Demand, error) {
	result, err := a.checker.Check(input, r.Args)
	if quarantined, ok := errors.AsType[*schema.Quarantined](err); ok {
		return nil, proxy.Quarantined(r.Exposed, quarantined.Reason, quarantined.Busy)
	}
	if err != nil {
		return nil, err
	}
	if !result.Valid {
		return nil, proxy.BadArguments(result.Text())
	}
	return nil, nil
}
