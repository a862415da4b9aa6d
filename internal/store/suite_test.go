package store_test

import (
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
)

func TestSuiteInMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Options { return store.Options{} })
}

func TestSuiteOnFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Options {
		return store.Options{Path: filepath.Join(t.TempDir(), "store.db")}
	})
}

func TestSuiteOnPostgres(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Options { return store.Options{URL: shared.SchemaURL(t)} })
}
