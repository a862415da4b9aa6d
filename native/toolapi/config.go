package toolapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ReadConfig reads the configuration of a plugin, a JSON object, into a pointer to a
// struct; a key that it does not have is an error.
func ReadConfig(config []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read the configuration: there is something behind it")
	}
	return nil
}

// Answer is a result of its structure alone, which is also its text.
func Answer(v any) (Result, error) {
	raw, err := json.Marshal(v)
	return Result{Structured: raw}, err
}
