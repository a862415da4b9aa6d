package build

import (
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/sandbox"
	"github.com/toolgate/toolgate/native/group"
)

// Sandbox returns the policy of the process of a server, nil where it is not confined.
func Sandbox(s *config.Server) *sandbox.Policy {
	if s.Sandbox == nil {
		return nil
	}
	return s.Sandbox.Policy(group.Existing(systemPrograms...))
}

// Layers names what enforces a policy on this machine; nil is nothing.
func Layers(p sandbox.Policy) []string {
	l, err := sandbox.Available(p)
	if err != nil {
		return nil // where the policy is used, it is said what is wrong with it
	}
	return l.Names()
}

// CheckGrants refuses to give the process of a server the gateway's own files, or to let
// it change what a server or a tool is started from. A nil receiver refuses everything.
func (k *KeptOff) CheckGrants(read, write, run []string) error {
	if k == nil {
		return errors.New("nothing is granted before a configuration is in force")
	}
	if err := keepsOff(&sandbox.Policy{Read: read, Write: write, Run: run}, k.Own); err != nil {
		return err
	}
	return k.check(write)
}

// CheckSandboxes refuses servers whose sandbox gives them the gateway's own files, or lets
// them change what a server or a tool is started from.
func CheckSandboxes(servers []config.Server, c *config.Config, off *KeptOff) error {
	for i := range servers {
		set := servers[i].Sandbox
		if set == nil {
			continue
		}
		if err := off.CheckGrants(set.Read, set.Write, set.Run); err != nil {
			return failure.New(failure.Config, fmt.Errorf("%s: toolgate.servers.%s.sandbox.%w", c.Path, servers[i].Key, err))
		}
	}
	return nil
}
