package main

import "os"

// Windows has no SIGHUP; `toolgate reload` is the way there.
var reloadSignals = []os.Signal{}

// surviveBrokenPipes does nothing: a broken pipe is an error there.
func surviveBrokenPipes() {}
