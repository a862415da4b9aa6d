//go:build !linux

package raw

import (
	"context"
	"errors"
	"net"
)

var errLinux = errors.New("this needs Linux")

// Serve fails on this system.
func Serve(context.Context, Answer, ...*net.TCPListener) error { return errLinux }

// Load calls nobody on this system.
type Load struct{}

// NewLoad fails on this system.
func NewLoad(context.Context, string, ...Caller) (*Load, error) { return nil, errLinux }

// Run fails on this system.
func (*Load) Run(context.Context, Run) (Figures, error) { return Figures{}, errLinux }

// Close does nothing.
func (*Load) Close() {}
