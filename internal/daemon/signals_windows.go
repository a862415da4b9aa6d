package daemon

import "os"

// Windows has no SIGHUP; `toolgate reload` is the way there.
var reloadSignals = []os.Signal{}
