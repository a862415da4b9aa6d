package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
)

// MakeRoom implements admin.Gateway: only the gateway of a `toolgate stdio`,
// whose client can be served by another, ends for one.
func (ctl *Control) MakeRoom() error {
	if ctl.d.onMakeRoom == nil {
		return fmt.Errorf("process %d serves this configuration already", os.Getpid())
	}
	ctl.d.onMakeRoom()
	return nil
}

// ServeStdio implements admin.Gateway.
func (ctl *Control) ServeStdio(ctx context.Context, key, view string, accept func() (io.Reader, io.Writer, error), refuse func(error)) error {
	scope, err := scopeOf(view)
	if err != nil {
		refuse(err)
		return err
	}
	granted, err := ctl.d.identities.Grant(ctx, key)
	if err != nil {
		refuse(err)
		return err
	}
	r, w, err := accept()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctl.d.ctx, cancel)
	defer stop()
	ctx, leave := ctl.d.identities.WhileGranted(ctx, key, granted)
	defer leave()
	return ctl.d.gateway.ServeStdio(ctx, granted.Identity, scope, r, w)
}
