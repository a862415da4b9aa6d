//go:build e2e

package store_test

import (
	"testing"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

// Behind a pooler of connections statements cannot be prepared; the address
// says so.
func TestSuiteOnPostgresWithoutPreparing(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Options {
		return store.Options{URL: shared.SchemaURL(t) + "&default_query_exec_mode=exec"}
	})
}
