package statedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// OpenStore opens the store of a configuration: a file, or a database that several
// gateways share. For a database it also locks the state folder, which holds the audit
// log and the control socket of one gateway. With await, the database may be
// unreachable at first.
func OpenStore(ctx context.Context, c *config.Config, state *Dir, log *slog.Logger, await bool) (_ *store.Store, claim io.Closer, err error) {
	own := filepath.Join(state.Path, "store.db")
	o := store.Options{Logger: log, Await: await, Durable: c.Toolgate.Durability != "normal"}
	if path, isFile := strings.CutPrefix(c.Toolgate.Store, "sqlite:"); !isFile {
		o.URL = c.Toolgate.Store
		if claim, err = store.Claim(own); err != nil {
			return nil, nil, busy(err)
		}
		if len(c.Toolgate.Keys) == 0 {
			log.Warn("the store is shared and the keys are not: what this gateway seals, others cannot open; set toolgate.keys on all of them")
		}
	} else if o.Path = path; path == "" {
		o.Path = own
	}
	s, err := store.Open(ctx, o)
	if err != nil {
		if claim != nil {
			claim.Close()
		}
		return nil, nil, busy(err)
	}
	return s, claim, nil
}

// ReadTime bounds reading a store that no gateway holds open.
const ReadTime = 5 * time.Second

// KnownCatalog reads the catalog in the store of a configuration, also while a gateway
// writes it. It is nil where there is none yet.
func KnownCatalog(ctx context.Context, c *config.Config) ([]store.RegistryRecord, error) {
	o, err := StoreForReading(c)
	if err != nil {
		return nil, err
	}
	if o.Path != "" {
		if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTime)
	defer cancel()
	s, err := store.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	records, _, err := s.Registry().List(ctx, store.RegistryFilter{})
	return records, err
}

// busy gives the exit code to the error of a store that another gateway uses.
func busy(err error) error {
	if _, held := errors.AsType[*store.InUseError](err); held {
		return failure.New(failure.Unreachable, err)
	}
	return failure.New(failure.Config, err)
}

// Sharing returns the name of this gateway among those that share its store; empty
// where it has its own.
func Sharing(c *config.Config, state *Dir) string {
	if !c.Toolgate.SharesStore() {
		return ""
	}
	host, _ := os.Hostname() // without a host name, the folder distinguishes them
	sum := sha256.Sum256([]byte(host + "\x00" + state.Path))
	return hex.EncodeToString(sum[:8])
}
