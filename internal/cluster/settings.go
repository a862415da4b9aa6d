package cluster

// Settings are how gateways that share a database reach one another.
type Settings struct {
	// host:port at which the others reach this gateway, to pass on what belongs to it: a session, a task, a call that
	// waits for its client. It needs a database that they share (store) and keys that they share (keys). Default:
	// nothing is passed on.
	Advertise string `config:"advertise" format:"address"`
	// host:port to listen on for the others. Default: that of advertise.
	Listen string `config:"listen" format:"address"`
}
