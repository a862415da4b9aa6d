package admin

import "net"

// listenPrivate opens the socket in the user's own folder, whose access list
// keeps others out.
func listenPrivate(path string) (net.Listener, error) { return net.Listen("unix", path) }

// samePeer relies on the folder and on the token: Windows does not tell who is
// at the other end.
func samePeer(net.Conn) bool { return true }
