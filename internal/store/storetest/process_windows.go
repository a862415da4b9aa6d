package storetest

import (
	"os"
	"os/exec"
)

var (
	crash = os.Kill
	kill  = os.Kill
)

func confine(*exec.Cmd) error { return nil }

func hand(string) error { return nil }
