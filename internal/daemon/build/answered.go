//go:build !bench

package build

import (
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/proxy"
)

// Answered returns what answers the calls of native tools. internal/bench compares with a
// program that can answer them in its own process, which is decided when it is compiled.
func Answered(p *native.Plugin) proxy.Backend { return p }
