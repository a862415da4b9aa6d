package schedule

import "github.com/toolgate/toolgate/native/group"

// Name is the group's key in the configuration.
const Name = "schedule"

// Settings are the section native.schedule: it serves calls at a time. The group needs
// nothing, so that it is on as "schedule: {}".
type Settings struct{ group.Inside }
