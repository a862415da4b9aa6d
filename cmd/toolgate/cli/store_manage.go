package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/daemon/statedir"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/store"
)

// manageTime bounds what is done to a whole store.
const manageTime = 30 * time.Minute

func newStoreCommand(o *options) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "store",
		Short: "Check the store, and make a copy of it",
		Long: `Check the store of a configuration, or make a copy of it, also while a gateway
uses it.`,
	}
	c.PersistentFlags().StringVar(&path, "file", "", "configuration `file`, like the argument of up")
	c.AddCommand(&cobra.Command{
		Use: "check", Short: "Read the whole store and report damage", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), path, func(ctx context.Context, s *store.Store) error {
				if err := s.Check(ctx); err != nil {
					return err
				}
				say("%s: no damage found\n", s.Path())
				return nil
			})
		},
	}, &cobra.Command{
		Use:   "backup TO",
		Short: "Copy the store to a file, as it is at one instant",
		Long: `Copy the store to a new file, as it is at one instant. The copy is a store of
its own: put it in the place of a damaged one while no gateway runs. Of a
PostgreSQL database the server's own tools make copies.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.withStore(cmd.Context(), path, func(ctx context.Context, s *store.Store) error {
				if err := s.Backup(ctx, args[0]); err != nil {
					return err
				}
				say("%s: copied to %s\n", s.Path(), args[0])
				return nil
			})
		},
	})
	return c
}

// withStore hands over the store of a configuration for reading, beside whoever
// writes it.
func (o *options) withStore(ctx context.Context, path string, use func(context.Context, *store.Store) error) error {
	c, err := o.loadConfig(path)
	if err != nil {
		return err
	}
	reading, err := statedir.StoreForReading(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, manageTime)
	defer cancel()
	s, err := store.Open(ctx, reading)
	if err != nil {
		return failure.New(failure.Unreachable, err)
	}
	return failure.New(failure.Unreachable, errors.Join(use(ctx, s), s.Close()))
}
