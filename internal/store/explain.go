package store

import "fmt"

// explain turns an error of a driver into a sentence that says what happened,
// where, and what to do. The driver's error stays in the chain.
func explain(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	if advice := advise(err); advice != "" {
		return fmt.Errorf("%s %s: %s (%w)", doing, path, advice, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// advise says what a person can do about err, or nothing.
func advise(err error) string {
	if advice := postgresAdvice(err); advice != "" {
		return advice
	}
	return sqliteAdvice(err)
}
