package store

import (
	"fmt"

	"github.com/toolgate/toolgate/internal/failure"
)

// explain adds to an error of a driver what happened, where, and what to do. It wraps
// the driver's error, whose text it replaces if it can.
func explain(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	if advice := advise(err); advice != "" {
		return failure.Reworded(err, "%s %s: %s", doing, path, advice)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// advise returns what a person can do about err, or nothing.
func advise(err error) string {
	if advice := postgresAdvice(err); advice != "" {
		return advice
	}
	return sqliteAdvice(err)
}
