package admin

import (
	"os"
	"os/user"
	"strconv"
)

// Operator names who uses the control socket: it takes the gateway's own user
// alone.
func Operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user " + u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}
