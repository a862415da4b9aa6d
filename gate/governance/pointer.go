package governance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolgate/toolgate/internal/mcp"
)

// pointer is a JSON Pointer (RFC 6901) in which the token * matches any token.
type pointer struct {
	text   string
	tokens []string
}

func parsePointers(key string, texts []string) ([]pointer, error) {
	var errs []error
	var pointers []pointer
	for _, text := range texts {
		p, err := parsePointer(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			continue
		}
		pointers = append(pointers, p)
	}
	return pointers, errors.Join(errs...)
}

func parsePointer(text string) (pointer, error) {
	if text == "" {
		return pointer{}, nil
	}
	if text[0] != '/' {
		return pointer{}, fmt.Errorf("%q is not a JSON Pointer; write %q", text, "/"+text)
	}
	tokens := strings.Split(text[1:], "/")
	for i, token := range tokens {
		rest := strings.NewReplacer("~0", "", "~1", "").Replace(token)
		if strings.Contains(rest, "~") {
			return pointer{}, fmt.Errorf("%q is not a JSON Pointer; write ~ as ~0", text)
		}
		tokens[i] = mcp.PointerName(token)
	}
	return pointer{text, tokens}, nil
}
