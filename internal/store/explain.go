package store

import "fmt"

// explain adds to an error of a driver what happened, where, and what to do. It wraps
// the driver's error.
func explain(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	if advice := advise(err); advice != "" {
		return fmt.Errorf("%s %s: %s (%w)", doing, path, advice, err)
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
