package memory

import "github.com/toolgate/toolgate/native/group"

// Name is the group's key in the configuration.
const Name = "memory"

// Settings are the section native.memory: it serves what agents keep. The group needs
// nothing, so that it is on as "memory: {}".
type Settings struct{ group.Inside }
