package headroom

// What the tests of the package use of it.
var (
	CgroupIn = cgroupIn
	Used     = used
	Room     = room
	InUse    = inUse
)
