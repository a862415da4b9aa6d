package admin

import (
	"os"
	"os/user"
	"strconv"
)

// Operator names the user of the control socket, which accepts only the gateway's own
// user.
func Operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user " + u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}
